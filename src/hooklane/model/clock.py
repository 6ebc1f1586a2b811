"""What time is it? Integer milliseconds everywhere; code that decides is handed the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NewType

Instant = NewType("Instant", int)
"""Milliseconds since 1970 in UTC."""

START = Instant(0)
FOREVER: Final = Instant(2**62)
FIRST_TOLD, LAST_TOLD = Instant(-62_135_596_800_000), Instant(253_402_300_799_999)
"""The years 1 to 9999: an instant before or after them has no text of its own."""
_MILLISECONDS: Final = [f".{ms:03d}Z" for ms in range(1000)]


def wall_now() -> Instant:
    """The host's wall clock; only shells call it."""
    return Instant(time.time_ns() // 1_000_000)


def boot_now() -> Instant:
    """Milliseconds of a clock that never jumps and counts suspended time: for leases and deadlines."""
    return Instant(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000)


def rfc3339(at: Instant) -> str:
    """*at* as `2026-03-01T12:00:00.000Z`; the nearest that can be told where *at* is not within the years 1 to 9999."""
    seconds, ms = divmod(at, 1000)
    return _to_the_second(seconds) + _MILLISECONDS[ms]


@lru_cache(maxsize=256)  # the events of a second share it
def _to_the_second(seconds: int) -> str:
    told = min(max(seconds, FIRST_TOLD // 1000), LAST_TOLD // 1000)
    return datetime.fromtimestamp(told, UTC).replace(tzinfo=None).isoformat()
