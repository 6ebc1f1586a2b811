"""S8 of the mission: replay one, many, by filter, since a time; skip and release; all over real HTTP and on record."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import asyncpg
from tests.support.pace import scaled_s
from tests.support.receiver import Answer

from hooklane.core.audit import ChainCheck
from hooklane.errors import StoreUnavailable
from hooklane.model.audit import Act
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import EndpointState, OnDead, Order
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import JobState, Op, Progress
from hooklane.sender import recovery
from hooklane.sender.plans import Changed, NotRun, job_now, run_plan, stop_job
from hooklane.store.reads import LetterFilter
from hooklane.store.recovery import AuditFilter

DELIVERED, DEAD, SKIPPED = DeliveryState.DELIVERED, DeliveryState.DEAD, DeliveryState.SKIPPED
BAD = Answer(status=422, body=b"unknown sku")
DAY_MS = 86_400_000


def seqs(requests, key):
    return [int(one.headers["x-seq"]) for one in requests if one.headers.get("x-key") == key]


def fails(*wanted):
    """Refuses the deliveries of (key, seq)."""

    def answer(request):
        return BAD if (request.headers.get("x-key"), request.headers.get("x-seq")) in wanted else Answer(status=200)

    return answer


async def deliver(sender, keys, many):
    events = [
        (await sender.publish("order.changed", b'{"n":%d}' % n, key=key)).event_id
        for n in range(1, many + 1)
        for key in keys
    ]
    await sender.delivered(*events)
    return events


async def test_s8_delivered_events_are_sent_again_with_the_same_id_seq_and_bytes_in_order(operator, sink):
    sender = operator.sender
    sink.react = fails(("B", "2"))
    await sender.endpoint(sink.url(), attempts_max=1, on_dead=OnDead.SKIP)
    events = [(await sender.publish("order.changed", b'{"n":%d}' % n, key=key)) for n in range(4) for key in "AB"]
    await sender.delivered(events[-1].event_id, events[-2].event_id)
    sink.react = lambda request: Answer(status=200)
    first = [one for one in sink.requests if (one.headers["x-key"], one.headers["x-seq"]) != ("B", "2")]
    before = len(sink.requests)

    job = await operator.replay(state=DELIVERED)

    assert await operator.counts(job) == {"delivered": 7}
    again = sink.requests[before:]
    names = ("webhook-id", "idempotency-key", "x-key", "x-seq", "x-prev-seq")
    assert {(*(one.headers[name] for name in names), one.body) for one in first} == {
        (*(one.headers[name] for name in names), one.body) for one in again
    }
    assert seqs(again, "A") == [1, 2, 3, 4]
    assert seqs(again, "B") == [1, 3, 4]
    later = await sender.publish("order.changed", key="A")
    await sender.delivered(later.event_id)
    assert sink.requests[-1].headers["x-seq"] == "5", "no head has moved"
    assert all(line.is_balanced for line in await operator.store.check_ledger())


async def test_s8_a_replay_since_a_time_leaves_out_what_is_older(operator, sink):
    sender = operator.sender
    await sender.endpoint(sink.url())
    await deliver(sender, ("A",), 2)
    since = wall_now()
    await asyncio.sleep(0.002)
    await deliver(sender, ("A",), 2)
    before = len(sink.requests)

    await operator.replay(state=DELIVERED, after=Instant(since + 1))

    assert seqs(sink.requests[before:], "A") == [3, 4]


async def test_s8_a_key_stops_at_its_first_new_failure_and_the_other_keys_go_on(operator, sink):
    sender = operator.sender
    endpoint = await sender.endpoint(sink.url(), attempts_max=2, on_dead=OnDead.SKIP)
    await deliver(sender, ("A", "B"), 4)
    before = len(sink.requests)
    sink.react = fails(("A", "2"))

    job = await operator.replay(state=DELIVERED, endpoint_id=endpoint.id)

    again = sink.requests[before:]
    assert seqs(again, "A") == [1, 2, 2], "tried as often as the endpoint allows, and nothing after it"
    assert seqs(again, "B") == [1, 2, 3, 4]
    assert await operator.counts(job) == {"delivered": 5, "failed": 1, "held": 2}
    members = await operator.store.members(job.id, after=0, limit=100)
    told = {(one.member.key, one.member.seq): (one.progress, one.result) for one in members}
    assert told["A", 2] == (Progress.FAILED, "422")
    assert told["A", 3] == (Progress.HELD, "")
    letters = await operator.store.dead_letters("default", LetterFilter(), None, 9)
    assert list(letters.items) == [], "it was delivered once: nothing is owed"


async def test_s8_dead_heads_are_replayed_by_filter_and_what_failed_again_stays_blocked(operator, sink):
    sender = operator.sender
    sink.react = lambda request: BAD if request.headers["x-seq"] == "1" else Answer(status=200)
    await sender.endpoint(sink.url(), attempts_max=1)
    for key in ("A", "B", "C"):
        for _ in range(2):
            await sender.publish("order.changed", key=key)
    await sender.until(lambda: len(sink.requests) >= 3)
    await sender.until(lambda: len(sender.settled) >= 3)
    sink.react = fails(("B", "1"))

    job = await operator.replay(state=DEAD, reason="4??", type="order.*")

    assert await operator.counts(job) == {"delivered": 2, "failed": 1}
    await sender.until(lambda: seqs(sink.requests, "A").count(2) and seqs(sink.requests, "C").count(2))
    assert seqs(sink.requests, "B") == [1, 1]
    letters = await operator.store.dead_letters("default", LetterFilter(), None, 9)
    assert [one.key for one in letters.items] == ["B"]


async def test_s8_loose_dead_letters_are_replayed_in_the_order_of_their_key(operator, sink):
    sender = operator.sender
    sink.react = lambda request: BAD
    await sender.endpoint(sink.url(), attempts_max=1, order=Order.NONE)
    events = [(await sender.publish("order.changed", b'{"n":%d}' % n, key="A")).event_id for n in range(5)]
    await sender.until(lambda: len(sender.settled) == 5)
    before = len(sink.requests)
    refused = events[3]
    sink.react = lambda request: BAD if request.headers["webhook-id"] == refused else Answer(status=200)

    job = await operator.replay(state=DEAD)

    assert [one.headers["webhook-id"] for one in sink.requests[before:]] == events[:4]
    assert await operator.counts(job) == {"delivered": 3, "failed": 1, "held": 1}


async def test_s8_a_skipped_event_is_published_again_at_the_tail_and_names_the_old_one(operator, sink):
    sender = operator.sender
    sink.react = fails(("A", "1"))
    await sender.endpoint(sink.url(), attempts_max=1, on_dead=OnDead.SKIP)
    old = await sender.publish("order.changed", b'{"sku":"X-9"}', key="A")
    second = await sender.publish("order.changed", key="A")
    await sender.delivered(second.event_id)
    sink.react = lambda request: Answer(status=200)

    job = await operator.replay(state=SKIPPED)

    (member,) = await operator.store.members(job.id, after=0, limit=9)
    assert member.progress is Progress.PUBLISHED
    await sender.delivered(member.result)
    last = sink.requests[-1]
    assert (last.headers["x-seq"], last.headers["x-prev-seq"], last.headers["x-replay-of"]) == ("3", "2", old.event_id)
    assert last.headers["webhook-id"] == member.result != old.event_id
    assert b'"data":{"sku":"X-9"}' in last.body
    again = await operator.plan(Op.REPLAY, state=SKIPPED)
    assert again.job.members == 0, "not a second time by mistake"


async def test_s8_a_skip_shows_first_what_it_releases_and_what_the_receiver_will_see(operator, sink):
    sender = operator.sender
    sink.react = fails(("A", "2"))
    endpoint = await sender.endpoint(sink.url(), attempts_max=1)
    types = ("order.created", "order.updated", "order.paid", "order.shipped")
    events = [(await sender.publish(type_, key="A")).event_id for type_ in types]
    letter = await sender.letter()

    plan = await operator.plan(Op.SKIP, ids=[letter.id])

    (release,) = plan.releases
    assert (release.endpoint_id, release.key, release.skipped, release.sees) == (endpoint.id, "A", 2, "seq 1 → 3")
    released = [(one.seq, one.event_id, one.type) for one in release.released]
    assert released == [(3, events[2], "order.paid"), (4, events[3], "order.shipped")]
    assert release.more == 0
    assert any("cannot be undone" in one for one in plan.warnings)
    assert len(sink.requests) == 2, "nothing has changed so far"

    assert NotRun("note_required", "say in `note` why these events are given up; it goes on record") == (
        await operator.run(plan, note=" ")
    )
    job = await operator.ended(await operator.run(plan, note="customer cancelled, OPS-412"))

    assert await operator.counts(job) == {"skipped": 1}
    await sender.delivered(events[2], events[3])
    third = next(one for one in sink.requests if one.headers["x-seq"] == "3")
    assert third.headers["x-prev-seq"] == "1"
    lines = (await operator.store.audit("default", AuditFilter(), None, 10)).items
    assert [(one.act.actor, one.act.action, one.act.subject) for one in lines] == [
        ("ann", "job.ended", job.job_id),
        ("ann", "dead_letter.skipped", letter.id),
        ("ann", "job.started", job.job_id),
    ]
    assert lines[1].act.note == "customer cancelled, OPS-412"
    chain = await operator.store.audit_chain(0, 100)
    check = ChainCheck(chain.anchor)
    check.take(chain.lines)
    assert check.finish(chain.head) is None


async def test_s8_a_plan_is_not_run_when_a_member_changed_since(operator, sink):
    sender = operator.sender
    sink.react = lambda request: BAD
    await sender.endpoint(sink.url(), attempts_max=1)
    for key in ("A", "B", "C"):
        await sender.publish("order.changed", key=key)
    await sender.until(lambda: len(sender.settled) == 3)
    plan = await operator.plan(Op.REPLAY)
    letters = (await operator.store.dead_letters("default", LetterFilter(), None, 9)).items
    await operator.store.skip("default", letters[0].id, note="x", actor="bob", now=wall_now())

    refused = await operator.run(plan)

    assert refused == Changed(1, [letters[0].id])
    assert len(sink.requests) == 3


async def test_s8_a_plan_expires_and_is_run_once_however_often_it_is_asked(operator, sink):
    sender = operator.sender
    await sender.endpoint(sink.url())
    await deliver(sender, ("A",), 2)
    plan = await operator.plan(Op.REPLAY, state=DELIVERED)
    late = Instant(plan.job.expires_at)

    expired = await run_plan(operator.store, "default", plan.job.id, actor="ann", now=late)
    other = await operator.run(plan, digest="another")
    jobs = await asyncio.gather(*(operator.run(plan, digest=plan.job.digest) for _ in range(3)))

    assert isinstance(expired, NotRun)
    assert expired.code == "expired"
    assert isinstance(other, NotRun)
    assert len({job.job_id for job in jobs}) == 1
    await operator.ended(jobs[0])
    assert len(sink.requests) == 4
    assert isinstance(await operator.run(await operator.plan(Op.REPLAY, state=DELIVERED), rate=0.0), NotRun)


async def test_s8_what_cannot_be_replayed_is_named_with_the_reason(operator, sink):
    sender = operator.sender
    endpoint = await sender.endpoint(sink.url())
    (done,) = await deliver(sender, ("A",), 1)
    sink.react = lambda _: Answer(status=503)  # it does not land, though the relay hears of the pause a moment later
    await sender.change(endpoint, replace(endpoint, state=EndpointState.PAUSED))
    waiting = await sender.publish("order.changed", key="A")

    plan = await operator.plan(Op.REPLAY, ids=[done, waiting.event_id, "evt_unknown"])

    assert plan.job.members == 1
    assert dict(plan.job.refused) == {
        waiting.event_id: "it is still on its way",
        "evt_unknown": "there is no such event or dead letter",
    }
    assert any("is paused" in one for one in plan.warnings)


async def test_s8_redeliveries_go_on_in_order_after_a_crash_of_sender_and_runner(crashing, operate, store_url, sink):
    async with crashing(store_url, lease_ms=1_000) as operator:
        await operator.sender.endpoint(sink.url(), timeout_ms=20_000)
        await deliver(operator.sender, ("A", "B"), 3)
        before = len(sink.requests)
        sink.react = lambda request: Answer(after_s=60) if request.headers["x-seq"] == "2" else Answer(status=200)
        job = await operator.run(await operator.plan(Op.REPLAY, state=DELIVERED))
        await operator.sender.until(lambda: len(sink.requests) - before == 4)  # both are at their second
    sink.react = lambda request: Answer(status=200)

    async with operate(store_url, lease_ms=1_000) as operator:
        new = await operator.sender.publish("order.changed", key="A")
        ended = await operator.ended(job)
        await operator.sender.delivered(new.event_id)

        assert await operator.counts(ended) == {"delivered": 6}
        for key in ("A", "B"):
            again = [seq for seq in seqs(sink.requests[before:], key) if seq < 4]
            assert again == [1, 2, 2, 3], "what was unknown is sent again, in its place"
        assert all(line.is_balanced for line in await operator.store.check_ledger())


async def test_s8_a_job_goes_on_after_its_runner_died_though_the_clock_was_set_back(
    crashing, operate, store_url, sink, monkeypatch
):
    """Its lease ends tomorrow, by the clock that the next runner has."""
    monkeypatch.setattr(recovery, "LEASE_MS", 500)
    async with crashing(store_url, lease_ms=1_000, now=lambda: Instant(wall_now() + DAY_MS)) as operator:
        await operator.sender.endpoint(sink.url(), timeout_ms=20_000)
        await deliver(operator.sender, ("A",), 3)
        before = len(sink.requests)
        sink.react = lambda request: Answer(after_s=60)
        job = await operator.run(await operator.plan(Op.REPLAY, state=DELIVERED))
        await operator.sender.until(lambda: len(sink.requests) > before)
    sink.react = lambda request: Answer(status=200)

    async with operate(store_url, lease_ms=1_000) as operator:
        assert await operator.counts(await operator.ended(job)) == {"delivered": 3}


async def test_s8_a_job_can_be_stopped_and_what_is_on_its_way_goes_on(operator, sink):
    sender = operator.sender
    await sender.endpoint(sink.url())
    await deliver(sender, ("A",), 6)
    job = await operator.run(await operator.plan(Op.REPLAY, state=DELIVERED), rate=2)
    await sender.until(lambda: len(sink.requests) > 6)

    stopped = await stop_job(operator.store, "default", job.job_id, actor="bob", now=wall_now())

    assert stopped is not None
    ended = await operator.ended(job)
    counts = await operator.counts(ended)
    assert counts["cancelled"] >= 3
    assert sum(counts.values()) == 6
    assert (await operator.store.audit("default", AuditFilter(), None, 1)).items[0].act.action == "job.stopped"


async def skipped_events(operator, sink, many):
    """Events that their endpoint refused for good; it takes what comes from now on."""
    sink.react = lambda request: BAD
    await operator.sender.endpoint(sink.url(), attempts_max=1, on_dead=OnDead.SKIP)
    for n in range(many):
        await operator.sender.publish("order.changed", key=f"k{n}")

    async def all_skipped():
        return (await operator.store.ledger("default"))[SKIPPED] == many

    await operator.sender.until(all_skipped)
    sink.react = lambda request: Answer(status=200)


async def accepted(operator):
    return (await operator.store.ledger("default"))["accepted"]


async def test_s8_a_stopped_job_publishes_no_skipped_event_any_more_and_tells_what_it_did(operator, sink):
    many = 10 * recovery.ANEW_MAX
    await skipped_events(operator, sink, many)
    job = await operator.run(await operator.plan(Op.REPLAY, state=SKIPPED))

    async def has_begun():
        return await accepted(operator) > many

    await operator.sender.until(has_begun)
    stopped = await stop_job(operator.store, "default", job.job_id, actor="bob", now=wall_now())
    told = await operator.counts(stopped)

    async def is_over():
        counts = await operator.counts(await job_now(operator.store, "default", job.id))
        return counts if "released" not in counts else None

    counts = await operator.sender.until(is_over)
    assert told["cancelled"] == counts["cancelled"] >= many - 3 * recovery.ANEW_MAX
    assert sum(told.values()) == sum(counts.values()) == many
    assert await accepted(operator) == many + counts["published"]
    assert (await operator.plan(Op.REPLAY, state=SKIPPED)).job.members == counts["cancelled"], (
        "they can be replayed still"
    )


async def test_s8_a_skipped_event_that_two_plans_name_is_published_once(operator, sink):
    await skipped_events(operator, sink, 1)
    plans = [await operator.plan(Op.REPLAY, state=SKIPPED) for _ in range(2)]

    jobs = [await operator.run(plan, grace_s=0.2 * n) for n, plan in enumerate(plans)]

    counts = [await operator.counts(await operator.ended(job)) for job in jobs]
    assert counts == [{"published": 1}, {"refused": 1}]
    assert await accepted(operator) == 2


async def test_s8_a_skipped_event_is_published_once_though_the_runner_dies_between_the_steps_of_it(operator, sink):
    """Released and not published; and published and not noted: the second job meets what the first has published."""
    await skipped_events(operator, sink, 1)
    plans = [await operator.plan(Op.REPLAY, state=SKIPPED) for _ in range(2)]
    act = Act(tenant="default", at=wall_now(), actor="gone", action="job.released", subject="job_1")
    for plan in plans:
        await operator.store.carry_out(plan.job.id, Op.REPLAY, [1], act=act)

    # At once: a plan whose events another job has replayed meanwhile is told to be made anew.
    jobs = await asyncio.gather(*map(operator.run, plans))

    counts = [await operator.counts(await operator.ended(job)) for job in jobs]
    assert sorted(word for one in counts for word in one) == ["published", "refused"]
    assert await accepted(operator) == 2


@contextlib.asynccontextmanager
async def held_lanes(url):
    """A transaction of an application that holds every lane there is, as one does that has published and not ended."""
    conn = await asyncpg.connect(url)
    try:
        async with conn.transaction():
            await conn.execute("SELECT 1 FROM hooklane.lane_name FOR UPDATE")
            yield
    finally:
        await conn.close()


async def test_s8_a_job_that_waits_for_a_transaction_elsewhere_holds_up_no_other(operate, postgres_url, sink):
    async with operate(postgres_url) as operator:
        await skipped_events(operator, sink, 1)
        other = await operator.sender.endpoint(sink.url("/other"))
        async with held_lanes(postgres_url):
            waiting = await operator.run(await operator.plan(Op.REPLAY, state=SKIPPED))
            new = await operator.sender.publish("order.changed", key="new")
            await operator.sender.delivered(new.event_id)
            done = await operator.replay(state=DELIVERED, endpoint_id=other.id)
            still = await job_now(operator.store, "default", waiting.id)

        assert await operator.counts(done) == {"delivered": 1}
        assert still.state is JobState.RUNNING
        assert await operator.counts(await operator.ended(waiting)) == {"published": 1}


async def test_s8_what_a_job_had_released_when_it_was_stopped_is_published_once_its_lane_is_free(
    operate, postgres_url, sink
):
    async with operate(postgres_url) as operator:
        await skipped_events(operator, sink, 1)
        async with held_lanes(postgres_url):
            job = await operator.run(await operator.plan(Op.REPLAY, state=SKIPPED))

            async def is_released():
                return (await operator.store.count_members(job.id))[Progress.RELEASED] == 1

            await operator.sender.until(is_released)
            stopped = await stop_job(operator.store, "default", job.job_id, actor="bob", now=wall_now())

        async def is_published():
            return await operator.counts(await job_now(operator.store, "default", job.id)) == {"published": 1}

        assert await operator.counts(stopped) == {"released": 1}
        await operator.sender.until(is_published)
        assert await accepted(operator) == 2


async def test_s8_what_a_stopped_job_had_released_is_published_though_the_store_was_away_when_it_was_stopped(
    operator, sink
):
    store, has_failed, is_away = operator.store, asyncio.Event(), True
    await skipped_events(operator, sink, 1)
    publish = store.publish

    async def publish_when_it_is_back(drafts):
        if is_away:
            has_failed.set()
            raise StoreUnavailable("away")
        return await publish(drafts)

    store.publish = publish_when_it_is_back
    job = await operator.run(await operator.plan(Op.REPLAY, state=SKIPPED))
    await asyncio.wait_for(has_failed.wait(), scaled_s(10))
    await stop_job(store, "default", job.job_id, actor="bob", now=wall_now())
    has_failed.clear()
    await asyncio.wait_for(has_failed.wait(), scaled_s(10))
    is_away = False

    async def is_published():
        return await operator.counts(await job_now(store, "default", job.id)) == {"published": 1}

    await operator.sender.until(is_published)
    assert await accepted(operator) == 2


async def test_s8_what_a_stopped_job_had_released_is_published_though_the_jobs_could_not_be_read_meanwhile(
    operate, postgres_url, sink
):
    async with operate(postgres_url) as operator:
        store, has_failed = operator.store, asyncio.Event()
        await skipped_events(operator, sink, 1)
        open_jobs = store.open_jobs

        async def open_jobs_next_time():
            store.open_jobs = open_jobs
            has_failed.set()
            raise StoreUnavailable("away")

        async with held_lanes(postgres_url):
            job = await operator.run(await operator.plan(Op.REPLAY, state=SKIPPED))

            async def is_released():
                return (await store.count_members(job.id))[Progress.RELEASED] == 1

            await operator.sender.until(is_released)
            await stop_job(store, "default", job.job_id, actor="bob", now=wall_now())
            store.open_jobs = open_jobs_next_time
            await asyncio.wait_for(has_failed.wait(), scaled_s(10))

        async def is_published():
            return await operator.counts(await job_now(store, "default", job.id)) == {"published": 1}

        await operator.sender.until(is_published)


async def test_s8_what_a_job_released_in_the_moment_it_was_stopped_is_published_once_its_lane_is_free(
    operate, postgres_url, sink
):
    async with operate(postgres_url) as operator:
        store, is_held = operator.store, asyncio.Event()
        await skipped_events(operator, sink, 1)
        carry_out, publish = store.carry_out, store.publish

        async def carry_out_and_stop(plan_id, *args, **named):
            done = await carry_out(plan_id, *args, **named)
            await stop_job(store, "default", plan_id, actor="bob", now=wall_now())
            return done

        async def publish_and_tell(drafts):
            report = await publish(drafts)
            is_held.set()
            return report

        store.carry_out, store.publish = carry_out_and_stop, publish_and_tell
        async with held_lanes(postgres_url):
            job = await operator.run(await operator.plan(Op.REPLAY, state=SKIPPED))
            await asyncio.wait_for(is_held.wait(), scaled_s(10))

        async def is_published():
            return await operator.counts(await job_now(store, "default", job.id)) == {"published": 1}

        await operator.sender.until(is_published, 5)


async def test_s8_a_rate_is_kept(operator, sink):
    sender = operator.sender
    await sender.endpoint(sink.url())
    await deliver(sender, [f"k{n}" for n in range(20)], 1)
    started = asyncio.get_running_loop().time()

    await operator.ended(await operator.run(await operator.plan(Op.REPLAY, state=DELIVERED), rate=40))

    took_s = asyncio.get_running_loop().time() - started
    assert took_s >= (20 - 40 / 4) / 40 - 0.05, "a burst of a quarter of a second, and no more"
