"""A handler's own error decides what becomes of its event, also when the error is the database's."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.promises.receiving.conftest import PostgresWorld
from tests.promises.receiving.kit import HandClock, header, own_source, signed
from tests.promises.receiving.rivals import FIRST, QUICK_TO_SEE, SECOND, Rival, raising
from tests.support.inboxes import ASYNC, SYNC, execute
from tests.support.pace import scaled_s
from tests.support.tree import ROOT

from hooklane import insert_once, latest, ledger_entry, transition
from hooklane.model.inbox import Handling, Row, Search
from hooklane.model.message import Status
from hooklane.receiver import Event, Inbox
from hooklane.receiver.runner import Run
from hooklane.receiver.steps import transaction

HOUR_MS = 3_600_000

KINDS = [("sync", kind) for kind in SYNC if "sqlite" not in kind]
KINDS += [("async", kind) for kind in ASYNC if "sqlite" not in kind]
every_kind = pytest.mark.parametrize(("way", "kind"), KINDS, ids=[f"{way}-{kind}" for way, kind in KINDS])
every_mode = pytest.mark.parametrize("mode", ["durable", "inline"])

Handler = Callable[[Event, Any], Awaitable[None]]


async def done(value: Any) -> Any:
    """The value, awaited where it must be: one handler serves blocking and async connections."""
    return await value if inspect.isawaitable(value) else value


def run_here(coroutine: Any) -> None:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a sync handler waited for something")


@pytest.fixture
def world(postgres_url: str) -> Iterator[PostgresWorld]:
    world = PostgresWorld(postgres_url)
    world.clock.pass_ms(24 * HOUR_MS)  # ahead of the database's, so that a retry is due when the test says so
    yield world
    world.close()


class Receiver:
    """An inbox of one kind, with one handler that is written once for blocking and async connections."""

    def __init__(self, inbox: Inbox, clock: HandClock, mode: str) -> None:
        self.inbox = inbox
        self.clock = clock
        self.mode = mode

    def on(self, handler: Handler, *, is_async: bool) -> None:
        on = own_source(self.inbox, order="none").on("*", name="handler")
        if is_async:
            on(handler)
        else:
            on(lambda event, tx: run_here(handler(event, tx)))

    async def deliver(self, event_id: str = "evt_1") -> int:
        """Deliver it, and have it handled; the answer's status."""
        reply = await self.inbox.areceive(signed(event_id, at=self.clock.now))
        if self.mode == "durable":
            await self.inbox.arun_once()
        elif reply.status == 503:
            assert int(header(reply, "retry-after") or 0) >= 1
        return reply.status

    async def again(self, event_id: str = "evt_1") -> int:
        """The worker, or the sender, tries again when it is time to."""
        self.clock.pass_ms(HOUR_MS)
        return await self.deliver(event_id)

    @property
    def refused(self) -> int:
        """The answer to an event whose handler has failed."""
        return 200 if self.mode == "durable" else 503

    async def rows(self) -> list[Row]:
        def plan() -> Any:
            return (yield Run(transaction(self.inbox.store.rows(Search()))))

        rows: list[Row] = await self.inbox.runner.arun(plan())
        return rows

    async def handling(self) -> Handling:
        (row,) = await self.rows()
        return row.handlings[0]


@asynccontextmanager
async def receiver(way: str, kind: str, mode: Any, world: PostgresWorld) -> AsyncIterator[Receiver]:
    async with (SYNC if way == "sync" else ASYNC)[kind](world.url) as where:
        inbox = Inbox(where, mode, clock=world.clock, roll=lambda: 0.5)
        yield Receiver(inbox, world.clock, mode)
        await inbox.aclose()


def effect(event: Event, tx: Any) -> Any:
    return execute(tx, f"INSERT INTO effects (event_id) VALUES ('{event.id}')")


@every_mode
@every_kind
async def test_a_handler_that_is_a_deadlock_victim_takes_effect_once_after_a_retry(
    way: str, kind: str, mode: str, world: PostgresWorld
) -> None:
    rival = Rival(world.url)
    calls: list[int] = []

    async def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        await done(effect(event, tx))
        await done(execute(tx, QUICK_TO_SEE))
        await done(execute(tx, FIRST))
        await (asyncio.to_thread(rival.cross) if way == "async" else done(rival.cross()))
        await done(execute(tx, SECOND))

    async with receiver(way, kind, mode, world) as there:
        there.on(handler, is_async=way == "async")
        assert (await there.deliver(), world.effects()) == (there.refused, [])
        failed = await there.handling()
        assert (failed.status, failed.attempts) == (Status.FAILED, 0), "the attempt does not count"
        assert "deadlock detected" in failed.error
        assert "await done(execute(tx, SECOND))" in failed.traceback
        rival.close()

        assert (await there.again(), world.effects()) == (200, ["evt_1"])
        assert (await there.again(), world.effects(), len(calls)) == (200, ["evt_1"], 2)
        assert (await there.handling()).status is Status.COMPLETED


ERRORS = {
    "unique violation": ("INSERT INTO account VALUES (1)", "duplicate key"),
    "missing table": ("SELECT * FROM nowhere", "nowhere"),
    "division by zero": ("SELECT 1 / 0", "division by zero"),
    "jsonb mismatch": ("SELECT ('\"a\"'::jsonb)::int", "jsonb"),
    "lock timeout": ("LOCK TABLE held IN SHARE MODE NOWAIT", "could not obtain lock"),
    "serialization failure": (raising("40001"), "as if it were real"),
}


@every_mode
@every_kind
async def test_an_error_of_the_database_that_a_handler_lets_through_is_retried_and_recorded(
    way: str, kind: str, mode: str, world: PostgresWorld
) -> None:
    holder = psycopg.connect(world.url)
    holder.execute("CREATE TABLE account (id int PRIMARY KEY); INSERT INTO account VALUES (1); CREATE TABLE held ()")
    holder.commit()
    holder.execute("LOCK TABLE held IN ACCESS EXCLUSIVE MODE")
    broken = True

    async def handler(event: Event, tx: Any) -> None:
        await done(effect(event, tx))
        if broken:
            sql, _ = ERRORS[event.id.replace("_", " ")]
            await done(execute(tx, sql.replace(":", r"\:") if kind.startswith("sqlalchemy") else sql))

    async with receiver(way, kind, mode, world) as there:
        there.on(handler, is_async=way == "async")
        for name, (_, words) in ERRORS.items():
            assert await there.deliver(name.replace(" ", "_")) == there.refused, name
            row = (await there.rows())[-1]
            assert (row.overall, words in row.handlings[0].error) == (Status.FAILED, True), row.handlings[0].error
            assert words in row.handlings[0].traceback
        assert world.effects() == []

        broken = False
        there.clock.pass_ms(HOUR_MS)
        for name in ERRORS:
            assert await there.deliver(name.replace(" ", "_")) == 200
        assert sorted(world.effects()) == sorted(name.replace(" ", "_") for name in ERRORS)
    holder.close()


@every_mode
@every_kind
async def test_an_error_that_a_handler_has_caught_inside_is_found_out_and_tried_again(
    way: str, kind: str, mode: str, world: PostgresWorld
) -> None:
    calls: list[int] = []

    async def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        await done(effect(event, tx))
        if len(calls) == 1:
            with suppress(Exception):  # as handlers do
                await done(execute(tx, "SELECT 1 / 0"))

    async with receiver(way, kind, mode, world) as there:
        there.on(handler, is_async=way == "async")
        assert (await there.deliver(), world.effects()) == (there.refused, [])
        failed = await there.handling()
        assert (failed.status, failed.attempts) == (Status.FAILED, 1)
        assert "was caught inside the handler" in failed.error

        assert (await there.again(), world.effects()) == (200, ["evt_1"])


@every_kind
async def test_what_a_handler_raises_from_an_error_of_the_database_is_the_news(
    way: str, kind: str, world: PostgresWorld
) -> None:
    class NotBooked(Exception):
        pass

    async def handler(event: Event, tx: Any) -> None:
        try:
            await done(execute(tx, raising("40P01")))
        except Exception as error:
            raise NotBooked("the order was not booked") from error

    async with receiver(way, kind, "durable", world) as there:
        there.on(handler, is_async=way == "async")
        await there.deliver()
        failed = await there.handling()
        assert (failed.status, failed.attempts) == (Status.FAILED, 0), "a deadlock, whatever it is called"
        assert failed.error == "NotBooked: the order was not booked"


@every_kind
async def test_a_connection_that_is_cut_under_a_handler_costs_no_attempt(
    way: str, kind: str, world: PostgresWorld
) -> None:
    """Read as an error of the handler, it would burn the attempts of all events that a failover meets."""
    calls: list[int] = []

    async def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        await done(effect(event, tx))
        if len(calls) == 1:
            with psycopg.connect(world.url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
                )
            await done(execute(tx, "SELECT 1"))

    async with receiver(way, kind, "durable", world) as there:
        there.on(handler, is_async=way == "async")
        await there.deliver()
        failed = await there.handling()
        assert (failed.status, failed.attempts) == (Status.FAILED, 0), failed.error

        assert (await there.again(), world.effects(), calls) == (200, ["evt_1"], [1, 1])


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03", "57014", "53200", "53300", "08006", "57P01", "25006"])
async def test_a_code_that_passes_does_not_burn_attempts_as_a_bug_does(code: str, world: PostgresWorld) -> None:
    calls: list[int] = []

    async def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        if len(calls) <= 12:
            await done(execute(tx, raising(code)))
        await done(effect(event, tx))

    async with receiver("sync", "postgres-url", "durable", world) as there:
        there.on(handler, is_async=False)
        await there.deliver()
        first = await there.handling()
        assert first.due_at - there.clock.now <= 1_000, "soon"
        for _ in range(12):
            await there.again()
        assert (world.effects(), len(calls)) == (["evt_1"], 13)


async def test_an_event_that_is_always_interrupted_ends_as_a_dead_letter(world: PostgresWorld) -> None:
    calls: list[int] = []

    async def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        await done(execute(tx, raising("57014")))

    async with receiver("sync", "postgres-url", "durable", world) as there:
        there.on(handler, is_async=False)
        await there.deliver()
        waits = []
        while (handling := await there.handling()).status is Status.FAILED:
            assert len(calls) < 200, "for ever"
            waits.append(handling.due_at - there.clock.now)
            there.clock.pass_ms(waits[-1])
            await there.inbox.arun_once()
        assert (handling.status, len(calls)) == (Status.DEAD, 8 * 8 + 8)
        assert "as if it were real" in handling.error
        assert sum(waits) < 2 * HOUR_MS, "while it is still known what it was about"


HELPERS: dict[str, Callable[[Event, Any], Any]] = {
    "latest": lambda event, tx: latest.apply(tx, "thing", key={"id": 1}, at=1, set={"words": "x"}),
    "insert_once": lambda event, tx: insert_once(tx, "thing", {"id": 1}, key=["id"]),
    "transition": lambda event, tx: transition(tx, "thing", key={"id": 1}, to="b", order=["a", "b"]),
    "ledger_entry": lambda event, tx: ledger_entry(tx, "thing", event=event, account="a", amount=1),
}


@every_kind
async def test_an_error_inside_a_helper_is_the_handlers_own(way: str, kind: str, world: PostgresWorld) -> None:
    async def handler(event: Event, tx: Any) -> None:
        await done(HELPERS[event.id](event, tx))

    async with receiver(way, kind, "durable", world) as there:
        there.on(handler, is_async=way == "async")
        for name in HELPERS:
            await there.deliver(name)
            row = (await there.rows())[-1]
            assert (row.overall, "thing" in row.handlings[0].error) == (Status.FAILED, True), row.handlings[0].error


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_djangos_handlers_are_retried_after_an_error_of_the_database(driver: str, world: PostgresWorld) -> None:
    url = urlsplit(world.url)
    arguments = [url.path.strip("/"), str(url.hostname), str(url.port), str(url.username), driver]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.promises.receiving.django_interrupted", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=scaled_s(120),
        check=False,
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["ok"] * 8), ran.stderr + ran.stdout
