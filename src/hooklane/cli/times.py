"""How are times and spans written for a person? Short, and in the zone of the terminal."""

from __future__ import annotations

from datetime import UTC, datetime


def clock_of(at: str) -> str:
    """`14:02:11`: the time of day of an RFC 3339 time, here."""
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")


def since(at: str | None) -> str:
    """`12m04s`, `31s`, `3h05m`, `2d04h`: how long ago."""
    return "" if at is None else span((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())


def wait_of(began_at: str, took_ms: float, due_at: str) -> str:
    """`1.1 s`, `12m04s`: how long after its end an attempt is followed by the next."""
    between = datetime.fromisoformat(due_at) - datetime.fromisoformat(began_at)
    left = max(0.0, between.total_seconds() - took_ms / 1000)
    return f"{left:.1f} s" if left < 60 else span(left)


def span(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3_600}h{whole % 3_600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3_600:02}h"
