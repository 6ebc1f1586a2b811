"""Very many dead letters, replayed by filter while new events arrive.

The store is SQLite and everything is real but the network: a transport that answers on the next turn of the loop. Set
HOOKLANE_TEST_DEAD_LETTERS=100000 for the full size (on 10,000 keys); the suite runs a tenth of it.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict

from tests.promises.sending.recovery.wire import Sent, Wire
from tests.support.pace import scaled_s
from tests.support.running_sender import SECRET

from hooklane.core.fanout import places
from hooklane.model.attempt import Dead, Send, Settlement
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import Endpoint, Order, SigningKey
from hooklane.model.event import Event
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import JobState, Op, Progress
from hooklane.sender.plans import Plan, job_now, make_plan, run_plan
from hooklane.sender.publisher import Publisher
from hooklane.sender.recovery import Jobs
from hooklane.sender.relay import Relay
from hooklane.store.outbox import Draft, StoreOptions
from hooklane.store.recovery import Wanted
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_outbox.kit import Owner, answer

DEAD_LETTERS = int(os.environ.get("HOOKLANE_TEST_DEAD_LETTERS", "10000"))
PER_KEY = 10
KEYS = DEAD_LETTERS // PER_KEY
NEW = DEAD_LETTERS // 20
REFUSED = 7
WITHIN_S = 60 + DEAD_LETTERS / 300


def event(id: str, key: str) -> Event:
    return Event(id, "order.changed", key, b'{"id":"%b"}' % id.encode(), wall_now())


async def kill_all(store: SqliteOutbox) -> None:
    """Nine loose dead letters and one dead head for each key, as if each had been tried for the last time."""
    keys = (SigningKey(SECRET),)
    loose = Endpoint(id="ep_loose", url="https://loose.example", created_at=Instant(1), order=Order.NONE, keys=keys)
    lanes = Endpoint(id="ep_lanes", url="https://lanes.example", created_at=Instant(2), keys=keys)
    for one in (loose, lanes):
        await store.save_endpoint(one, expect=None)
    owner = await Owner.of(store, "killer")
    for first in range(0, DEAD_LETTERS, 1_000):
        drafts = []
        for n in range(first, first + 1_000):
            place, key = n // KEYS, f"k{n % KEYS}"
            asked = ("ep_lanes",) if place == PER_KEY - 1 else ("ep_loose",)
            drafts.append(Draft(event(f"{key}.{place}", key), asked))
        report = await store.publish(drafts)
        rows = {row.id: row for row in await store.reload([one.lane_id for one in report.grown])}
        endpoints = {"ep_loose": loose, "ep_lanes": lanes}
        writes = []
        for one in report.grown:
            row = rows[one.lane_id]
            send = owner_send(owner, row, one, endpoints[one.endpoint_id])
            writes.append(Settlement(send, Dead("503"), wall_now(), answer(503)))
        committed = await owner.commit(*writes)
        assert not committed.stale
    await store.leave("killer")


def owner_send(owner, row, grown, endpoint):
    return Send(row.id, row.pid, owner.epochs[row.pid], row.rev, row.key, 1, 0, 1, grown.event, endpoint, wall_now())


async def test_very_many_dead_letters_are_replayed_by_filter_in_order_while_new_events_arrive(tmp_path):
    store = SqliteOutbox(str(tmp_path / "hooklane.db"), StoreOptions(placer=places))
    await store.open()
    await kill_all(store)
    wire = Wire()
    relay = Relay(store, wire)
    publisher = Publisher(store, relay.feed)
    jobs = Jobs(store, "runner", nudge=relay.nudge, feed=relay.feed, tick_ms=50)
    running = [asyncio.create_task(relay.run()), asyncio.create_task(jobs.run())]
    await relay.ready()

    plan = await make_plan(store, "default", Op.REPLAY, Wanted(reason="5??"), asked={"http": "5xx"}, now=wall_now())
    assert isinstance(plan, Plan)
    await run_plan(store, "default", plan.job.id, actor="ann", now=wall_now(), digest=plan.job.digest)
    for n in range(REFUSED):  # another person is quicker with some of them
        members = await store.members(plan.job.id, after=DEAD_LETTERS - 1 - n * 20, limit=1)
        await store.skip("default", members[0].member.name, note="x", actor="bob", now=wall_now())
    jobs.wake()
    told: list[int] = []

    async def publish_new() -> None:
        for first in range(0, NEW, 50):
            drafts = [Draft(event(f"new.{n}", f"k{n % KEYS}"), ("ep_lanes",)) for n in range(first, first + 50)]
            await asyncio.gather(*(publisher.publish(draft) for draft in drafts))

    publishing = asyncio.create_task(publish_new())
    async with asyncio.timeout(scaled_s(WITHIN_S)):
        while True:
            found = await job_now(store, "default", plan.job.id)
            assert found is not None
            told.append(DEAD_LETTERS - found.counts.get(Progress.PLANNED, 0) - found.counts.get(Progress.RELEASED, 0))
            if found.state is not JobState.RUNNING:
                break
            await asyncio.sleep(0.05)
        await publishing
        while True:
            ledger = await store.ledger("default")
            if ledger[DeliveryState.DELIVERED] == DEAD_LETTERS - REFUSED + NEW:
                break
            await asyncio.sleep(0.02)
    relay.stop()
    jobs.stop()
    await asyncio.gather(*running)

    assert plan.job.members == DEAD_LETTERS
    assert plan.job.keys == 2 * KEYS, "each key at two endpoints"
    assert found.counts[Progress.DELIVERED] == DEAD_LETTERS - REFUSED
    assert found.counts[Progress.REFUSED] == REFUSED
    refused = await store.members(plan.job.id, after=0, limit=100, progress=[Progress.REFUSED])
    assert {one.result for one in refused} == {"it is not a dead letter any more"}
    assert len({*told}) > 3, "progress is told on the way"
    assert told == sorted(told)
    in_order(wire.sent)
    assert all(line.is_balanced for line in await store.check_ledger())
    await store.close()


def in_order(sent: list[Sent]) -> None:
    loose: dict[str, list[int]] = defaultdict(list)
    lanes: dict[str, list[int]] = defaultdict(list)
    for one in sent:
        if one.endpoint_id == "ep_lanes":
            lanes[one.key or ""].append(one.seq or 0)
        else:
            key, _, place = one.id.rpartition(".")
            loose[key].append(int(place))
    for key, found in loose.items():
        assert found == sorted(set(found)), f"{key} out of order or twice: {found}"
    for key, seqs in lanes.items():
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs))), f"{key}: {seqs}"
