"""Where does the next page start? Cursors are numbers as text; anything else is refused, never guessed."""

from __future__ import annotations

from hooklane.errors import UsageError


def number_of(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not cursor.isdecimal() or len(cursor) > 18:
        raise UsageError(f"not a cursor of this list: {cursor[:40]!r}")
    return int(cursor)


def rank_and_lane_of(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return -1, 0
    rank, _, lane_id = cursor.partition(".")
    return number_of(rank) or 0, number_of(lane_id) or 0


def letter_place_of(cursor: str | None) -> tuple[int, str]:
    """When the last dead letter of the page before died, and its id."""
    died_at, _, letter = (cursor or "0.").partition(".")
    return number_of(died_at) or 0, letter


def age_place_of(cursor: str | None) -> tuple[int, int, int] | None:
    """Rank, since when, and lane of the last lane of the page before; None where the cursor is of another order."""
    parts = (cursor or "0.0.0").split(".")
    if len(parts) != 3:
        return None
    return number_of(parts[0]) or 0, number_of(parts[1]) or 0, number_of(parts[2]) or 0
