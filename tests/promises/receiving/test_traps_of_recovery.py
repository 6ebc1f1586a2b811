"""Known ways to fail badly. In each test the naive version, written here, fails; ours does not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import github, header, outcome, own_source, signed

from hooklane.core.admission.breaker import Breaker, BreakerPolicy, BreakerState
from hooklane.core.admission.failures import RetryPolicy
from hooklane.errors import Reject
from hooklane.model.clock import Instant, wall_now
from hooklane.model.message import Status
from hooklane.receiver import Event
from hooklane.store.sql.queries import queries_of
from hooklane.testing.conformance_inbox import together


class Outbox:
    """Stands for the sender's outbox at the seam: it writes into the transaction that it is given."""

    def publish(self, type: str, data: Any, *, key: str | None = None, tx: Any) -> None:
        mark = "?" if isinstance(tx, sqlite3.Connection) else "%s"
        tx.execute(f"INSERT INTO effects (event_id) VALUES ({mark})", (f"sent {type} {key}",))


def test_trap_6_and_29_a_message_sent_inside_a_transaction_that_fails(sql_world: World) -> None:
    mails: list[str] = []

    def naive(commit: Callable[[], None]) -> None:
        mails.append("your order has shipped")
        commit()

    def fails() -> None:
        raise RuntimeError("COMMIT failed")

    for _ in range(2):  # and its retry
        with pytest.raises(RuntimeError):
            naive(fails)
    assert len(mails) == 2, "sent twice about something that never happened"

    inbox = sql_world.inbox(outbox=Outbox())

    @own_source(inbox).on("*")
    def ship(event: Event, tx: Any) -> None:
        event.send("order.shipped", {"id": 7}, key="order:7")
        if event.attempt == 1:
            raise RuntimeError("the first attempt fails after the send")

    inbox.receive(signed())
    inbox.run_once()
    assert sql_world.effects() == [], "nothing was sent"
    sql_world.clock.pass_ms(3_600_000)
    inbox.run_once()
    assert sql_world.effects() == ["sent order.shipped order:7"]


def test_an_event_that_is_sent_on_is_in_the_same_commit(sql_world: World) -> None:
    inbox = sql_world.inbox(clock=wall_now, outbox=Outbox())

    @own_source(inbox).on("*")
    def ship(event: Event, tx: Any) -> None:
        sql_world.effect(event, tx)
        event.send("order.shipped", {"id": 7}, key="order:7")
        if event.type == "order.fails":
            raise Reject("no")

    inbox.receive(signed("evt_1"))
    inbox.receive(signed("evt_2", type="order.fails"))
    inbox.run_once()
    assert sql_world.effects() == ["evt_1", "sent order.shipped order:7"]


def test_trap_6_a_duplicate_does_not_pin_a_connection_while_its_twin_works(postgres_world: World) -> None:
    url = postgres_world.where()
    with psycopg.connect(url) as setup:
        setup.execute("CREATE TABLE processed (event_id text PRIMARY KEY)")
    claim = "INSERT INTO processed VALUES ('evt_1') ON CONFLICT DO NOTHING"
    with psycopg.connect(url) as owner, psycopg.connect(url) as duplicate:
        owner.execute(claim)
        duplicate.execute("SET lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            duplicate.execute(claim)  # without the timeout: as long as the owner's handler runs

    inbox = postgres_world.inbox("inline", clock=wall_now, inline_wait_ms=0)
    copies: list[Any] = []

    @own_source(inbox).on("*")
    def slow(event: Event, tx: Any) -> None:
        copies.extend(together(1, lambda _: inbox.receive(signed())))

    inbox.receive(signed())
    assert (copies[0].status, outcome(copies[0])) == (503, "busy")


def test_trap_11_retries_inside_the_request_outlive_the_senders_patience(world: World) -> None:
    def naive(handler: Callable[[], None], sleep: Callable[[float], None]) -> None:
        for attempt in range(1, 4):
            try:
                return handler()
            except RuntimeError:
                sleep(2**attempt)
        return None

    slept: list[float] = []

    def down() -> None:
        raise RuntimeError("down")

    naive(down, slept.append)
    assert sum(slept) > 5, "senders hang up after 3 to 10 s, and deliver again meanwhile"

    inbox = world.inbox()

    @own_source(inbox).on("*", retry=RetryPolicy(attempts_max=2))
    def handler(event: Event, tx: Any) -> None:
        raise RuntimeError("down")

    assert inbox.receive(signed()).status == 200, "the answer waits for no handler"
    inbox.run_once()
    later = world.inbox()  # a restart loses nothing
    own_source(later).on("*", name="test_trap_11_retries_inside_the_request_outlive_the_senders_patience.handler",
                         retry=RetryPolicy(attempts_max=2))(handler)  # fmt: skip
    world.clock.pass_ms(3_600_000)
    later.run_once()
    (row,) = later.rows(status=Status.DEAD)
    assert (row.handlings[0].attempts, "Traceback" in str(row.handlings[0].traceback)) == (2, True)


class NaiveBreaker:
    def __init__(self) -> None:
        self.failures, self.open_since = 0, -1.0

    def allows(self, now: float) -> bool:
        if self.open_since >= 0 and now - self.open_since > 60:
            self.failures, self.open_since = 0, -1.0
        return self.open_since < 0

    def failed(self, now: float) -> None:
        self.failures += 1
        if self.failures >= 5:
            self.open_since = now


def test_trap_12_half_open_lets_a_few_probes_through_and_not_everybody() -> None:
    naive = NaiveBreaker()
    for _ in range(5):
        naive.failed(0)
    assert all(naive.allows(61) for _ in range(100)), "the whole flood hits what has just fallen over"

    ours = Breaker(BreakerPolicy(calls_min=5, open_ms=60_000, probes=2))
    for _ in range(5):
        ours.record(False, Instant(0))
    assert (ours.state, ours.room(Instant(59_999), 10)) == (BreakerState.OPEN, 0)
    assert sum(ours.room(Instant(60_000), 1) for _ in range(100)) == 2
    ours.record(False, Instant(60_001))
    assert BreakerState.OPEN is ours.state, "one failed probe is enough"
    assert ours.room(Instant(120_001), 100) == 2
    ours.record(True, Instant(120_002))
    assert BreakerState.HALF_OPEN is ours.state
    ours.record(True, Instant(120_003))
    assert BreakerState.CLOSED is ours.state


def test_trap_12_poison_does_not_open_the_breaker_of_everybody(world: World) -> None:
    naive = NaiveBreaker()
    for _ in range(5):  # one malformed event, retried
        naive.failed(0)
    assert not naive.allows(1)

    inbox = world.inbox()
    source = own_source(inbox, order="none")

    @source.on("order.bad", breaker=BreakerPolicy(calls_min=3))
    def rejects(event: Event, tx: Any) -> None:
        raise Reject("malformed")

    source.on("order.good", breaker=BreakerPolicy(calls_min=3))(world.effect)
    for number in range(8):
        inbox.receive(signed(f"bad_{number}", type="order.bad"))
    inbox.run_once()
    inbox.receive(signed("good", type="order.good"))
    inbox.run_once()
    assert {BreakerState.CLOSED} == set(inbox.stats().breakers.values())
    assert world.effects() == ["good"]


def test_trap_13_an_open_breaker_pauses_the_worker_and_loses_nothing(world: World) -> None:
    naive, bank_is_back_s, tries_s = NaiveBreaker(), 130, [0, 25, 75, 175]  # all that Smartcar ever tries
    refused: list[int] = []
    for at in sorted([*tries_s, 0.5, 61, 122]):
        if at in tries_s:
            refused += [int(at)] if not naive.allows(at) or at < bank_is_back_s else []
        elif naive.allows(at):
            for _ in range(5):  # the events of everybody else, while the bank is away
                naive.failed(at)
    assert refused == tries_s, "503 for a minute at a time burns all of them, the last with the bank back"

    now = [Instant(0)]
    inbox = world.inbox()
    inbox.worker.breakers._clock = lambda: now[0]
    down = [True]

    @own_source(inbox, order="none").on("*", breaker=BreakerPolicy(calls_min=3, open_ms=60_000, probes=1))
    def handler(event: Event, tx: Any) -> None:
        if down[0]:
            raise RuntimeError("the bank is away")
        world.effect(event, tx)

    for number in range(6):
        assert inbox.receive(signed(f"evt_{number}")).status == 200
    inbox.run_once(limit=3)
    assert inbox.run_once() == 0, "nothing is even tried"
    assert inbox.receive(signed("evt_6")).status == 200, "receiving goes on"
    down[0] = False
    now[0] = Instant(60_000)
    world.clock.pass_ms(3_600_000)
    for _ in range(10):
        inbox.run_once()
    assert sorted(world.effects()) == [f"evt_{number}" for number in range(7)]


def test_an_open_breaker_in_inline_mode_says_when_to_come_back_or_keeps_the_event(world: World) -> None:
    inbox = world.inbox("inline")
    now = [Instant(0)]
    inbox.worker.breakers._clock = lambda: now[0]
    policy = BreakerPolicy(calls_min=1, open_ms=30_000)
    patient = own_source(inbox, order="none")
    impatient = inbox.source("github", unsafe=True)
    for source in (patient, impatient):

        @source.on("*", name="h", breaker=policy)
        def down(event: Event, tx: Any) -> None:
            raise RuntimeError("down")

    inbox.receive(signed("evt_1"))
    inbox.receive(github({"n": 1}, delivery="d-1"))
    later = inbox.receive(signed("evt_2"))
    kept = inbox.receive(github({"n": 2}, delivery="d-2"))
    assert (later.status, header(later, "retry-after")) == (503, "30")
    assert (kept.status, outcome(kept)) == (200, "stored"), "GitHub never sends again"


def test_trap_14_and_16_local_time_in_a_utc_column_deletes_what_was_just_written(world: World) -> None:
    tokyo = timezone(timedelta(hours=9))
    written = datetime.now(UTC).replace(tzinfo=None).isoformat(" ")  # CURRENT_TIMESTAMP
    cutoff = (datetime.now(tokyo) - timedelta(hours=6)).replace(tzinfo=None).isoformat(" ")  # datetime.now()
    assert written < cutoff, "a row that is 0 s old is older than the 6 h retention"

    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    inbox.receive(signed())
    inbox.run_once()
    inbox.prune()
    assert len(inbox.rows()) == 1
    (row,) = inbox.rows()
    assert row.received_at == world.clock.now


def test_trap_14_pruning_goes_by_an_index_and_in_batches(sqlite_world: World) -> None:
    inbox = sqlite_world.inbox()
    own_source(inbox)
    conn = sqlite3.connect(sqlite_world.path)  # type: ignore[attr-defined]
    naive = conn.execute("EXPLAIN QUERY PLAN DELETE FROM effects WHERE event_id < '2026'").fetchall()
    assert "SCAN" in naive[0][3], "without an index every run reads everything"
    prune = queries_of("hooklane.store.sqlite.inbox")["prune"]
    plan = conn.execute(f"EXPLAIN QUERY PLAN {prune}", {"before": 1, "source": None, "limit": 5}).fetchall()
    conn.close()
    assert any("hooklane_inbox_row_for_prune" in line[3] for line in plan)
    assert "LIMIT :limit" in prune
