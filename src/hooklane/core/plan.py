"""What would this recovery do? A frozen set in order, who is left out and why, and what the receiver will see."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Member, Op, PlacedEvent
from hooklane.model.size import counted

PLAN_MS = 5 * 60_000
SKIPS_MAX = 500
MEMBERS_MAX = 200_000
REFUSED_SHOWN_MAX = 1_000

_REPLAYABLE = (DeliveryState.DEAD, DeliveryState.DELIVERED, DeliveryState.SKIPPED)


@dataclass(frozen=True, slots=True)
class Frozen:
    """The members of a plan in the order in which they will be released, and those that cannot be."""

    members: Sequence[Member]
    refused: Sequence[tuple[str, str]]
    digest: str

    @property
    def keys(self) -> int:
        return len({member.line for member in self.members})


def freeze(op: Op, found: Iterable[Member], endpoints: Mapping[str, Endpoint], asked: Sequence[str] = ()) -> Frozen:
    """Sort out what was found: in order per key, each once. *asked* are ids that a person named."""
    members: dict[tuple[str, str], Member] = {}
    refused: list[tuple[str, str]] = []
    known: set[str] = set()
    for member in found:
        known |= {member.event_id, member.name}
        why = why_not(op, member, endpoints.get(member.endpoint_id))
        if why is None:
            members[member.event_id, member.endpoint_id] = member
        else:
            refused.append((member.name, why))
    refused += [(one, "there is no such event or dead letter") for one in asked if one not in known]
    ordered = sorted(members.values(), key=lambda member: (member.line, member.place))
    return Frozen(ordered, refused, digest_of(op, ordered))


def why_not(op: Op, member: Member, endpoint: Endpoint | None) -> str | None:
    """Why this one cannot be replayed or skipped; None when it can."""
    match member.state:
        case DeliveryState.CANCELLED:
            return "it was cancelled with its endpoint"
        case DeliveryState.QUEUED | DeliveryState.IN_FLIGHT | DeliveryState.RETRYING:
            return "it is still on its way"
        case _ if op is Op.SKIP and member.state is not DeliveryState.DEAD:
            return f"it is {member.state}, and only what is dead can be skipped"
        case _ if endpoint is None:
            return "its endpoint is deleted"
        case DeliveryState.DELIVERED | DeliveryState.SKIPPED if endpoint.state.is_deleted:
            return "its endpoint is being deleted and takes nothing new"
    assert member.state in _REPLAYABLE
    return None


def digest_of(op: Op, members: Sequence[Member]) -> str:
    """A name for exactly this act on exactly these members, each as it stood."""
    text = hashlib.sha256(op.encode())
    for member in members:
        text.update(f"\n{member.event_id}\t{member.endpoint_id}\t{member.state}\t{member.version}".encode())
    return text.hexdigest()


@dataclass(frozen=True, slots=True)
class Release:
    """What follows when the dead head of a lane is given up: events in order, and the jump that the receiver sees."""

    endpoint_id: str
    key: str
    skipped: int
    acked: int
    gives_up: PlacedEvent | None
    """The event that is never delivered."""
    released: Sequence[PlacedEvent]
    """The first of those that will be sent."""
    more: int
    """How many follow after those."""

    @property
    def sees(self) -> str:
        """`seq 6 → 8`: the last that was acked and the next that will come."""
        return f"seq {self.acked} → {self.skipped + 1}"


def warnings(op: Op, members: Sequence[Member], endpoints: Mapping[str, Endpoint]) -> list[str]:
    """What a person should know before saying yes."""
    told: list[str] = []
    concerned = {member.endpoint_id for member in members}
    for endpoint_id in sorted(concerned):
        endpoint = endpoints.get(endpoint_id)
        if endpoint is not None and endpoint.state.is_held:
            name = endpoint.name or endpoint.id
            told.append(f"{name} is {endpoint.state}: nothing of this is sent before it is resumed")
    again = sum(member.state is DeliveryState.DELIVERED for member in members)
    if again:
        told.append(
            f"{counted(again, 'event was', 'events were')} delivered before: the receiver will see the same id and seq"
            " once more, and should suppress it"
        )
    anew = sum(member.state is DeliveryState.SKIPPED for member in members)
    if anew:
        told.append(
            f"{counted(anew, 'event was', 'events were')} skipped: published again as a new event at the end of its"
            " key, behind what came later (X-Replay-Of names the old one)"
        )
    if op is Op.SKIP:
        ordered = sum(member.seq is not None for member in members)
        if ordered:
            told.append(
                f"{counted(ordered, 'event is', 'events are')} never delivered, and what waits behind is sent at once:"
                " this cannot be undone. X-Prev-Seq tells the receiver of the gap"
            )
    return told
