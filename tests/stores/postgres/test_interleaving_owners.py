"""Two workers on one PostgreSQL, statement by statement: each rule of ownership, and what happens without it.

Each test tries an interleaving; where `broken` is given, the same is tried with the rule taken out of the SQL, and must
then go wrong: so the test is known to notice.
"""

from collections.abc import Mapping

import asyncpg
import pytest
from tests.support.steps import Stepped, Steps

from hooklane.model.attempt import DELIVERED, Dead, Retry, Settlement, Write
from hooklane.model.clock import Instant
from hooklane.store.caller.flow import Flow
from hooklane.store.outbox import CommitReport
from hooklane.store.postgres.outbox import PostgresOutbox, acks, commit, fold_acks, lanes
from hooklane.store.postgres.outbox.statements import SQL
from hooklane.store.reads import LetterFilter
from hooklane.store.sql.outbox import leases, recovery
from hooklane.testing.conformance_outbox.kit import LEASE_MS, T0, Owner, draft, event, published

CLOCK = 2
"""So many statements of a renewal look at the clock and note it."""
RIGHT_AND_BROKEN = pytest.mark.parametrize("broken", [False, True], ids=["", "without-the-rule"])
FIRST_AND_AGAIN = pytest.mark.parametrize("is_first", [True, False], ids=["first", "again"])


def take_out(monkeypatch: pytest.MonkeyPatch, name: str, rule: str, instead: str = "") -> None:
    """Plant the bug: the statement without its rule."""
    assert rule in SQL[name], f"{name} has no {rule!r} to take out"
    monkeypatch.setitem(SQL, name, SQL[name].replace(rule, instead))


def lock_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks that do not see each other, since a takeover changes no key. Ours are stronger on both sides."""
    for ack in ("ack_again", "ack_one"):
        take_out(monkeypatch, ack, "FOR SHARE OF p", "FOR KEY SHARE OF p")
    take_out(monkeypatch, "free_partitions", "FOR UPDATE OF p", "FOR NO KEY UPDATE OF p")


async def one_lane(store: PostgresOutbox, many: int = 3) -> int:
    report = await published(store, *(event(f"e{n}", "k") for n in range(many)))
    return report.grown[0].lane_id


async def expire(conn: asyncpg.Connection, worker: str) -> None:
    await conn.execute("UPDATE hooklane.worker SET lease_until = 0 WHERE id = $1", worker)


async def committed_lease_is_over(conn: asyncpg.Connection, worker: str) -> None:
    """Wait, by the database's clock, until the lease has run out that everybody but the renewal sees."""
    left = "greatest(lease_until - hooklane.now_ms(), 0) / 1000.0"
    await conn.execute(f"SELECT pg_sleep({left} + 0.01) FROM hooklane.worker WHERE id = $1", worker)


async def looked(steps: Steps, flow: Flow[CommitReport]) -> Stepped[CommitReport]:
    """A commit of outcomes that has seen that its events are where they were."""
    begun = await steps.begin(flow)
    await begun.step()
    return begun


def first_ack(worker: str, epochs: Mapping[int, int], ack: Settlement) -> Flow[CommitReport]:
    """The one statement of an ack that comes alone, as the store runs it in a transaction of its own."""
    rows = yield acks.first_acks(worker, epochs, [ack])
    return acks.report_of(rows, [ack])


async def about_to_ack(steps: Steps, owner: Owner, ack: Settlement, is_first: bool) -> Stepped[CommitReport]:
    """A commit of *ack* whose next statement is the one with the fence."""
    if is_first:
        return await steps.begin(first_ack("old", owner.epochs, ack))
    return await looked(steps, commit.commit("old", owner.epochs, [ack]))


async def acked_by(owner: Owner, lane_id: int) -> Settlement:
    return await owner.settlement(lane_id, DELIVERED)


@RIGHT_AND_BROKEN
@FIRST_AND_AGAIN
async def test_a_takeover_does_not_come_between_the_fence_and_the_commit(
    store: PostgresOutbox,
    conn: asyncpg.Connection,
    steps: Steps,
    monkeypatch: pytest.MonkeyPatch,
    is_first: bool,
    broken: bool,
) -> None:
    if broken:
        lock_too_little(monkeypatch)
    lane_id = await one_lane(store)
    old = await Owner.of(store, "old")
    ack = await acked_by(old, lane_id)
    late = await about_to_ack(steps, old, ack, is_first)
    await late.step()
    await expire(conn, "old")
    await store.join("new", LEASE_MS)

    taken = {one.pid: one.epoch for one in await store.acquire("new", 256)}
    await late.finish()

    assert (ack.send.pid in taken) is broken


@RIGHT_AND_BROKEN
@FIRST_AND_AGAIN
async def test_an_ack_waits_for_a_takeover_that_is_under_way_and_is_then_fenced(
    store: PostgresOutbox,
    conn: asyncpg.Connection,
    steps: Steps,
    monkeypatch: pytest.MonkeyPatch,
    is_first: bool,
    broken: bool,
) -> None:
    if broken:
        lock_too_little(monkeypatch)
    lane_id = await one_lane(store)
    old = await Owner.of(store, "old")
    ack = await acked_by(old, lane_id)
    await expire(conn, "old")
    await store.join("new", LEASE_MS)
    takeover = await steps.begin(leases.acquire("new", 256))
    await takeover.step(4)
    late = await about_to_ack(steps, old, ack, is_first)

    if broken:
        report = await late.finish()
        await takeover.finish()
        assert report.fenced == frozenset()
        return
    await late.step_and_wait()
    taken = await takeover.finish()
    report = await late.finish()

    assert report.fenced == {ack.send.pid}
    epochs = {one.pid: one.epoch for one in taken}
    (row,) = (await store.load("new", epochs)).lanes[ack.send.pid]
    assert row.head == 1
    assert all(one.unclean for one in taken)


async def test_a_load_after_the_takeover_sees_the_last_ack_of_the_old_owner(
    store: PostgresOutbox, conn: asyncpg.Connection, steps: Steps
) -> None:
    lane_id = await one_lane(store)
    old = await Owner.of(store, "old")
    ack = await acked_by(old, lane_id)
    late = await looked(steps, commit.commit("old", old.epochs, [ack]))
    await late.step()
    await expire(conn, "old")
    await store.join("new", LEASE_MS)
    assert ack.send.pid not in {one.pid for one in await store.acquire("new", 256)}
    await late.finish()

    (taken,) = await store.acquire("new", 256)
    load = await store.load("new", {taken.pid: taken.epoch})

    assert [row.head for row in load.lanes[taken.pid]] == [2]


async def test_heads_are_right_whenever_a_fold_comes_between(store: PostgresOutbox, steps: Steps) -> None:
    """Lanes first and then acks, each on its own snapshot, would find neither: the ack has moved into the lane."""
    lane_id = await one_lane(store)
    owner = await Owner.of(store)
    await owner.deliver(lane_id, 2)
    load = await steps.begin_read(lanes.load("w1", owner.epochs))
    await load.step()
    await store.db.write(fold_acks.fold)

    loaded = await load.finish()

    (row,) = (row for rows in loaded.lanes.values() for row in rows)
    assert (row.head, row.acked) == (3, 2)


async def test_the_naive_order_of_reading_would_lose_the_head(store: PostgresOutbox, conn: asyncpg.Connection) -> None:
    """Why the rule is there: the same reads in the wrong order, as two statements."""
    lane_id = await one_lane(store)
    owner = await Owner.of(store)
    await owner.deliver(lane_id, 2)

    lane = await conn.fetchval("SELECT head FROM hooklane.lane WHERE lane_id = $1", lane_id)
    await store.db.write(fold_acks.fold)
    ack = await conn.fetchval("SELECT max(head) FROM hooklane.ack WHERE lane_id = $1", lane_id)

    assert (lane, ack) == (None, None)


@RIGHT_AND_BROKEN
async def test_a_dead_write_that_is_repeated_does_not_undo_a_replay_under_way(
    store: PostgresOutbox, steps: Steps, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        take_out(monkeypatch, "hold_heads", "WHERE l.rev = excluded.rev\n  AND", "WHERE")
        take_out(monkeypatch, "hold_heads", "excluded.attempts - l.attempts IN (0, 1)", "true")
    lane_id = await one_lane(store)
    owner = await Owner.of(store)
    dead = await owner.settle(lane_id, Dead("422"))
    (letter,) = (await store.dead_letters("default", LetterFilter(), None, 9)).items
    replay = await steps.begin(recovery.replay("default", letter.id, actor="me", now=T0))
    await replay.step(2)
    again = await looked(steps, commit.commit("w1", owner.epochs, [dead]))
    await again.step()
    await again.step_and_wait()

    await replay.finish()
    report = await again.finish()

    assert (report.stale == {lane_id}) is not broken
    assert ((await owner.row(lane_id)).state.value == "blocked") is broken


@RIGHT_AND_BROKEN
async def test_a_fold_does_not_forget_the_attempts_of_a_newer_head(
    store: PostgresOutbox, steps: Steps, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        take_out(monkeypatch, "fold_acks", "CASE WHEN l.head < excluded.head THEN 0 ELSE l.attempts END", "0")
    lane_id = await one_lane(store)
    owner = await Owner.of(store)
    await owner.deliver(lane_id, 2)
    failure = await owner.settlement(lane_id, Retry(Instant(T0 + 5_000), "500"))
    writing = await looked(steps, commit.commit("w1", owner.epochs, [failure]))
    await writing.step(2)
    folding = await steps.begin(fold_acks.fold())
    await folding.step()
    await folding.step_and_wait()

    await writing.finish()
    await folding.finish()

    row = await owner.row(lane_id)
    assert (row.head, row.acked) == (3, 2)
    assert row.attempts == (0 if broken else 1)


async def test_a_failure_behind_a_fold_under_way_keeps_its_attempt(store: PostgresOutbox, steps: Steps) -> None:
    lane_id = await one_lane(store)
    owner = await Owner.of(store)
    await owner.deliver(lane_id, 2)
    failure = await owner.settlement(lane_id, Retry(Instant(T0 + 5_000), "500"))
    folding = await steps.begin(fold_acks.fold())
    await folding.step(2)
    writing = await looked(steps, commit.commit("w1", owner.epochs, [failure]))
    await writing.step()
    await writing.step_and_wait()

    await folding.finish()
    report = await writing.finish()

    row = await owner.row(lane_id)
    assert (frozenset(), 3, 1, 2) == (report.stale, row.head, row.attempts, row.acked)


async def test_a_fold_removes_exactly_what_it_folded(
    store: PostgresOutbox, conn: asyncpg.Connection, steps: Steps
) -> None:
    lane_id = await one_lane(store)
    owner = await Owner.of(store)
    await owner.deliver(lane_id, 1)
    folding = await steps.begin(fold_acks.fold())
    await folding.step(2)
    await owner.deliver(lane_id, 1)

    assert await folding.finish() == (1, "(0,1)")
    assert await conn.fetchval("SELECT max(head) FROM hooklane.ack") == 3
    assert (await owner.row(lane_id)).head == 3


async def test_one_fold_at_a_time_and_the_second_does_not_wait(store: PostgresOutbox, steps: Steps) -> None:
    lane_id = await one_lane(store)
    owner = await Owner.of(store)
    await owner.deliver(lane_id, 1)
    folding = await steps.begin(fold_acks.fold())
    await folding.step()

    assert await store.db.write(fold_acks.fold) == (0, fold_acks.FIRST)
    assert await folding.finish() == (1, "(0,1)")


@RIGHT_AND_BROKEN
async def test_an_expired_lease_is_not_revived_while_it_is_being_taken_over(
    store: PostgresOutbox, conn: asyncpg.Connection, steps: Steps, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        take_out(monkeypatch, "renew", "AND lease_until > hooklane.now_ms()")
    await Owner.of(store, "old")
    await expire(conn, "old")
    await store.join("new", LEASE_MS)
    takeover = await steps.begin(leases.acquire("new", 256))
    await takeover.step(2)
    renewal = await steps.begin(leases.renew("old", LEASE_MS))
    await renewal.step(CLOCK)
    if broken:
        await renewal.step_and_wait()
    else:
        await renewal.step()

    taken = await takeover.finish()
    lease = await renewal.finish()

    assert len(taken) == 256
    assert (lease is None) is not broken


@RIGHT_AND_BROKEN
async def test_a_lease_that_is_just_being_renewed_is_not_taken(
    store: PostgresOutbox, conn: asyncpg.Connection, steps: Steps, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        take_out(monkeypatch, "expired_workers", "FOR UPDATE SKIP LOCKED")
    await Owner.of(store, "old", lease_ms=3_000)  # long enough for a slow machine to begin the renewal in time
    renewal = await steps.begin(leases.renew("old", LEASE_MS))
    await renewal.step(CLOCK + 1)
    await store.join("new", LEASE_MS)
    await committed_lease_is_over(conn, "old")

    taken = await store.acquire("new", 256)
    lease = await renewal.finish()

    assert lease is not None
    assert (len(taken) == 256) is broken
    assert (await store.acquire("new", 256) == []) or broken


async def test_two_who_acquire_at_once_share_without_waiting(store: PostgresOutbox, steps: Steps) -> None:
    await store.join("w1", LEASE_MS)
    await store.join("w2", LEASE_MS)
    first = await steps.begin(leases.acquire("w1", 128))
    await first.step(3)

    second = await store.acquire("w2", 256)
    mine = await first.finish()

    assert {one.pid for one in mine} | {one.pid for one in second} == set(range(256))
    assert {one.pid for one in mine} & {one.pid for one in second} == set()


async def test_a_name_that_comes_back_owns_nothing(store: PostgresOutbox, conn: asyncpg.Connection) -> None:
    lane_id = await one_lane(store)
    old = await Owner.of(store, "same")
    ack: Write = await acked_by(old, lane_id)
    await expire(conn, "same")

    await store.join("same", LEASE_MS)

    assert (await store.roster()).owned == {"same": 0}
    assert (await old.commit(ack)).fenced != frozenset()


async def test_a_commit_that_is_repeated_after_a_lost_reply_is_one(store: PostgresOutbox) -> None:
    lane_id = await one_lane(store)
    owner = await Owner.of(store)
    ack = await acked_by(owner, lane_id)

    await owner.commit(ack)
    await owner.commit(ack)
    await store.tidy()
    await owner.commit(ack)

    row = await owner.row(lane_id)
    assert (row.head, row.acked) == (2, 1)
    assert len(await store.attempts("default", "e0")) == 1


async def test_what_was_published_twice_is_stored_once(store: PostgresOutbox) -> None:
    drafts = [draft(event("e1", "k")), draft(event("e2", "k"))]
    first = await store.publish(drafts)

    again = await store.publish(drafts)

    assert [result.stamps for result in first.results] == [result.stamps for result in again.results]  # type: ignore[union-attr]
    assert again.grown == []
