"""On which session of a database was something read? What it counts by may not mean the same on another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a database, as it described itself while it read something."""

    server: str
    """Which history it belongs to: the database cluster, and the timeline that it writes."""
    id: str
    """No other session of that server has or had this one."""
    began_at: int | None
    """When it began, by the clock of *read_at*; None where no pooler stands between, and that is not asked."""
    read_at: int
