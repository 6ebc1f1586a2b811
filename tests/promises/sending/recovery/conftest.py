"""A sender with a runner of jobs, on each store that can deliver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.running_sender import RunningSender, running_sender

from hooklane.core.fanout import places
from hooklane.model.clock import Instant, wall_now
from hooklane.model.plan import Job, JobState, Op
from hooklane.sender.egress import EgressGuard
from hooklane.sender.plans import Plan, job_now, make_plan, run_plan
from hooklane.sender.publisher import Publisher
from hooklane.sender.recovery import Jobs
from hooklane.sender.relay import Relay
from hooklane.sender.transport import Transport
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.store.recovery import Wanted


class Operator:
    """A person at a running sender: makes plans, runs them and waits for their end."""

    def __init__(self, sender: RunningSender, jobs: Jobs) -> None:
        self.sender = sender
        self.store = sender.store
        self.jobs = jobs

    async def plan(self, op: Op, **wanted: Any) -> Plan:
        plan = await make_plan(self.store, "default", op, Wanted(**wanted), asked={}, now=wall_now())
        assert isinstance(plan, Plan), plan
        return plan

    async def run(self, plan: Plan, **how: Any) -> Any:
        done = await run_plan(self.store, "default", plan.job.id, actor="ann", now=wall_now(), **how)
        self.jobs.wake()
        return done

    async def ended(self, job: Job) -> Job:
        async def end() -> Job | None:
            found = await job_now(self.store, "default", job.id)
            assert found is not None
            return found if found.state is not JobState.RUNNING else None

        return await self.sender.until(end)

    async def replay(self, **wanted: Any) -> Job:
        return await self.ended(await self.run(await self.plan(Op.REPLAY, **wanted)))

    async def counts(self, job: Job) -> dict[str, int]:
        return {str(word): many for word, many in job.counts.items() if many}


@contextlib.asynccontextmanager
async def operated(url: str, *, name: str = "runner", **options: Any) -> AsyncIterator[Operator]:
    async with running_sender(url, **options) as sender:
        jobs = Jobs(sender.store, name, nudge=sender.relay.nudge, feed=sender.relay.feed, tick_ms=20)
        running = asyncio.create_task(jobs.run())
        try:
            yield Operator(sender, jobs)
        finally:
            jobs.stop()
            await running


@contextlib.asynccontextmanager
async def crashed(url: str, *, now: Callable[[], Instant] | None = None, **options: Any) -> AsyncIterator[Operator]:
    """A sender and a runner that end as a killed process does: nothing is settled, nothing given back."""
    store = outbox_store(url, StoreOptions(placer=places))
    await store.open()
    transport = Transport(EgressGuard(allow=("127.0.0.0/8",)))
    relay = Relay(store, transport, poll_ms=50, **options)
    sender = RunningSender(store, relay, Publisher(store, relay.feed))
    jobs = Jobs(store, "crashing", nudge=relay.nudge, feed=relay.feed, now=now or _long_ago, tick_ms=20)
    tasks = [asyncio.create_task(relay.run()), asyncio.create_task(jobs.run())]
    try:
        await relay.ready()
        yield Operator(sender, jobs)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await transport.close(0)
        await store.close()


def _long_ago() -> Instant:
    """So that no test has to wait for the end of the crashed runner's lease."""
    return Instant(wall_now() - 20_000)


@pytest.fixture
async def operator(store_url: str) -> AsyncIterator[Operator]:
    async with operated(store_url) as one:
        yield one


@pytest.fixture
def operate() -> Callable[..., Any]:
    return operated


@pytest.fixture
def crashing() -> Callable[..., Any]:
    return crashed
