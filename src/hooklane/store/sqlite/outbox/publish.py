"""How does an event get its place? One flow for the server's group commit and for a caller's own transaction."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import Grown, Place
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.codec import decode_endpoint
from hooklane.store.endpoint_cache import EndpointCache, of_tenant
from hooklane.store.outbox import UNKNOWN_ENDPOINT, Draft, Placer, Published, PublishReport, Refused, Stamp
from hooklane.store.sqlite.outbox.lanes import Span
from hooklane.store.sqlite.outbox.names import claim, claim_all, known_before, published_before
from hooklane.store.sqlite.outbox.statements import SQL
from hooklane.store.sqlite.rows import Insert, Many, PublishFlow, Row, blob

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode

_NUMBERS = Statement(SQL["last_numbers"])
_ADD_LANES = Insert(SQL["add_lanes"])
_ADD_EVENTS = Insert(SQL["add_events"])
_ADD_REPLAYS = Insert(SQL["add_replays"])
_ADD_LANE_EVENTS = Insert(SQL["add_lane_events"])
_ADD_LOOSE = Insert(SQL["add_loose"])


LANES_MAX = 20_000
"""So many lanes a connection remembers; beyond that all are forgotten, and asked for again."""


class KnownLanes:
    """Lanes as this very connection left them, each with its id and the seq that comes next in it.

    SQLite tells a connection when another one has committed, and what rolls back says so (`forget`): until then
    nothing else can have moved a lane, and nothing is looked for. (Were it wrong all the same, the place would be
    taken, and the whole would be undone and done anew.)
    """

    __slots__ = ("_version", "next")

    def __init__(self) -> None:
        self._version = -1
        self.next: dict[Place, list[int]] = {}

    def as_of(self, version: int) -> dict[Place, list[int]]:
        """Those that are known still; *version* is SQLite's `data_version` inside of the transaction."""
        if version != self._version or len(self.next) > LANES_MAX:
            self._version = version
            self.forget()
        return self.next

    def forget(self) -> None:
        self.next.clear()


@dataclass(slots=True)
class Accepted:
    """A draft on its way in: the number of its row and its places, which get their seq together with others'."""

    draft: Draft
    n: int
    places: Sequence[Place]
    stamps: list[tuple[str, int, int | None]]
    """(endpoint, lane, seq) each; a loose delivery has a negative lane and no seq."""


class Placed(NamedTuple):
    """What became of some drafts, in their order; a draft stands there twice where another was its twin."""

    results: Sequence[Published | Refused | Accepted]
    accepted: Sequence[Accepted]
    span: Span


def publish(drafts: Sequence[Draft], placer: Placer, cache: EndpointCache | None = None) -> PublishFlow[PublishReport]:
    """Stamp and store *drafts* in order; one that is refused leaves no trace and stops no other."""
    results, accepted, span = yield from place_all(drafts, placer, cache)
    grown = [
        Grown(lane_id, place.pid, endpoint_id, place.key, seq or 1, one.draft.event)
        for one in accepted
        for place, (endpoint_id, lane_id, seq) in zip(one.places, one.stamps, strict=True)
    ]
    return PublishReport(list(_reported(results)), grown, span)


def place_all(
    drafts: Sequence[Draft], placer: Placer, cache: EndpointCache | None = None, lanes: KnownLanes | None = None
) -> PublishFlow[Placed]:
    """The same, told in as little as it takes. *lanes* are what a connection remembers that publishes all the time."""
    cache, lanes = cache or EndpointCache(), lanes or KnownLanes()
    endpoints = yield from _read_endpoints({draft.event.tenant for draft in drafts}, cache)
    ((last_n, last_lane_event, last_loose, last_lane, version),) = yield _NUMBERS
    results: list[Published | Refused | Accepted] = []
    for draft in drafts:
        try:
            results.append(Accepted(draft, 0, placer(draft.event, draft.asked, of_tenant(endpoints, draft)), []))
        except InvalidEvent as error:
            # What was accepted before stays so, though an endpoint that it named is deleted since.
            before = (yield from known_before(draft)) if error.code == UNKNOWN_ENDPOINT else None
            results.append(before or Refused(error.code, str(error)))
    accepted = yield from _admit(results, last_n + 1)
    heads = lanes.as_of(version)
    yield from _look_for_lanes(accepted, heads, last_lane + 1)
    next_lane_event, next_loose = yield from _stamp(accepted, heads, last_lane_event + 1, last_loose + 1)
    span = Span(last_lane_event + 1, next_lane_event - 1, last_loose + 1, next_loose - 1)
    return Placed(results, accepted, span)


def _read_endpoints(tenants: set[str], cache: EndpointCache) -> PublishFlow[Mapping[str, Sequence[Endpoint]]]:
    """Those of each tenant that is there.

    Read inside the publishing transaction: an endpoint whose creation was answered must not be missed.
    """
    found: dict[str, Sequence[Endpoint]] = {}
    for tenant, rev in (yield Statement(SQL["publishing_tenants"], {"tenants": _encode(list(tenants)).decode()})):
        known = cache.of(tenant, rev)
        if known is None:
            docs = yield Statement(SQL["endpoints_of_tenant"], {"tenant": tenant})
            known = cache.keep(tenant, rev, [decode_endpoint(doc) for (doc,) in docs])
        found[tenant] = known
    return found


def _admit(results: list[Published | Refused | Accepted], next_n: int) -> PublishFlow[list[Accepted]]:
    """Number what is new, from *next_n* on; what has a name that is taken gives way in *results* to what took it."""
    asking = [one for one in results if isinstance(one, Accepted)]
    for number, asked in enumerate(asking, start=next_n):
        asked.n = number
    if (yield from claim_all([(one.draft, one.n) for one in asking])):
        return asking
    by_n: dict[int, Accepted] = {}
    ids: dict[int, str] = {}
    for place, one in enumerate(results):
        if not isinstance(one, Accepted):
            continue
        holder = yield from claim(one.draft, next_n, ids)
        if isinstance(holder, Refused):
            results[place] = holder
        elif holder in by_n:
            results[place] = by_n[holder]  # a twin in the same commit
        elif holder is not None:
            results[place] = yield from published_before(one.draft.event.tenant, holder)
        else:
            one.n, by_n[next_n], ids[next_n] = next_n, one, one.draft.event.id
            next_n += 1
    return list(by_n.values())


def _look_for_lanes(accepted: Sequence[Accepted], heads: dict[Place, list[int]], next_lane: int) -> PublishFlow[None]:
    """Have *heads* tell of every lane that is asked for; a new one gets a number from *next_lane* on."""
    tenants = {
        place: one.draft.event.tenant
        for one in accepted
        for place in one.places
        if place.key is not None and place not in heads
    }
    if not tenants:
        return
    asked = _encode([place[:2] for place in tenants]).decode()
    found = {
        (endpoint_id, key): [lane_id, tail + 1]
        for endpoint_id, key, lane_id, tail in (yield Statement(SQL["lane_ends"], {"lanes": asked}))
    }
    new: list[Row] = []
    for place, tenant in tenants.items():
        if (head := found.get(place[:2])) is not None:
            heads[place] = head
        else:
            heads[place] = [next_lane, 1]
            new.append((next_lane, tenant, *place, 1))
            next_lane += 1
    yield Many(_ADD_LANES, new)


def _stamp(
    accepted: Sequence[Accepted], heads: dict[Place, list[int]], next_lane_event: int, next_loose: int
) -> PublishFlow[tuple[int, int]]:
    """Give every accepted event its places.

    *heads* are their lanes, with what comes next in them. Numbers go on from *next_lane_event* and *next_loose*; the
    next ones that are free come back.
    """
    events: list[Row] = []
    replays: list[Row] = []
    lane_events: list[Row] = []
    loose: list[Row] = []
    for one in accepted:
        event, n = one.draft.event, one.n
        tenant = event.tenant
        for place in one.places:
            if place.key is None:
                one.stamps.append((place.endpoint_id, -next_loose, None))
                loose.append((next_loose, tenant, place.endpoint_id, place.pid, n))
                next_loose += 1
            else:
                head = heads[place]
                lane_id, seq = head
                head[1] = seq + 1
                one.stamps.append((place.endpoint_id, lane_id, seq))
                lane_events.append((next_lane_event, tenant, lane_id, seq, n))
                next_lane_event += 1
        row = (
            n,
            tenant,
            event.id,
            event.type,
            event.key,
            blob(event.data),
            event.created_at,
            blob(_encode(one.stamps)),
        )
        if event.replay_of is None and event.trace is None:
            events.append(row)
        else:
            replays.append((*row, event.replay_of, event.trace))
    yield Many(_ADD_EVENTS, events)
    yield Many(_ADD_REPLAYS, replays)
    yield Many(_ADD_LANE_EVENTS, lane_events)
    yield Many(_ADD_LOOSE, loose)
    return next_lane_event, next_loose


def _reported(results: Sequence[Published | Refused | Accepted]) -> Generator[Published | Refused]:
    first: set[int] = set()
    for result in results:
        if isinstance(result, Accepted):
            event = result.draft.event
            stamps = tuple(Stamp(endpoint, seq) for endpoint, _, seq in result.stamps)
            yield Published(event.id, event.type, event.key, event.created_at, stamps, repeated=result.n in first)
            first.add(result.n)
        else:
            yield result


def singly(flow: PublishFlow[T]) -> Flow[T]:
    """The same flow for a connection that takes one statement at a time: a caller's own."""
    try:
        wanted = next(flow)
        while True:
            if isinstance(wanted, Many):
                rows: list[Sequence[Any]] = []
                for row in wanted.rows:
                    params = dict(zip(wanted.insert.columns, row, strict=True))
                    rows.extend((yield Statement(wanted.insert.single, params)))
                wanted = flow.send(rows)
            else:
                wanted = flow.send((yield wanted))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
