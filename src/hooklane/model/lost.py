"""What a database has lost: a failover to an asynchronous standby loses the last commits, which may have been sent.

A place of which the event is lost is filled with a *lost event*, which says so. It is never sent: its lane passes over
it, on record, so that no other event gets a seq that receivers have seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hooklane.model.audit import Act
from hooklane.model.clock import START, Instant
from hooklane.model.event import Event

LOST_TYPE = "hooklane.lost"
REASON = "lost"
ACTOR = "failover"
REUSED = "seq_reused"
"""Why a delivery is no success: receivers had seen its seq with another event, and may have dropped it as old."""
_PREFIX = "lost:"
"""No caller's event has such an id: a colon is not allowed in one."""
NAMED_MAX = 20


class KnownPlace(NamedTuple):
    """Where an event stood when this process sent or published it; without a key it stood in no lane."""

    tenant: str
    endpoint_id: str
    key: str | None
    pid: int
    seq: int
    event_id: str
    created_at: Instant = START


Ids = Mapping[int, Sequence[str]]
"""Events by seq. Of a place in the store: the one that stands there, and those that are on record as lost there."""


@dataclass(frozen=True, slots=True)
class Mend:
    """What is to be done with one lane: places are filled with lost events, and others move up behind them."""

    first: int
    """From here on nothing stays as it is."""
    lost: Ids
    """Places to be filled, each with the ids of the events that were there, as far as they are known."""
    moves: tuple[tuple[int, int], ...]
    """The other events from *first* on: each from a place to a later one."""
    tail: int
    """Where the lane ends then."""
    reused: Ids
    """Places that the head has passed with another event than those that were sent there before."""
    unnamed: Ids
    """Places that are filled already, with events that are not on record there yet."""

    @property
    def all_lost(self) -> tuple[tuple[int, str], ...]:
        return tuple((seq, id) for ids in (self.lost, self.unnamed) for seq, some in ids.items() for id in some or [""])

    @property
    def all_reused(self) -> tuple[tuple[int, str], ...]:
        return tuple((seq, id) for seq, ids in self.reused.items() for id in ids)


Decide = Callable[[Ids, Ids, int, int], Mend | None]
"""`core.lost.mend`; a store calls it while it holds the lane."""


@dataclass(frozen=True, slots=True)
class LostLane:
    """A lane, or with no key an endpoint's deliveries without order, of which something was lost; it is on record."""

    tenant: str
    endpoint_id: str
    key: str | None
    lost: tuple[tuple[int, str], ...]
    reused: tuple[tuple[int, str], ...] = ()
    next_seq: int = 0
    moved: int = 0

    def act(self, now: Instant) -> Act:
        """The line for the audit log."""
        subject = self.endpoint_id if self.key is None else f"{self.endpoint_id} {self.key}"
        return Act(tenant=self.tenant, at=now, actor=ACTOR, action="lane.jumped", subject=subject, note=self.note)

    @property
    def note(self) -> str:
        """The sentence for the audit log."""
        if self.key is None:
            return f"the database lost what was sent without order: {', '.join(id for _, id in self.lost[:NAMED_MAX])}"
        said = []
        if self.lost:
            said.append(f"the database lost {_named(self.lost)}")
        if self.moved:
            said.append(f"{self.moved} later events moved up behind them")
        if self.reused:
            said.append(f"these seqs were given out twice, and delivered with another event: {_named(self.reused)}")
        return f"{'; '.join(said)}; the lane goes on at #{self.next_seq}"


def reused_in(note: str) -> list[str]:
    return note.split()[1:] if note.startswith(REUSED) else []


def _named(places: Sequence[tuple[int, str]]) -> str:
    names = [f"#{seq} ({event_id})" if event_id else f"#{seq}" for seq, event_id in places[:NAMED_MAX]]
    return ", ".join(names) + (f" and {len(places) - NAMED_MAX} more" if len(places) > NAMED_MAX else "")


def sent_by_seq(places: Sequence[KnownPlace]) -> dict[int, list[str]]:
    """What receivers have seen in one lane: where one seq was given out twice, the first event is known by it."""
    sent: dict[int, list[str]] = {}
    for place in places:
        ids = sent.setdefault(place.seq, [])
        if place.event_id not in ids:
            ids.append(place.event_id)
    return sent


def by_lane(places: Sequence[KnownPlace]) -> dict[tuple[str, str], list[KnownPlace]]:
    """Those that stand in a lane, by endpoint and key."""
    lanes: dict[tuple[str, str], list[KnownPlace]] = {}
    for place in places:
        if place.key is not None:
            lanes.setdefault((place.endpoint_id, place.key), []).append(place)
    return lanes


def lost_event(place: KnownPlace, now: Instant, lost: Sequence[str] = ()) -> Event:
    """What stands in a place whose event is lost (without a key, in none); its id is always the same."""
    what = place.key if place.key is not None else place.event_id
    where = hashlib.sha256(f"{place.endpoint_id}\0{what}".encode()).hexdigest()[:20]
    data = json.dumps({"events": list(lost), "endpoint": place.endpoint_id, "seq": place.seq}).encode()
    return Event(f"{_PREFIX}{where}:{place.seq}", LOST_TYPE, place.key, data, now, place.tenant)


def lost_in(data: bytes) -> list[str]:
    """The events that a lost event tells of."""
    return list(json.loads(data)["events"])


def reused_note(lost: Sequence[str]) -> str:
    """Why a delivery is no success, with the events that had its seq before."""
    return " ".join((REUSED, *lost))


def is_lost(event: Event) -> bool:
    return event.type == LOST_TYPE and is_lost_id(event.id)


def skip_note(reason: str) -> str:
    """Why a lane has passed over an event without a person's doing."""
    return "the database lost it" if reason == REASON else f"policy on_dead=skip: {reason}"


def is_lost_id(event_id: str) -> bool:
    return event_id.startswith(_PREFIX)
