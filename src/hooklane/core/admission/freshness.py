"""Is this newer than what we have? Times become integers before they are compared, and ties have an order.

ISO strings compared as text are wrong ("…45Z" > "…45.500Z" is true, and "+02:00" is not "Z"), and so are mixed units.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from fnmatch import fnmatchcase
from typing import Any

from hooklane.model.clock import Instant

Pick = str | Callable[[Any], Any]
"""Where a value is in the JSON of a message: a path such as `data.object.id` or `items.0.id`, or a callable."""

SKEW_MS = 300_000
RANKS = ("*created*", "*updated*", "*deleted*")

_INDEX = re.compile(r"\[(\d+)\]")
_NUMBER = re.compile(r"-?\d{1,19}(\.\d{1,9})?")
_VERSION = re.compile(r"-?\d{1,300}(\.\d{1,20})?", re.ASCII)
_HALF = 2**63
_FIRST_US = -62_135_596_800_000_000
"""The year 1, in which calendars begin: a time before it fits into no column, or is none."""
_EXACT = Context(prec=700)
"""More digits than any version has: a float has up to 341 behind the point, a text up to 320."""


def pick(document: Any, where: Pick) -> Any:
    """The value at *where*, or None when something on the way is missing."""
    if callable(where):
        return where(document)
    value = document
    for part in _INDEX.sub(r".\1", where).split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def microseconds(value: Any) -> int:
    """A time as microseconds since 1970 UTC. Numbers are taken by size: seconds, milliseconds, micro- or nanoseconds.

    Raises ValueError for what is not a time, or lies before the year 1.
    """
    try:
        at_us = _microseconds(value)
    except OverflowError:  # with its offset it is in the year 0 or 10000
        at_us = _FIRST_US - 1
    if at_us < _FIRST_US:
        raise ValueError(f"a time between the years 1 and 9999 was expected, got {str(value)[:40]!r}")
    return at_us


def _microseconds(value: Any) -> int:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"a datetime needs a time zone to be compared, got {value!r}")
        # Not timestamp(): a float cannot hold microseconds of this century exactly.
        delta = value.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if isinstance(value, bool) or value is None:
        raise ValueError(f"a time was expected, got {value!r}")
    if isinstance(value, int):
        return _by_size(value)
    if isinstance(value, float):
        if value != value or abs(value) > 1e18:
            raise ValueError(f"a time was expected, got {value!r}")
        unit = _unit(round(value))
        return round(value * unit) if unit > 1 else _by_size(round(value))
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            whole, _, fraction = text.partition(".")
            number = int(whole)
            part = int(fraction.ljust(9, "0")) * _unit(number) // 10**9  # of a second or a millisecond, in microseconds
            return _by_size(number) + (-part if whole.startswith("-") else part)
        return _iso(text)
    raise ValueError(f"a time was expected, got a {type(value).__name__}")


def _by_size(number: int) -> int:
    return number * _unit(number) if abs(number) < 10**17 else number // 1_000


def _unit(number: int) -> int:
    """The microseconds in a unit of *number*: a second or a millisecond; 1 where the unit is not longer than one."""
    size = abs(number)
    if size < 10**11:
        return 1_000_000
    return 1_000 if size < 10**14 else 1


def _iso(text: str) -> int:
    try:
        # Python reads up to six digits of a second, and no "z"; RFC 3339 has both. What is more is cut, not refused.
        at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.upper()))
    except ValueError:
        raise ValueError(f"a time was expected (a number, or RFC 3339), got {text[:40]!r}") from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return _microseconds(at)


def is_future(at_us: int, now: Instant, skew_ms: int) -> bool:
    """Whether *at_us* lies so far ahead that its clock must be wrong: it would freeze the field for ever."""
    return at_us > (now + skew_ms) * 1000


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """What is compared: the time, then what breaks a tie."""

    at: int
    tie: str


def tie(*, version: Any, type: str, ranks: Sequence[str], event_id: str) -> str:
    """What decides between messages of one instant: the provider's version, then the rank of the type, then the id,
    which is not the truth but at least the same everywhere."""
    return f"{_sortable(version)}/{rank(type, ranks):03d}/{event_id}"


def rank(type: str, ranks: Sequence[str]) -> int:
    """The place of *type* in *ranks*, patterns in the order of a life: created before updated before deleted.

    A type that matches none (`invoice.paid`) changed what was there: it ranks with the second of three or more, between
    two, and before a single one.
    """
    found = next((place for place, pattern in enumerate(ranks, 1) if fnmatchcase(type, pattern)), None)
    if found is None:
        return 2 if len(ranks) > 1 else 0
    return 3 if found == len(ranks) == 2 else found  # 2 is between them


def _sortable(version: Any) -> str:
    """Text that compares as the version does: numbers by their size, whether they come as numbers or as text."""
    if version is None:
        return ""
    text = str(version).replace("\0", "\ufffd")  # which PostgreSQL does not keep
    is_number = isinstance(version, int | float) and not isinstance(version, bool) and version - version == 0
    if not (is_number or _VERSION.fullmatch(text)):
        return text
    number = Decimal(text)
    whole = int(number.to_integral_value(ROUND_FLOOR))
    if whole >= _HALF:
        return f"~{len(str(whole)):03d}{whole}"
    part = f"{_EXACT.subtract(number, Decimal(whole)):f}".partition(".")[2].rstrip("0") if whole >= -_HALF else ""
    # What follows is a slash: with a dot, 9.5 would come before 9.
    return f"{max(whole + _HALF, 0):020d}{':' if part else ''}{part}"
