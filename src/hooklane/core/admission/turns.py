"""Is it this message's turn? A key's messages apply in the order of their seq, each after the one it names."""

from __future__ import annotations

from enum import StrEnum


class Turn(StrEnum):
    """Where a message stands relative to what was applied."""

    READY = "ready"  # its predecessor is applied
    EARLY = "early"  # its predecessor is not applied yet
    PAST = "past"  # it, or a later one, was applied


class OnGap(StrEnum):
    """What happens when a predecessor never comes."""

    STOP = "stop"  # wait for a person
    SKIP = "skip"  # go on without it, and say so
    RESYNC = "resync"  # ask the application to fetch the state, then go on


class OnDead(StrEnum):
    """What a dead letter does to the later messages of its key."""

    BLOCK = "block"
    SKIP = "skip"
    RESYNC = "resync"


def whose_turn(*, seq: int, prev_seq: int, applied: int) -> Turn:
    """Apply only what is newer than *applied*, and only when everything before it was applied (or skipped by the
    sender, which then names the last one that was not)."""
    if seq <= applied:
        return Turn.PAST
    return Turn.READY if prev_seq <= applied else Turn.EARLY
