"""Figures of very many endpoints are counted and written a few at a time: deliveries go on in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hooklane.core.fanout import places
from hooklane.model.clock import Instant
from hooklane.server.metrics import Meter
from hooklane.server.series import ENDPOINTS_MAX, PART, Series
from hooklane.server.tally import EndpointTally
from hooklane.server.totals import Totals
from hooklane.store.dashboard import SeriesRow
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox

ENDPOINTS = 1_000
MINUTE = Instant(1_700_000_040_000)


def attempt(meter: Meter, number: int) -> None:
    one = meter.tally.endpoints.setdefault(f"ep_{number}", EndpointTally("t"))
    one.outcomes["retry"] = one.outcomes.get("retry", 0) + 1
    one.attempt.add(1.0)


async def test_counting_a_thousand_endpoints_lets_deliveries_go_on_and_loses_none_of_theirs() -> None:
    now, meter = MINUTE, Meter()
    store: Any = MemoryOutbox(StoreOptions(placer=places))
    series = Series(store, meter, Totals(store), now=lambda: now)
    for number in range(ENDPOINTS):
        attempt(meter, number)
    turns = 0

    async def deliver() -> None:
        nonlocal turns
        while True:
            attempt(meter, turns % ENDPOINTS)
            turns += 1
            await asyncio.sleep(0)

    delivering = asyncio.create_task(deliver())
    await series.collect()
    delivering.cancel()
    assert turns >= ENDPOINTS / PART, "the loop was held up"
    await series.collect()

    counted = series._slots[600].figures["t", ""]
    assert counted.outcomes == {"retry": ENDPOINTS + turns}
    assert sum(sum(outcomes.values()) for outcomes in meter.total.attempts.values()) == ENDPOINTS + turns


async def test_the_rows_of_many_endpoints_are_written_a_few_at_a_time(tmp_path: Path) -> None:
    written: list[int] = []

    class Recording(SqliteOutbox):
        async def keep_series(self, rows: Sequence[SeriesRow], *, before: Mapping[int, Instant]) -> None:
            written.append(len(rows))
            await super().keep_series(rows, before=before)

    now, meter = MINUTE, Meter()
    store: Any = Recording(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await store.open()
    series = Series(store, meter, Totals(store), now=lambda: now)
    for number in range(ENDPOINTS):
        attempt(meter, number)
    await series.write()
    now = Instant(MINUTE + 60_000)
    await series.write()

    assert sum(written) >= ENDPOINTS_MAX
    assert max(written) <= PART
    assert len(await store.series("t", [f"ep_{n}" for n in range(ENDPOINTS)], 60, MINUTE)) >= ENDPOINTS_MAX - 2
    await store.close()


async def test_a_slot_that_ends_while_it_is_read_is_counted_once(tmp_path: Path) -> None:
    now, meter = MINUTE, Meter()

    class Slow(SqliteOutbox):
        async def series(self, tenant: str, by: Sequence[str], step_s: int, since: Instant) -> Sequence[SeriesRow]:
            nonlocal now
            rows = await super().series(tenant, by, step_s, since)
            now = Instant(MINUTE + 60_000)
            await series.collect()
            return rows

    store: Any = Slow(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await store.open()
    series = Series(store, meter, Totals(store), now=lambda: now)
    attempt(meter, 0)
    await series.collect()
    found = (await series.read("t", [""], 60, Instant(MINUTE - 60_000)))[""]
    await store.close()

    assert sum(figures.attempts for figures in found.values()) == 1
