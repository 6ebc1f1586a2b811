"""What lies between two sides? Of each key: what the sender was told arrived, and what the receiver has applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hooklane.model.inbox import OPEN
from hooklane.model.lane import LaneState
from hooklane.model.message import Status

NOT_APPLIED = (*OPEN, Status.DEAD)
"""Statuses of a row whose effect is not there."""


class Act(StrEnum):
    """What mends a key."""

    SEND_AGAIN = "send_again"
    """The sender delivers an event once more, under the same id and seq."""
    HANDLE_AGAIN = "handle_again"
    """The receiver runs its handlers again."""
    REPLAY_LETTER = "replay_letter"
    """The sender tries a dead letter again."""
    RESUME = "resume"
    """The endpoint is paused, and delivers again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """An event that the receiver has and has not applied."""

    row: str
    event_id: str
    seq: int | None
    status: Status
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An event whose delivery the sender has on record, and of which the receiver has nothing."""

    event_id: str
    seq: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InLine:
    """What the lane of a key still has to deliver."""

    head: int
    tail: int
    state: LaneState
    reason: str | None = None
    dead_letter: str | None = None

    @property
    def events(self) -> int:
        return max(0, self.tail - self.head + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """What both sides say about a key. *acked* and *applied* are seqs; None where a side does not know one."""

    key: str | None
    acked: int | None
    applied: int | None
    line: InLine | None = None
    lost: Sequence[Lost] = ()
    received: Sequence[Received] = ()


@dataclass(frozen=True, slots=True)
class Between:
    """One event, or the line of them at the sender, that is published and not applied."""

    seq: int | None
    event_id: str | None
    where: str
    """`sender`: not delivered yet. `lost`: delivered, and the receiver has no row. `receiver`: not applied yet."""
    status: str
    events: int = 1
    row: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Mend:
    """What to do first about a key, and with what: events, rows or a dead letter."""

    act: Act
    names: tuple[str, ...] = ()


def between(facts: KeyFacts) -> list[Between]:
    """What is in between, in the order of the key; the line at the sender comes last, as it does in the key."""
    found = [Between(one.seq, one.event_id, "lost", "lost") for one in facts.lost]
    found += [
        Between(one.seq, one.event_id, "receiver", str(one.status), row=one.row, reason=one.error)
        for one in facts.received
    ]
    found.sort(key=lambda one: (one.seq is None, one.seq or 0))
    line = facts.line
    if line is not None and line.events:
        found.append(Between(line.head, None, "sender", str(line.state), line.events, reason=line.reason))
    return found


def mend(facts: KeyFacts) -> Mend | None:
    """What the first of it needs; None where all of it moves by itself.

    A held event needs nothing: it is released by the one before it, which is mended first, or is known to neither side.
    """
    for one in between(facts):
        match one.where, one.status:
            case "lost", _:
                return Mend(Act.SEND_AGAIN, tuple(lost.event_id for lost in facts.lost))
            case "receiver", (Status.DEAD | Status.FAILED):
                again = (Status.DEAD, Status.FAILED)
                return Mend(Act.HANDLE_AGAIN, tuple(each.row for each in facts.received if each.status in again))
            case "sender", LaneState.BLOCKED if facts.line and facts.line.dead_letter:
                return Mend(Act.REPLAY_LETTER, (facts.line.dead_letter,))
            case "sender", LaneState.PAUSED:
                return Mend(Act.RESUME)
            case _:
                pass
    return None
