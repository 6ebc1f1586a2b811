"""The sources of the inbox: what came, what became of it, and what is kept; from the store, and from this process.

An application's own process knows its verdicts, its handlers' times and its breakers; the store knows its rows. Where
the inbox runs in this process (as in `hooklane dev`), both are told, else what only the process knows is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooklane.core.figures import quantile_ms
from hooklane.model.clock import Instant, rfc3339, wall_now
from hooklane.model.inbox import OPEN, Count
from hooklane.model.message import Status
from hooklane.server.inbox_tally import InboxTally, SourceTally
from hooklane.server.views import View
from hooklane.store.open import Outbox

LATE_S = 60
DAY_S = 86_400


async def sources_of(store: Outbox, live: InboxTally) -> list[View]:
    """All sources, as the store and this process know them."""
    now = wall_now()
    counts = await store.ask_inbox(lambda verbs: verbs.counts())
    minute = await store.inbox_of_late(Instant(now - 1000 * LATE_S))
    day = await store.inbox_of_late(Instant(now - 1000 * DAY_S))
    return source_views(counts or (), minute, day, live.sources, live.rules)


def source_views(
    counts: Sequence[Count],
    minute: Mapping[str, tuple[int, int]],
    day: Mapping[str, tuple[int, int]],
    live: Mapping[str, SourceTally],
    rules: Mapping[str, tuple[int, int | None]],
) -> list[View]:
    """One for each source; *rules* are (retention, how long its sender retries) in ms, where they are known."""
    names = sorted({*(count.source for count in counts), *live, *day, *rules})
    return [
        _view(name, [one for one in counts if one.source == name], minute, day, live.get(name), rules) for name in names
    ]


def _view(
    name: str,
    counts: Sequence[Count],
    minute: Mapping[str, tuple[int, int]],
    day: Mapping[str, tuple[int, int]],
    live: SourceTally | None,
    rules: Mapping[str, tuple[int, int | None]],
) -> View:
    rows: dict[Status, int] = {}
    for count in counts:
        rows[count.status] = rows.get(count.status, 0) + count.rows
    retention_ms, retries_ms = rules.get(name, (None, None))
    oldest: Instant | None = min((count.oldest_at for count in counts), default=None)
    late = sum(minute.get(name, (0, 0))) if minute or live is None else live.lately()
    return {
        "source": name,
        "live": live is not None,
        "received_per_s": round(late / LATE_S, 2),
        "received": _received(rows, day.get(name, (0, 0)), live),
        "applied": rows.get(Status.COMPLETED, 0) if counts or live is None else live.verdicts["applied"],
        "duplicate": live.verdicts["duplicate"] if live is not None else day.get(name, (0, 0))[1],
        "stale": rows.get(Status.STALE, 0) if counts or live is None else live.verdicts["stale"],
        "failed": rows.get(Status.FAILED, 0),
        "dead": rows.get(Status.DEAD, 0),
        "owed": sum(rows.get(status, 0) for status in OPEN),
        "rejected": None if live is None else dict(live.rejected),
        "handler_p95_ms": None if live is None else quantile_ms(live.handler.counts, 0.95),
        "breakers": None
        if live is None
        else [{"handler": one, "state": state} for one, state in live.breakers.items()],
        "retention_s": None if retention_ms is None else retention_ms // 1000,
        "sender_retries_s": None if retries_ms is None else retries_ms // 1000,
        "warning": _warning(retention_ms, retries_ms),
        "oldest_at": None if oldest is None else rfc3339(oldest),
    }


def _received(rows: Mapping[Status, int], day: tuple[int, int], live: SourceTally | None) -> int:
    return sum(live.verdicts.values()) if live is not None else sum(rows.values()) + day[1]


def _warning(retention_ms: int | None, retries_ms: int | None) -> str | None:
    if retention_ms is None or retries_ms is None or retention_ms >= retries_ms:
        return None
    return (
        f"ids are kept {_days(retention_ms)}, but the sender retries for {_days(retries_ms)}:"
        " a late copy would be taken for a new event"
    )


def _days(ms: int) -> str:
    days: Any = round(ms / (1000 * DAY_S), 1)
    return f"{days:g} d"
