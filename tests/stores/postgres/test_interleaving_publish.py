"""Publishers and readers on one PostgreSQL, statement by statement: nothing is missed, nothing waits without need."""

import asyncio
import time
from dataclasses import replace
from importlib import resources

import asyncpg
import pytest
from tests.stores.postgres.test_interleaving_owners import RIGHT_AND_BROKEN, take_out
from tests.support.pace import scaled_ms
from tests.support.steps import Steps

from hooklane.core.fanout import places
from hooklane.model.endpoint import EndpointState
from hooklane.sender.publisher import Publisher
from hooklane.store.outbox import BUSY, Published, PublishReport, Refused
from hooklane.store.postgres.outbox import PostgresOutbox, lanes, publish
from hooklane.store.sql.outbox import endpoints, recovery
from hooklane.testing.conformance_outbox.kit import Owner, draft, endpoint, event, published, tails


async def hold_lanes(conn: asyncpg.Connection, *changes: str) -> None:
    """Plant a bug in the function that gives places: *changes* are what it says, and what instead, by turns."""
    text = (resources.files("hooklane.store.postgres.outbox.migrations") / "0013_new_lanes.sql").read_text("utf-8")
    text = text[text.index("CREATE OR REPLACE FUNCTION") :]
    for rule, instead in zip(changes[::2], changes[1::2], strict=True):
        assert rule in text, f"there is no {rule!r} to change"
        text = text.replace(rule, instead)
    await conn.execute(text)


def seqs(report: PublishReport) -> list[int | None]:
    return [stamp.seq for result in report.results if isinstance(result, Published) for stamp in result.stamps]


async def test_seqs_follow_the_order_of_the_commits(store: PostgresOutbox, steps: Steps) -> None:
    first = await steps.begin(publish.publish([draft(event("e1"))], places))
    second = await steps.begin(publish.publish([draft(event("e2"))], places))
    await first.step(3)
    await second.step(2)
    await second.step_and_wait()

    assert seqs(await first.finish()) == [1]
    assert seqs(await second.finish()) == [2]


async def test_a_rolled_back_publish_leaves_no_gap(store: PostgresOutbox, steps: Steps) -> None:
    first = await steps.begin(publish.publish([draft(event("e1"))], places))
    second = await steps.begin(publish.publish([draft(event("e2"))], places))
    await first.step(4)
    await second.step(2)
    await second.step_and_wait()

    await first.abandon()

    assert seqs(await second.finish()) == [1]
    assert await store.event("default", "e1") is None


@RIGHT_AND_BROKEN
async def test_a_recovery_that_commits_late_is_not_missed(
    store: PostgresOutbox, conn: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        take_out(monkeypatch, "poll", "OR xid = ANY(:xip::text[]::xid8[])", "")
    grown = (await published(store, event("e1", "a"))).grown[0]
    owner = await Owner.of(store)
    async with conn.transaction():
        await conn.execute(
            "INSERT INTO hooklane.recovered (tenant, lane_id, pid) VALUES ('default', $1, $2)",
            *(grown.lane_id, grown.pid),
        )
        await published(store, event("early", "b"))
        mark = (await owner.load()).mark
        news = await store.poll("w1", list(owner.epochs), mark)
        assert list(news.recovered) == []

    found = await store.poll("w1", list(owner.epochs), news.mark)

    assert list(found.recovered) == ([] if broken else [grown.lane_id])


@RIGHT_AND_BROKEN
async def test_a_transaction_that_commits_late_is_not_missed(
    store: PostgresOutbox, steps: Steps, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:  # a position that only goes forward
        take_out(monkeypatch, "poll", "xid = ANY(:xip::text[]::xid8[])", "false AND :xip::text[] IS NOT NULL")
        take_out(monkeypatch, "poll", "loose.xid = x.xid", "false")
    owner = await Owner.of(store)
    late = await steps.begin(publish.publish([draft(event("late", "a")), draft(event("loose", None))], places))
    while await late.step():
        pass
    await published(store, event("early", "b"))
    mark = (await owner.load()).mark
    await published(store, event("later", "b"))
    news = await store.poll("w1", list(owner.epochs), mark)
    assert len(tails(news.grown)) == 1

    await late.finish()
    found = await store.poll("w1", list(owner.epochs), news.mark)

    assert len(tails(found.grown)) == (0 if broken else 2)


async def test_a_long_transaction_elsewhere_makes_nothing_appear_twice(
    store: PostgresOutbox, conn: asyncpg.Connection
) -> None:
    await conn.execute("BEGIN; SELECT pg_current_xact_id()")
    owner = await Owner.of(store)
    mark = (await owner.load()).mark
    await published(store, event("e1", "a"))
    news = await store.poll("w1", list(owner.epochs), mark)

    again = await store.poll("w1", list(owner.epochs), news.mark)

    assert (len(news.grown), len(again.grown)) == (1, 0)
    await conn.execute("ROLLBACK")


async def test_what_is_published_during_a_load_is_found_by_the_first_poll(store: PostgresOutbox, steps: Steps) -> None:
    owner = await Owner.of(store)
    load = await steps.begin_read(lanes.load("w1", owner.epochs))
    await load.step(2)
    await published(store, event("e1", "a"))
    loaded = await load.finish()
    assert not any(loaded.lanes.values())

    naive = await owner.load()  # a mark that is newer than what was loaded
    missed = await store.poll("w1", list(owner.epochs), naive.mark)
    found = await store.poll("w1", list(owner.epochs), loaded.mark)

    assert (len(missed.grown), len(found.grown)) == (0, 1)


async def test_a_recovery_that_commits_late_wakes_the_owner(store: PostgresOutbox, steps: Steps) -> None:
    lane_id = (await published(store, event("e1", "a"))).grown[0].lane_id
    owner = await Owner.of(store)
    letter = await owner.kill(lane_id)
    replay = await steps.begin(recovery.replay("default", letter.id, actor="me", now=letter.died_at))
    while await replay.step():
        pass
    mark = (await owner.load()).mark

    await replay.finish()

    assert [lane_id] == list((await store.poll("w1", list(owner.epochs), mark)).recovered)


@RIGHT_AND_BROKEN
async def test_publishers_of_the_same_lanes_in_any_order_do_not_deadlock(
    store: PostgresOutbox, steps: Steps, conn: asyncpg.Connection, broken: bool
) -> None:
    if broken:
        await hold_lanes(conn, 'ORDER BY w.endpoint_id COLLATE "C", w.key COLLATE "C"', "")
    await published(store, *(event(f"s{key}", key) for key in "amz"))
    holder = await steps.begin(publish.publish([draft(event("h", "m"))], places))
    await holder.step(3)
    forth = await steps.begin(publish.publish([draft(event(f"f{key}", key)) for key in "amz"], places))
    back = await steps.begin(publish.publish([draft(event(f"b{key}", key)) for key in "zma"], places))
    for one in (forth, back):
        await one.step(2)
        await one.step_and_wait()

    await holder.finish()
    outcomes = await asyncio.gather(forth.finish(), back.finish(), return_exceptions=True)

    deadlocks = [one for one in outcomes if isinstance(one, asyncpg.DeadlockDetectedError)]
    assert bool(deadlocks) is broken


async def test_an_open_transaction_on_one_lane_does_not_stall_the_others(store: PostgresOutbox, steps: Steps) -> None:
    await published(store, event("s", "held"))
    holder = await steps.begin(publish.publish([draft(event("h", "held"))], places))
    await holder.step(3)
    batch = [
        draft(event("e1", "held")),
        draft(event("e2", "free")),
        draft(event("e3", None)),
        draft(event("e4", "held")),
    ]

    report = await store.publish(batch)
    took_ms: list[float] = []
    for number in range(2, 7):  # the quickest of five, as a busy machine may hold up any of them
        started = time.perf_counter()
        again = await store.publish([draft(event(f"h{number}", "held")), draft(event(f"f{number}", "free"))])
        took_ms.append((time.perf_counter() - started) * 1000)
        assert seqs(again) == [number]

    assert [one.code if isinstance(one, Refused) else None for one in report.results] == [BUSY, None, None, BUSY]
    assert seqs(report) == [1, None]
    assert min(took_ms) < scaled_ms(45), "a lane that is known to be held is waited for again"
    await holder.finish()
    assert seqs(await store.publish([batch[0], batch[3]])) == [3, 4]


async def test_a_lane_or_name_that_is_only_being_created_does_not_stall_the_others(
    store: PostgresOutbox, steps: Steps
) -> None:
    holder = await steps.begin(publish.publish([draft(event("h", "new"), "name")], places))
    await holder.step(4)

    report = await store.publish(
        [draft(event("e1", "new")), draft(event("e2", "a")), draft(event("h", "new"), "name"), draft(event("e3", "b"))]
    )

    assert [one.code if isinstance(one, Refused) else None for one in report.results] == [BUSY, None, BUSY, None]
    assert seqs(report) == [1, 1]
    await holder.finish()
    (first,) = (await store.publish([draft(event("h", "new"), "name")])).results
    assert isinstance(first, Published)
    assert first.repeated


async def test_a_publish_that_was_set_aside_is_answered_when_the_lane_is_free(
    store: PostgresOutbox, steps: Steps
) -> None:
    await published(store, event("s", "held"))
    holder = await steps.begin(publish.publish([draft(event("h", "held"))], places))
    await holder.step(3)
    publisher = Publisher(store)
    waiting = asyncio.create_task(publisher.publish(draft(event("e1", "held"))))
    free = await publisher.publish(draft(event("e2", "free")))
    assert isinstance(free, Published)
    assert not waiting.done()

    await holder.finish()
    result = await waiting
    await publisher.close()

    assert isinstance(result, Published)
    assert [stamp.seq for stamp in result.stamps] == [3]


async def test_a_batch_waits_for_a_held_lane_and_is_all_or_nothing(store: PostgresOutbox, steps: Steps) -> None:
    await published(store, event("s", "held"))
    holder = await steps.begin(publish.publish([draft(event("h", "held"))], places))
    await holder.step(3)
    batch = asyncio.create_task(store.publish_all([draft(event("e1", "held")), draft(event("e2", "free"))]))
    await asyncio.wait([batch], timeout=0.15)
    assert not batch.done()

    await holder.finish()

    assert seqs(await batch) == [3, 1]


async def test_an_endpoint_whose_creation_was_answered_is_not_missed(store: PostgresOutbox, postgres_url: str) -> None:
    from hooklane.store.outbox import StoreOptions

    await published(store, event("warm", "k"))
    other = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await other.open()
    await other.save_endpoint(endpoint("ep_new"), expect=None)
    await other.close()

    (result,) = (await store.publish([draft(event("e1", "k"))])).results

    assert isinstance(result, Published)
    assert {"ep_a", "ep_new"} == {stamp.endpoint_id for stamp in result.stamps}


async def test_revisions_of_endpoints_become_visible_in_their_order(store: PostgresOutbox, steps: Steps) -> None:
    owner = await Owner.of(store)
    mark = (await owner.load()).mark
    slow = await steps.begin(endpoints.save_endpoint(endpoint("ep_slow"), None))
    await slow.step(2)
    quick = asyncio.create_task(store.save_endpoint(endpoint("ep_quick"), expect=None))
    await asyncio.wait([quick], timeout=0.15)
    news = await store.poll("w1", list(owner.epochs), mark)
    assert not news.endpoints

    await slow.finish()
    await quick

    found = await store.poll("w1", list(owner.epochs), news.mark)
    assert [one.id for one in found.endpoints] == ["ep_slow", "ep_quick"]


async def test_a_deleted_endpoint_stays_known_while_somebody_may_publish_to_it(
    store: PostgresOutbox, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "GRACE_MS", -1_000)
    slow = await steps.begin(publish.publish([draft(event("e1", "k"))], places))
    await slow.step(2)
    deleted = replace(endpoint(), state=EndpointState.DRAINING)
    assert await store.save_endpoint(deleted, expect=endpoint())

    await store.tidy()
    assert [deleted] == list(await store.endpoints())
    (stamp,) = seqs(await slow.finish())
    await store.tidy()
    assert [deleted] == list(await store.endpoints())
    owner = await Owner.of(store)
    (lane_id,) = await owner.loaded()
    await owner.deliver(lane_id)
    await store.tidy()

    assert (stamp, list(await store.endpoints())) == (1, [])


async def test_every_commit_of_ours_is_on_the_disk_whatever_the_default(
    store: PostgresOutbox, conn: asyncpg.Connection, postgres_url: str
) -> None:
    from hooklane.store.outbox import StoreOptions

    name = postgres_url.rpartition("/")[2]
    await conn.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    await conn.execute("""
        CREATE TABLE seen (what text, how text);
        CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO seen VALUES (TG_TABLE_NAME, current_setting('synchronous_commit')); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER see AFTER INSERT ON hooklane.event DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION see();
        CREATE CONSTRAINT TRIGGER see AFTER INSERT ON hooklane.ack DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION see();
    """)
    fresh = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await fresh.open()
    lane_id = (await published(fresh, event("e1", "k"))).grown[0].lane_id
    owner = await Owner.of(fresh)
    await owner.deliver(lane_id)
    await fresh.close()

    seen = await conn.fetch("SELECT what, how FROM seen ORDER BY what")
    assert [tuple(row) for row in seen] == [("ack", "on"), ("event", "on")]
