"""What did a receiver see? Its log, held against what was accepted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hooklane.testing.violation import Violation


@dataclass(frozen=True, slots=True)
class Arrival:
    """One delivery as a receiver logged it; *lane* is any name for (endpoint, key)."""

    lane: str
    seq: int
    event_id: str
    digest: int
    took: bool
    """Whether it was answered with 2xx."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What a receiver saw, in figures, with every violation in words."""

    lost: int
    reordered: int
    duplicates: int
    violations: tuple[Violation, ...]


def tally(accepted: dict[str, list[str]], arrivals: Iterable[Arrival], skipped: dict[str, set[int]]) -> Tally:
    """Check a receiver's log against what was accepted (event ids by lane, in order of seq) and what was skipped.

    For runs of real processes, where the sender is not seen from inside.
    """
    found: list[Violation] = []
    taken: dict[str, set[int]] = {lane: set() for lane in accepted}
    first_missing = dict.fromkeys(accepted, 1)
    digests: dict[tuple[str, int], int] = {}
    lost = reordered = duplicates = 0
    for one in arrivals:
        ids = accepted.get(one.lane, [])
        if not 0 < one.seq <= len(ids) or ids[one.seq - 1] != one.event_id:
            found.append(Violation(17, f"lane {one.lane}: {one.event_id} arrived as {one.seq}"))
            continue
        if digests.setdefault((one.lane, one.seq), one.digest) != one.digest:
            found.append(Violation(17, f"lane {one.lane}: two copies of {one.seq} have different bytes"))
        if not one.took:
            continue
        mine, given_up = taken[one.lane], skipped.get(one.lane, set())
        if one.seq in mine:
            duplicates += 1
            continue
        mine.add(one.seq)
        missing = first_missing[one.lane]
        while missing in mine or missing in given_up:
            missing += 1
        first_missing[one.lane] = missing
        if missing < one.seq:
            reordered += 1
            found.append(Violation(3, f"lane {one.lane}: {one.seq} was taken before {missing}"))
    for lane, ids in accepted.items():
        gone = [seq for seq in range(1, len(ids) + 1) if seq not in taken[lane] and seq not in skipped.get(lane, set())]
        lost += len(gone)
        if gone:
            found.append(Violation(2, f"lane {lane}: {gone[:5]} never arrived"))
    return Tally(lost, reordered, duplicates, tuple(found))
