"""A system that runs for years: the disk stays flat, and nothing is forgotten that is owed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import asyncpg
import pytest
from tests.promises.sending.recovery.wire import BAD, OK, Wire
from tests.support.pace import scaled_s
from tests.support.running_sender import SECRET
from tests.support.tree import ROOT

from hooklane.core.fanout import places
from hooklane.errors import ConfigError, StoreError, StoreUnavailable
from hooklane.model.attempt import DELIVERED, Dead, Send, Settlement
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import Endpoint, EndpointState, SigningKey
from hooklane.model.event import Event
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Job
from hooklane.sender.publish_limits import PublishLimits
from hooklane.sender.recovery import Jobs
from hooklane.sender.retention import (
    DAY_MS,
    HOUR_MS,
    STEP_MS,
    STEP_ROWS,
    STEP_ROWS_MIN,
    Housekeeping,
    Retention,
    rows_of_next_step,
)
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import Draft, StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.store.reads import LetterFilter
from hooklane.store.recovery import Cutoffs, Pruned
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_outbox.kit import Owner, answer

START = Instant(1_750_000_000_000)
EVENTS_AN_HOUR = 100
KEYS = 50


WAL_MAX = 8 * 1024 * 1024
"""The log beside the file is as long as it ever was: a checkpoint and the largest commits behind it."""


def wal_of(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


async def settle(owner: Owner, report, endpoint: Endpoint, at: Instant) -> None:
    """Deliver what was published; of one key in fifty the first is given up by policy, as an endpoint would."""
    rows = {row.id: row for row in await owner.store.reload([one.lane_id for one in report.grown])}
    writes = []
    heads = {lane_id: (row.head, row.acked) for lane_id, row in rows.items()}
    for one in report.grown:
        row = rows[one.lane_id]
        head, acked = heads[one.lane_id]
        send = Send(row.id, row.pid, owner.epochs[row.pid], row.rev, row.key, head, acked, 1, one.event, endpoint, at)
        give_up = one.key == "k0"
        outcome = Dead("422", skip=True) if give_up else DELIVERED
        writes.append(Settlement(send, outcome, at, answer(422 if give_up else 200, b"x" * 200)))
        heads[one.lane_id] = (head + 1, acked if give_up else head)
    committed = await owner.commit(*writes)
    assert not committed.stale


async def test_a_week_of_traffic_with_retention_of_a_day_keeps_the_disk_flat(tmp_path):
    """A hundred events an hour instead of a hundred a second: the same seven days and the same ratio of kept to pruned.

    Every key sees thousands of events, one of them skips everything it gets, and some deliveries are loose.
    """
    path = tmp_path / "hooklane.db"
    store = SqliteOutbox(str(path), StoreOptions(placer=places))
    await store.open()
    endpoint = Endpoint(id="ep_a", url="https://a.example", created_at=START)
    await store.save_endpoint(endpoint, expect=None)
    owner = await Owner.of(store)
    now = START
    keeping = Housekeeping(store, Retention(events_ms=DAY_MS, attempts_ms=DAY_MS, audit_ms=DAY_MS), now=lambda: now)
    by_day: list[int] = []
    for hour in range(7 * 24):
        now = Instant(START + hour * HOUR_MS)
        drafts = []
        for n in range(EVENTS_AN_HOUR):
            key = None if n % 10 == 9 else f"k{n % KEYS}"
            data = b'{"pad":"%b"}' % (b"x" * 400)
            drafts.append(Draft(Event(f"e{hour}.{n}", "order.changed", key, data, now)))
        report = await store.publish(drafts)
        await settle(owner, report, endpoint, now)
        if hour % 6 == 5:
            await keeping.prune()
        if hour % 24 == 23:
            by_day.append(path.stat().st_size)

    assert max(by_day[2:]) <= by_day[1] * 1.05, by_day
    assert wal_of(path) <= WAL_MAX
    assert keeping.pruned["events"] >= 5 * 24 * EVENTS_AN_HOUR
    assert keeping.pruned["skipped"] > 0
    (line,) = await store.check_ledger()
    assert line.is_balanced, line
    assert line.accepted == 7 * 24 * EVENTS_AN_HOUR
    assert line.counts[DeliveryState.SKIPPED] == 7 * 24 * 2
    await store.close()


async def test_a_clock_that_is_set_forward_by_years_removes_nothing():
    """Events, names and the audit log were gone within half a minute, and a repeat under a name was a new event."""
    asked: list[Cutoffs] = []

    class Recording(MemoryOutbox):
        async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
            asked.append(cutoffs)
            return Pruned({}, None)

    clock, boot = START, Instant(0)
    keeping = Housekeeping(Recording(StoreOptions(placer=places), lambda: clock), boot=lambda: boot)
    await keeping.prune()
    clock = Instant(START + 3_650 * DAY_MS)
    boot = Instant(HOUR_MS)
    await keeping.prune()
    boot, clock = Instant(2 * HOUR_MS), Instant(START + 2 * HOUR_MS)
    await keeping.prune()

    assert [cutoffs.events + 30 * DAY_MS - START for cutoffs in asked] == [0, HOUR_MS, 2 * HOUR_MS]


async def test_a_host_whose_clock_is_years_ahead_removes_nothing_of_others(postgres_url, monkeypatch):
    store = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(Endpoint(id="ep_a", url="https://a.example", created_at=START), expect=None)
    report = await store.publish([Draft(Event("e1", "order.changed", "k1", b"{}", wall_now()))])
    await settle(await Owner.of(store), report, (await store.endpoints())[0], wall_now())
    true_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + 3_650 * DAY_MS * 1_000_000)

    removed = await Housekeeping(store).prune()
    assert removed.total() == 0, removed
    await store.close()


async def test_a_process_that_starts_while_the_stores_clock_alone_is_years_ahead_removes_nothing():
    asked: list[Cutoffs] = []

    class Recording(MemoryOutbox):
        async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
            asked.append(cutoffs)
            return Pruned({}, None)

    store = Recording(StoreOptions(placer=places), lambda: Instant(wall_now() + 3_650 * DAY_MS))
    await Housekeeping(store).prune()

    assert asked[0].events <= wall_now() - 30 * DAY_MS


async def test_the_loop_finishes_deletions_and_goes_on_when_the_store_was_away(tmp_path):
    class Flaky(SqliteOutbox):
        away = 2

        async def tidy(self) -> None:
            if self.away:
                self.away -= 1
                raise StoreUnavailable("away")
            await super().tidy()

    store = Flaky(str(tmp_path / "hooklane.db"), StoreOptions(placer=places))
    await store.open()
    endpoint = Endpoint(id="ep_a", url="https://a.example", created_at=START, state=EndpointState.DRAINING)
    await store.save_endpoint(endpoint, expect=None)
    keeping = Housekeeping(store, tidy_ms=5, round_ms=5)
    running = asyncio.create_task(keeping.run())

    async with asyncio.timeout(scaled_s(5)):
        while await store.endpoints():  # noqa: ASYNC110  (another process would look like this)
            await asyncio.sleep(0.005)
    keeping.stop()
    await running
    await store.close()


async def test_a_store_that_refuses_to_be_pruned_is_in_the_log_once(caplog):
    """Nothing was said: a disk was filled by what should have gone."""

    class Refusing(MemoryOutbox):
        tries = 0

        async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
            self.tries += 1
            if self.tries == 3:
                keeping.stop()
            raise StoreError("permission denied for table attempt")

    keeping = Housekeeping(Refusing(StoreOptions(placer=places)), tidy_ms=1)
    await keeping.run()

    (told,) = caplog.messages
    assert told.endswith("permission denied for table attempt")


async def test_what_is_old_is_pruned_though_something_can_never_be_tidied():
    """A fold that fails each time, at one endpoint perhaps, filled the disk with all that was settled."""

    class Untidy(MemoryOutbox):
        pruned = asyncio.Event()

        async def tidy(self) -> None:
            raise StoreError("permission denied for table ack")

        async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
            self.pruned.set()
            return Pruned({}, None)

    store = Untidy(StoreOptions(placer=places))
    keeping = Housekeeping(store, tidy_ms=1)
    running = asyncio.create_task(keeping.run())

    try:
        await asyncio.wait_for(store.pruned.wait(), scaled_s(5))
    finally:
        keeping.stop()
        await running


async def test_a_store_in_which_no_job_can_go_on_is_in_the_log_once(tmp_path, caplog):
    class Refusing(SqliteOutbox):
        tries = 0

        async def open_jobs(self) -> list[Job]:
            self.tries += 1
            if self.tries == 3:
                jobs.stop()
            raise StoreError("permission denied for table job")

    jobs = Jobs(Refusing(str(tmp_path / "hooklane.db"), StoreOptions(placer=places)), "runner", tick_ms=1)
    await jobs.run()

    (told,) = caplog.messages
    assert told.endswith("permission denied for table job")


async def test_on_postgres_a_deleted_endpoint_stays_for_the_day_that_the_how_to_names(postgres_url):
    store = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await store.open()
    endpoint = Endpoint(id="ep_a", url="https://a.example", created_at=START, state=EndpointState.DRAINING)
    await store.save_endpoint(endpoint, expect=None)
    connection = await asyncpg.connect(postgres_url)

    async def left_after(hours: float) -> int:
        change = "UPDATE hooklane.endpoint SET changed_at = hooklane.now_ms() - $1::bigint"
        await connection.execute(change, int(hours * 3_600_000))
        await store.tidy()
        return len(await store.endpoints())

    assert [await left_after(hours) for hours in (0, 23.9, 24.1)] == [1, 1, 0]
    how_to = ROOT / "docs" / "how-to" / "retention.md"
    assert "stay for 24 hours after the deletion" in how_to.read_text()
    await connection.close()
    await store.close()


async def test_a_short_round_does_not_look_again_at_what_stays_behind():
    asked: list[str | None] = []

    class Recording(MemoryOutbox):
        async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
            asked.append(cursor)
            return Pruned({"events": 1}, {None: "events.500", "events.500": "events.1000"}.get(cursor))

    keeping = Housekeeping(Recording(StoreOptions(placer=places)))

    await keeping.prune()
    await keeping.prune(full=False)

    assert asked == [None, "events.500", "events.1000", "events.1000"]
    assert keeping.pruned["events"] == 4


async def test_a_short_round_goes_on_in_each_stage_where_the_last_one_ended():
    """The names of three weeks were looked at every half minute, each of them to find that its event is still kept."""
    asked: list[str | None] = []
    following = {None: "names", "names": "names.7", "names.7": "names.9", "names.9": "rest", "rest": None}

    class Recording(MemoryOutbox):
        async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
            asked.append(cursor)
            return Pruned({}, following[cursor])

    keeping = Housekeeping(Recording(StoreOptions(placer=places)))

    await keeping.prune()
    await keeping.prune(full=False)
    await keeping.prune()

    full = [None, "names", "names.7", "names.9", "rest"]
    assert asked == [*full, None, "names.9", "rest", *full]


async def test_steps_become_as_small_as_a_publisher_may_wait_and_never_stop_going_on():
    asked: list[int] = []
    ms_for_a_row = 0.0

    class Slow(MemoryOutbox):
        async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
            asked.append(limit)
            await asyncio.sleep(limit * ms_for_a_row / 1000)
            return Pruned({"events": limit}, f"events.{len(asked)}" if len(asked) % 10 else None)

    keeping = Housekeeping(Slow(StoreOptions(placer=places)))

    await keeping.prune()
    assert asked[-1] == STEP_ROWS, "what costs nothing is done in large steps"
    ms_for_a_row = 2 * STEP_MS / STEP_ROWS_MIN
    await keeping.prune()
    assert asked[-1] == STEP_ROWS_MIN


def test_the_next_step_takes_about_as_long_as_a_publisher_may_wait():
    for ms_for_a_row in (0.01, 0.02, 0.05, 0.09):
        rows = STEP_ROWS
        for _ in range(10):
            rows = rows_of_next_step(rows, rows * ms_for_a_row)
        assert STEP_ROWS_MIN <= rows <= STEP_ROWS
        assert rows * ms_for_a_row <= STEP_MS
        assert rows == STEP_ROWS or rows * ms_for_a_row >= STEP_MS / 2
    assert rows_of_next_step(STEP_ROWS_MIN, 10_000) == STEP_ROWS_MIN


async def test_a_tenant_beyond_its_quota_waits_and_others_do_not(tmp_path):
    store = MemoryOutbox(StoreOptions(placer=places))
    limits = PublishLimits(store, quota=2)
    mine, yours = (Draft(Event("e", "t", "k", b"{}", START, tenant)) for tenant in ("mine", "yours"))

    answers = [limits.refusal(mine) for _ in range(3)]

    assert answers[:2] == [None, None]
    assert answers[2] is not None
    assert limits.refusal(yours) is None
    await limits.look()
    assert limits.refusal(mine) is None, "nothing of it was stored: there is room again"


async def test_a_tenant_that_publishes_no_more_is_counted_no_more():
    """Each tenant that had ever published was counted every two seconds, and each count reads its whole backlog."""
    counted: list[str] = []

    class Counting(MemoryOutbox):
        async def ledger(self, tenant=None, endpoint_id=None):
            counted.append(tenant)
            return {DeliveryState.QUEUED: 6} if tenant == "much" else await super().ledger(tenant, endpoint_id)

    limits = PublishLimits(Counting(StoreOptions(placer=places)), quota=10)
    for tenant in ("little", "much"):
        assert limits.refusal(Draft(Event("e", "t", "k", b"{}", START, tenant))) is None
    rounds = []

    for _ in range(4):
        counted.clear()
        await limits.look()
        rounds.append(sorted(counted))

    assert rounds == [["little", "much"], ["little", "much"], ["much"], ["much"]]


async def test_room_is_looked_for_where_the_file_is(tmp_path):
    free = 10 * 2**20
    file = tmp_path / "hooklane.db"
    file.touch()
    limits = PublishLimits(
        MemoryOutbox(StoreOptions(placer=places)), file=file, free_min=5 * 2**20, free=lambda _: free
    )
    draft = Draft(Event("e", "t", "k", b"{}", START))
    await limits.look()
    assert limits.refusal(draft) is None

    free = 4 * 2**20
    await limits.look()

    assert "4 MiB are free" in str(limits.refusal(draft))
    assert "5 MiB are to be kept free" in str(limits.refusal(draft))


def test_settings_of_retention_say_what_was_expected():
    from hooklane.config import load

    settings, _ = load({}, {"HOOKLANE_RETENTION": "12h", "HOOKLANE_QUOTA": "500", "HOOKLANE_DISK_FREE_MIN": "1GB"})
    assert (settings.retention, settings.quota, settings.disk_free_min) == (12 * HOUR_MS, 500, 2**30)
    with pytest.raises(ConfigError) as wrong:
        load({}, {"HOOKLANE_RETENTION": "soon", "HOOKLANE_QUOTA": "-1", "HOOKLANE_DISK_FREE_MIN": "much"})
    assert len(wrong.value.problems) == 3


async def test_deleting_with_cancel_ends_also_where_letters_are_dead(tmp_path):
    from hooklane.sender.publisher import Publisher
    from hooklane.sender.relay import Relay

    store = SqliteOutbox(str(tmp_path / "hooklane.db"), StoreOptions(placer=places))
    await store.open()
    keys = (SigningKey(SECRET),)
    endpoint = Endpoint(id="ep_a", url="https://a.example", created_at=START, keys=keys, attempts_max=1)
    await store.save_endpoint(endpoint, expect=None)
    wire = Wire(lambda sent: BAD if sent.seq in (None, 1) else OK)
    relay = Relay(store, wire, poll_ms=10)
    publisher = Publisher(store, relay.feed)
    running = asyncio.create_task(relay.run())
    await relay.ready()
    for n, key in enumerate(("a", "a", None)):
        await publisher.publish(Draft(Event(f"e{n}", "t", key, b"{}", wall_now())))

    async with asyncio.timeout(scaled_s(10)):
        while (await store.ledger("default"))[DeliveryState.DEAD] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        (found,) = await store.endpoints()
        cancelling = Endpoint(
            id="ep_a",
            url=found.url,
            created_at=START,
            keys=keys,
            attempts_max=1,
            state=EndpointState.CANCELLING,
        )
        assert await store.save_endpoint(cancelling, expect=found)
        relay.nudge()
        while await store.endpoints():
            await store.tidy()
            await asyncio.sleep(0.005)
    relay.stop()
    await running
    ledger = await store.ledger("default")
    assert (ledger[DeliveryState.CANCELLED], ledger["accepted"]) == (3, 3)
    assert (await store.dead_letters("default", LetterFilter(), None, 9)).items == []
    assert all(line.is_balanced for line in await store.check_ledger())
    await store.close()
