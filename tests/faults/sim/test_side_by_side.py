"""SQLite and PostgreSQL replay the seeds of the simulator and agree with the memory store, call by call."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.faults.sim.side_by_side import SideBySide
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.model.clock import Instant
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox, fold_acks
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.sim.faults import ROUGH, SLOW, Faults
from hooklane.testing.sim.mutants.mutant import Mutant
from hooklane.testing.sim.run import Simulation

# What a clock that is set back does to a real store, which moves what waits, has tests of its own.
ALIKE = {"store_crash_every_ms": 900, "store_clock_jump_every_ms": 0}
WEATHER = {"usual": replace(Faults(), **ALIKE), "rough": replace(ROUGH, **ALIKE), "slow": replace(SLOW, **ALIKE)}
JULIAN_1970 = 2440587.5


def replay(seed: int, events: int, weather: str, mutant: Mutant) -> Simulation:
    simulation = Simulation(seed, events, WEATHER[weather], 30, mutant)
    simulation.run()
    assert isinstance(simulation.store, SideBySide)
    simulation.store.compare_all()
    assert not simulation.checker.violations, simulation.checker.violations[:5]
    assert simulation.store.calls > events
    assert simulation.world.counts["store crashed"] >= 1
    return simulation


# --- SQLite ---


class Wound(sqlite3.Connection):
    """A connection whose clock is wound by hand."""

    now = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Half a millisecond more than asked for, since our statements cut off what is behind the millisecond.
        self.create_function("julianday", 1, lambda _: JULIAN_1970 + (Wound.now + 0.5) / 86_400_000)


@contextmanager
def on_sqlite(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mutant]:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Wound))
    new_outbox_file(path)

    async def set_clock(now: Instant) -> None:
        Wound.now = now

    async def nothing_to_fold() -> None:
        pass

    store = SqliteOutbox(str(path), StoreOptions(placer=places))
    with asyncio.Runner() as run:
        run.run(store.open())
        yield Mutant(store=partial(SideBySide, real=store, run=run, set_clock=set_clock, fold=nothing_to_fold))
        run.run(store.close())


@pytest.mark.parametrize(
    ("weather", "seed"),
    [
        ("rough", 1),
        ("slow", 1),
        *(pytest.param(weather, seed, marks=pytest.mark.soak) for weather in WEATHER for seed in range(2, 10)),
    ],
)
def test_sqlite_agrees_with_memory_call_by_call(tmp_path, monkeypatch, weather: str, seed: int) -> None:
    with on_sqlite(tmp_path / "outbox.db", monkeypatch) as mutant:
        replay(seed, 150, weather, mutant)


# --- PostgreSQL ---


@contextmanager
def on_postgres(url: str) -> Iterator[Mutant]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE hooklane.wound (now_ms bigint NOT NULL)")
        connection.execute("INSERT INTO hooklane.wound VALUES (0)")
        connection.execute(
            "CREATE OR REPLACE FUNCTION hooklane.now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS"
            " $$ SELECT now_ms FROM hooklane.wound $$"
        )

        async def set_clock(now: Instant) -> None:
            connection.execute("UPDATE hooklane.wound SET now_ms = %s", [now])

        store = PostgresOutbox(url, StoreOptions(placer=places, extra={"connections": 2}))

        async def fold() -> None:
            await store.db.write(fold_acks.fold)

        with asyncio.Runner() as run:
            run.run(store.open())
            yield Mutant(store=partial(SideBySide, real=store, run=run, set_clock=set_clock, fold=fold))
            run.run(store.close())


@pytest.mark.parametrize(
    ("weather", "seed"),
    [
        ("rough", 1),
        *(pytest.param(weather, seed, marks=pytest.mark.soak) for weather in WEATHER for seed in range(2, 10)),
    ],
)
def test_postgres_agrees_with_memory_call_by_call(postgres_url, weather: str, seed: int) -> None:
    with on_postgres(postgres_url) as mutant:
        replay(seed, 100, weather, mutant)
