"""What a checker of a history knows of one lane."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """What the checker must know of a lane's endpoint."""

    attempts_max: int
    backoff_ms: int
    backoff_cap_ms: int
    skips_dead: bool = False


class LaneBook:
    """What is known of one lane."""

    __slots__ = (
        "blocked",
        "digests",
        "due",
        "ended",
        "excused",
        "failures",
        "flying",
        "head",
        "ids",
        "kills",
        "known",
        "landed",
        "next_at",
        "pid",
        "rules",
        "settled",
        "skipped",
        "tried",
    )

    def __init__(self, pid: int, rules: Rules) -> None:
        self.pid = pid
        self.rules = rules
        self.ids: list[str] = []
        self.known: set[str] = set()
        self.digests: dict[int, int] = {}
        self.head = 1
        """The durable head: everything below it is acked, skipped or cancelled."""
        self.blocked = False
        self.failures = self.tried = 0
        self.next_at = 0
        self.ended = False
        """Whether an attempt has come to an end of which nothing is durable yet."""
        self.due = self.settled = 0.0
        """The true times before which the next attempt would be early, and at which the last one ended."""
        self.landed: dict[int, int] = {}
        """By seq: the epoch under which the receiver said 2xx, until that is durable."""
        self.excused: set[int] = set()
        self.skipped: set[int] = set()
        self.flying: dict[tuple[str, int], int] = {}
        self.kills = 0
        """How many workers the head has killed."""

    def advance(self, seq: int) -> None:
        self.head = seq + 1
        self.blocked = False
        self.failures = self.tried = self.next_at = self.kills = 0
        self.ended = False
        self.landed.pop(seq, None)
        self.excused.discard(seq)
