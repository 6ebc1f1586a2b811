"""How are times and spans written for a person? Short, and in the zone of the terminal."""

from __future__ import annotations

from datetime import UTC, datetime


def clock_of(at: str) -> str:
    """`14:02:11`: the time of day of an RFC 3339 time, here."""
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")


def since(at: str | None) -> str:
    """`12m04s`, `31s`, `3h05m`, `2d04h`: how long ago."""
    return "" if at is None else span((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())


def until(at: str) -> str:
    """`in 1.1 s`, `in 12m04s`: when something is due."""
    left = (datetime.fromisoformat(at) - datetime.now(UTC)).total_seconds()
    return "now" if left <= 0 else f"in {left:.1f} s" if left < 60 else f"in {span(left)}"


def span(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3_600}h{whole % 3_600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3_600:02}h"
