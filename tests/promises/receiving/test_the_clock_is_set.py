"""A clock that is set costs the receiver a few seconds: no retry waits for it, and no claim of a dead worker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.conftest import MemoryWorld, PostgresWorld, SqliteWorld, World
from tests.promises.receiving.kit import DAY_MS, own_source, signed

from hooklane.model.clock import Instant, wall_now
from hooklane.model.inbox import Search
from hooklane.model.message import Status
from hooklane.receiver import Event, Inbox
from hooklane.receiver.drivers import Driver
from hooklane.receiver.flows.claims import claim_due
from hooklane.receiver.maintenance import CLOCK_MS
from hooklane.receiver.steps import transaction
from hooklane.store.dynamodb.store import by_url as dynamodb_by_url
from hooklane.telemetry.events import Handled

STEP_MS = 5_000
LEASE_MS = 60_000
YEARS_MS = 3_650 * DAY_MS

# What every statement takes for the database's clock is found in this schema first.
_OTHER_CLOCK = """
CREATE SCHEMA other;
CREATE TABLE other.set (ms bigint NOT NULL); INSERT INTO other.set VALUES (0);
CREATE FUNCTION other.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
$$ SELECT pg_catalog.clock_timestamp() + ms * interval '1 ms' FROM other.set $$;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = other, pg_catalog, public', current_database()); END $$
"""


class Clocks:
    """The clock of the process and the one of the database, if it has its own, each set by so much."""

    def __init__(self, world: World) -> None:
        self._world = world
        if isinstance(world, PostgresWorld):
            with psycopg.connect(world.url) as conn:
                conn.execute(_OTHER_CLOCK)

    def set(self, ms: int, *, process: bool = True, database: bool = True) -> None:
        if process:
            self._world.clock.pass_ms(ms)
        if database and isinstance(self._world, PostgresWorld):
            with psycopg.connect(self._world.url) as conn:
                conn.execute("UPDATE other.set SET ms = ms + %s", (ms,))


class OutsideWorld(World):
    """A store that the application's writes do not share: effects are noted by the handler."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__()
        self.name = name
        self._url = url
        self._effects: list[str] = []

    def where(self) -> Any:
        return self._url

    def effect(self, event: Event, tx: Any) -> None:
        self._effects.append(event.id)

    def effects(self) -> list[str]:
        return self._effects


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis", "dynamodb"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world: World
    match request.param:
        case "redis":
            world = OutsideWorld("redis", request.getfixturevalue("redis_url"))
        case "dynamodb":
            world = OutsideWorld("dynamodb", f"dynamodb://inbox?endpoint={request.getfixturevalue('dynamodb_url')}")
            store = dynamodb_by_url(world.where())
            assert store.create_table()
            store.close()
        case "memory":
            world = MemoryWorld()
        case "sqlite":
            world = SqliteWorld(request.getfixturevalue("tmp_path") / "app.db")
        case _:
            world = PostgresWorld(request.getfixturevalue("postgres_url"))
    yield world
    world.close()


@pytest.fixture
def clocks(world: World) -> Clocks:
    return Clocks(world)


def failing(world: World, *, times: int = 1, **options: Any) -> tuple[Inbox, list[int]]:
    inbox = world.inbox(**options)
    calls: list[int] = []

    @own_source(inbox, order="none").on("*", name="handler")
    def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        if len(calls) <= times:
            raise RuntimeError("not yet")
        world.effect(event, tx)

    return inbox, calls


def due_at(inbox: Inbox) -> int:
    (row,) = inbox.rows()
    return row.handlings[0].due_at


@pytest.mark.parametrize("back_ms", [DAY_MS, YEARS_MS], ids=["a day", "ten years"])
def test_a_retry_comes_after_its_wait_though_the_clock_was_set_back_under_a_worker(
    world: World, clocks: Clocks, back_ms: int
) -> None:
    inbox, calls = failing(world)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    wait_ms = due_at(inbox) - world.clock.now
    assert (len(calls), 0 < wait_ms <= STEP_MS) == (1, True)

    clocks.set(-back_ms)
    inbox.run_once()
    assert len(calls) == 1, "it waits as long as before"
    clocks.set(wait_ms + 1_000)
    inbox.run_once()

    assert (len(calls), world.effects()) == (2, ["evt_1"])


def test_a_retry_of_the_process_before_is_not_kept_waiting_by_a_clock_that_was_set_back(
    world: World, clocks: Clocks
) -> None:
    before, _ = failing(world)
    before.receive(signed(at=world.clock.now))
    before.run_once()
    before.close()

    clocks.set(-DAY_MS)
    inbox, calls = failing(world, times=0)
    inbox.run_once()
    clocks.set(STEP_MS + CLOCK_MS)
    inbox.run_once()

    assert (len(calls), world.effects()) == (1, ["evt_1"])


def test_what_was_received_before_the_clock_was_set_back_is_handled_at_once(world: World, clocks: Clocks) -> None:
    inbox, calls = failing(world, times=0)
    inbox.run_once()
    inbox.receive(signed(at=world.clock.now))

    clocks.set(-DAY_MS)
    inbox.run_once()
    inbox.run_once()

    assert (len(calls), world.effects()) == (1, ["evt_1"])


def test_the_claim_of_a_dead_worker_is_waited_for_once_though_the_clock_was_set_back(
    world: World, clocks: Clocks
) -> None:
    inbox, calls = failing(world, times=0)
    inbox.run_once()
    inbox.receive(signed(at=world.clock.now))
    handler = next(iter(inbox.sources["hooklane"].handlers.values()))
    dead = claim_due(inbox.context, [handler], expired=False, lease_ms=LEASE_MS, limit=1)
    assert len(Driver(inbox.store).run(dead)) == 1

    clocks.set(-DAY_MS)
    inbox.run_once()
    assert calls == [], "its lease has only begun"
    clocks.set(LEASE_MS + 1_000)
    inbox.run_once()

    assert (calls, world.effects()) == ([2], ["evt_1"])


@pytest.mark.parametrize("world", ["redis", "dynamodb"], indirect=True)
def test_a_copy_is_not_told_to_wait_for_a_clock_that_was_set_back_where_no_worker_runs(
    world: World, clocks: Clocks
) -> None:
    inbox, _ = failing(world, times=0, mode="inline")
    inbox.receive(signed("evt_0", at=world.clock.now))
    durable, _ = failing(world, times=0)
    durable.receive(signed(at=world.clock.now))
    handler = next(iter(inbox.sources["hooklane"].handlers.values()))
    dead = claim_due(inbox.context, [handler], expired=False, lease_ms=LEASE_MS, limit=1)
    assert len(Driver(inbox.store).run(dead)) == 1

    clocks.set(-DAY_MS)
    assert inbox.receive(signed(at=world.clock.now)).status == 503, "its lease has only begun"
    clocks.set(LEASE_MS + 1_000)

    assert inbox.receive(signed(at=world.clock.now)).status == 200
    assert world.effects() == ["evt_0", "evt_1"]


def test_a_key_that_waits_for_what_never_came_goes_on_in_time_though_the_clock_was_set_back(
    world: World, clocks: Clocks
) -> None:
    inbox = world.inbox()
    handled: list[int | None] = []

    @own_source(inbox, order="sequence").on("*", name="handler")
    def handler(event: Event, tx: Any) -> None:
        handled.append(event.seq)

    inbox.receive(signed("evt_1", key="k", seq=1, at=world.clock.now))
    inbox.run_once()
    inbox.receive(signed("evt_3", key="k", seq=3, at=world.clock.now))
    inbox.run_once()
    assert [row.overall for row in inbox.rows()] == [Status.COMPLETED, Status.HELD]

    clocks.set(-DAY_MS)
    inbox.run_once()
    clocks.set(CLOCK_MS)
    gaps = Driver(inbox.store).run(transaction(inbox.store.gaps(world.clock.now, 10)))

    assert [gap.since <= world.clock.now for gap in gaps] == [True]


@pytest.mark.parametrize("works", [False, True], ids=["alone", "beside a worker"])
def test_a_clock_that_is_years_ahead_for_a_while_prunes_nothing(
    world: World, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was known was gone, and copies of it were applied once more."""
    true_ns, ahead_ns = time.time_ns, 0
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + ahead_ns)
    inbox, calls = failing(world, times=0, mode="inline", clock=wall_now)
    inbox.receive(signed())
    if works:
        inbox.start_worker()

    ahead_ns = YEARS_MS * 1_000_000
    inbox.receive(signed("evt_2", at=wall_now()))
    inbox.prune()
    as_from_cron, _ = failing(world, times=0, clock=wall_now)
    as_from_cron.prune()
    ahead_ns = 0
    inbox.receive(signed())

    assert (len(calls), world.effects()) == (2, ["evt_1", "evt_2"])
    heartbeat = Driver(inbox.store).run(transaction(inbox.store.heartbeat()))
    assert heartbeat is not None
    assert (heartbeat.down_ms, heartbeat.seen_at <= wall_now()) == (0, True), "what comes then is pruned in its time"


def test_a_clock_of_the_database_that_is_set_back_alone_makes_no_retry_early(postgres_url: str) -> None:
    world = PostgresWorld(postgres_url)
    clocks = Clocks(world)
    inbox, calls = failing(world)
    inbox.run_once()
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()

    clocks.set(-DAY_MS, process=False)
    world.clock.pass_ms(CLOCK_MS)
    # Not as long as its wait, by the clock of the process.
    before = due_at(inbox)
    Driver(inbox.store).run(transaction(inbox.store.keep_clock(world.clock.now)))

    assert due_at(inbox) == before
    assert len(calls) == 1
    world.close()


def test_a_process_whose_clock_is_behind_the_databases_does_not_make_all_attempts_at_once(postgres_url: str) -> None:
    world = PostgresWorld(postgres_url)
    world.clock.now = Instant(wall_now() - DAY_MS)
    inbox, calls = failing(world, times=100)
    inbox.receive(signed(at=world.clock.now))
    for _ in range(10):
        inbox.run_once()

    assert len(calls) == 1
    (row,) = Driver(inbox.store).run(transaction(inbox.store.rows(Search())))
    assert row.overall is Status.FAILED
    world.close()


IN_SQL = pytest.mark.parametrize("world", ["memory", "sqlite", "postgres"], indirect=True)


@IN_SQL
def test_a_retry_is_not_kept_waiting_by_a_clock_that_was_ahead_between_two_looks(world: World, clocks: Clocks) -> None:
    inbox = world.inbox()
    calls: list[int] = []

    @own_source(inbox, order="none").on("*", name="handler")
    def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        if len(calls) == 1:
            clocks.set(DAY_MS, database=False)  # found at no look: it is right again before the next one
            raise RuntimeError("not yet")
        world.effect(event, tx)

    inbox.receive(signed(at=world.clock.now))
    inbox.run_once(limit=1)
    clocks.set(-DAY_MS, database=False)
    inbox.run_once()
    clocks.set(CLOCK_MS)
    inbox.run_once()

    assert (calls, world.effects()) == ([1, 2], ["evt_1"])


@IN_SQL
def test_what_came_while_the_clock_was_ahead_between_two_looks_is_handled_at_once(world: World, clocks: Clocks) -> None:
    inbox, calls = failing(world, times=0)
    inbox.run_once()

    clocks.set(DAY_MS, database=False)
    inbox.receive(signed(at=world.clock.now))
    clocks.set(-DAY_MS, database=False)
    inbox.run_once()

    assert (len(calls), world.effects()) == (1, ["evt_1"])


def test_what_a_host_that_is_ahead_has_received_is_handled_at_once_by_another(postgres_url: str) -> None:
    world = PostgresWorld(postgres_url)
    ahead, _ = failing(world, times=0)
    world.clock.pass_ms(DAY_MS)
    ahead.receive(signed(at=world.clock.now))
    ahead.receive(signed("evt_2", at=world.clock.now))
    ahead.close()

    world.clock.pass_ms(-DAY_MS)
    inbox, calls = failing(world, times=0)
    inbox.run_once()

    assert (len(calls), world.effects()) == (2, ["evt_1", "evt_2"])
    world.close()


def test_a_host_whose_clock_is_right_again_leaves_alone_what_waits_by_that_of_others(postgres_url: str) -> None:
    world = PostgresWorld(postgres_url)
    inbox, calls = failing(world)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    before = due_at(inbox)

    world.clock.pass_ms(DAY_MS)
    inbox.clock()
    world.clock.pass_ms(-DAY_MS)
    inbox.run_once()

    assert (len(calls), due_at(inbox)) == (1, before)
    world.close()


@IN_SQL
def test_what_a_process_without_a_worker_took_while_its_clock_was_ahead_waits_for_its_next_request_at_most(
    world: World, clocks: Clocks
) -> None:
    receives, _ = failing(world, times=0)
    works, calls = failing(world, times=0)
    works.run_once()

    clocks.set(DAY_MS, database=False)
    receives.receive(signed(at=world.clock.now))
    clocks.set(-DAY_MS, database=False)
    receives.receive(signed("evt_2", at=world.clock.now))
    works.run_once()

    assert (len(calls), sorted(world.effects())) == (2, ["evt_1", "evt_2"])


@IN_SQL
def test_an_event_is_not_given_up_as_too_old_by_a_clock_that_is_years_ahead_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_ns, ahead_ns = time.time_ns, 0
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + ahead_ns)
    inbox, calls = failing(world, clock=wall_now)
    inbox.receive(signed())

    ahead_ns = YEARS_MS * 1_000_000
    inbox.run_once()

    assert (len(calls), [row.overall for row in inbox.rows()]) == (1, [Status.FAILED])


def test_nothing_was_handled_before_it_came_by_a_clock_that_was_set_back(clocks: Clocks, world: World) -> None:
    told: list[Any] = []
    inbox, _ = failing(world, times=0, emit=told.append)
    inbox.run_once()
    inbox.receive(signed(at=world.clock.now))
    clocks.set(-DAY_MS)
    inbox.run_once()

    assert [each.lag_ms for each in told if isinstance(each, Handled)] == [0]


@IN_SQL
def test_a_retry_is_not_kept_waiting_by_a_clock_that_was_set_twice_and_is_right_again(
    world: World, clocks: Clocks
) -> None:
    inbox, calls = failing(world)
    inbox.run_once()
    clocks.set(600_000, database=False)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    clocks.set(DAY_MS, database=False)
    inbox.clock()
    clocks.set(-DAY_MS - 600_000, database=False)
    inbox.run_once()
    clocks.set(CLOCK_MS)
    inbox.run_once()

    assert (len(calls), world.effects()) == (2, ["evt_1"])


def test_a_retry_is_not_kept_waiting_by_a_database_that_was_ahead_between_two_looks(postgres_url: str) -> None:
    world = PostgresWorld(postgres_url)
    clocks = Clocks(world)
    inbox, calls = failing(world)
    inbox.run_once()

    clocks.set(DAY_MS, process=False)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    clocks.set(-DAY_MS, process=False)
    clocks.set(CLOCK_MS)
    inbox.run_once()
    clocks.set(CLOCK_MS)
    inbox.run_once()

    assert (len(calls), world.effects()) == (2, ["evt_1"])
    world.close()
