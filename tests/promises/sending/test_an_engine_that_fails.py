"""An engine that fails is noticed: its relay ends with one clear error, and never goes on with what is torn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.eventually import eventually
from tests.support.pace import scaled_s
from tests.support.running_sender import SECRET
from tests.units.core.kit import endpoint as an_endpoint

from hooklane.core.endpoint import faults_of, within_bounds
from hooklane.core.engine import (
    Committed,
    Draining,
    Dropped,
    EndpointChanged,
    EndpointsGone,
    Engine,
    Fetch,
    Fetched,
    HealthSeen,
    Input,
    Jumped,
    LeaseSet,
    Leaving,
    Loaded,
    Reloaded,
    Settled,
    StartedAnew,
    Swept,
)
from hooklane.core.engine.heads import Heads
from hooklane.core.fanout import places
from hooklane.errors import Broken, StoreError
from hooklane.model.clock import FOREVER, Instant, wall_now
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Result, Timings
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import DeliveryState, Grown
from hooklane.sender.publisher import Publisher
from hooklane.sender.relay import Relay
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import Draft, StoreOptions

WITHIN_S = 30
_EMPTY = frozenset[int]()
EXAMPLES: dict[type, Any] = {
    Loaded: Loaded(0, 1, ()),
    Dropped: Dropped(_EMPTY),
    StartedAnew: StartedAnew(),
    EndpointChanged: EndpointChanged(an_endpoint("ep_2")),
    EndpointsGone: EndpointsGone(_EMPTY),
    HealthSeen: HealthSeen(()),
    LeaseSet: LeaseSet(FOREVER),
    Grown: Grown(1, 0, "ep_1", "k", 1),
    Settled: Settled(None, None, 0.0),  # type: ignore[arg-type]
    Fetched: Fetched((), ()),
    Reloaded: Reloaded(()),
    Swept: Swept(0, 1, ()),
    Committed: Committed(()),
    Draining: Draining(),
    Leaving: Leaving(_EMPTY),
    Jumped: Jumped(-5_000),
}


class Post:
    """Answers every letter with 200, a turn later."""

    connections_max = 64

    def __init__(self) -> None:
        self.sent = 0
        self.fails = False

    def send(self, target: object, headers: bytes, body: bytes, done: Callable[[Result], None]) -> None:
        if self.fails:
            raise RuntimeError("planted")
        self.sent += 1
        asyncio.get_running_loop().call_soon(done, Answer(200, Timings(0.1)))

    async def close(self, grace_ms: int) -> None:
        pass


def planted(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("planted")


@pytest.fixture
async def store() -> AsyncIterator[MemoryOutbox]:
    store = MemoryOutbox(StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(
        Endpoint(id="ep_1", url="https://example.test/", created_at=wall_now(), keys=(SigningKey(SECRET),)), expect=None
    )
    yield store
    await store.close()


@pytest.fixture
async def post() -> Post:
    return Post()


async def here(answer: bool) -> bool:
    return answer


async def ended(relay: Relay, running: asyncio.Task[None]) -> None:
    """Until the relay's `run` is over, however."""
    async with asyncio.timeout(scaled_s(WITHIN_S)):
        await asyncio.wait([running])
    assert not relay.is_ready


def a_draft(number: int = 1) -> Draft:
    return Draft(Event(f"evt_{number}", "a.b", "k", b"{}", wall_now()))


async def test_every_kind_of_input_has_an_example():
    assert {*get_args(Input)} == {*EXAMPLES} == {*Engine()._on}


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
async def test_an_exception_in_any_handler_of_the_engine_ends_the_relay_with_one_clear_error(kind, store, post):
    relay = Relay(store, post)
    running = asyncio.create_task(relay.run())
    await relay.ready()

    relay.engine._on[kind] = planted
    relay.put(EXAMPLES[kind])
    await ended(relay, running)

    with pytest.raises(Broken, match=r"^the engine failed unexpectedly \(ZeroDivisionError: planted\)"):
        running.result()


@pytest.mark.parametrize("kind", [Loaded, EndpointChanged, HealthSeen, LeaseSet], ids=lambda kind: kind.__name__)
async def test_an_exception_during_the_first_load_ends_the_relay_too(kind, store, post):
    relay = Relay(store, post)
    relay.engine._on[kind] = planted
    running = asyncio.create_task(relay.run())
    await ended(relay, running)

    assert isinstance(running.exception(), Broken)


@pytest.mark.parametrize(("part", "step"), [(Heads, "ring"), (Heads, "dispatch"), (Engine, "_evict")])
async def test_an_exception_in_any_later_part_of_a_step_ends_the_relay(part, step, store, post, monkeypatch):
    relay = Relay(store, post)
    running = asyncio.create_task(relay.run())
    await relay.ready()

    monkeypatch.setattr(part, step, planted)
    relay.put()
    await ended(relay, running)

    assert isinstance(running.exception(), Broken)


async def test_after_a_failure_nothing_more_is_sent_and_nothing_is_given_back(store, post):
    relay = Relay(store, post)
    running = asyncio.create_task(relay.run())
    await relay.ready()
    relay.engine._on[Draining] = planted
    relay.put(Draining())
    relay.feed(await store.publish([a_draft()]))
    await ended(relay, running)

    roster = await store.roster()

    assert isinstance(running.exception(), Broken)
    assert (post.sent, sum(roster.owned.values())) == (0, 256)  # as after a death: the next owner takes care


async def test_a_failure_while_draining_is_told_as_well(store, post):
    relay = Relay(store, post)
    running = asyncio.create_task(relay.run())
    await relay.ready()

    relay.engine._on[Draining] = planted
    relay.stop()
    await ended(relay, running)

    assert isinstance(running.exception(), Broken)


@pytest.mark.parametrize("verb", ["renew", "poll", "commit", "fetch", "reload", "note_health"])
async def test_a_task_of_the_relay_that_fails_ends_it(verb, store, post, monkeypatch):
    relay = Relay(store, post, lease_ms=300, poll_ms=50)
    running = asyncio.create_task(relay.run())
    await relay.ready()

    monkeypatch.setattr(store, verb, planted)
    relay.wake([1])
    relay.worker.fetches.add([Fetch(1, 1, 1)])
    relay.worker.breaker_turns.add([Health("ep_1", 1, BreakerState.OPEN, Instant(1), 0)])
    relay.feed(await store.publish([a_draft()]))
    await ended(relay, running)

    error = running.exception()
    assert isinstance(error, ExceptionGroup)
    assert [type(inner) for inner in error.exceptions] == [ZeroDivisionError]


@pytest.mark.parametrize("place", ["transport", "listener", "feed"])
async def test_an_exception_while_sending_or_telling_ends_the_relay(place, store, post):
    def listener(happening: object) -> None:
        if place == "listener" or (place == "feed" and type(happening).__name__ == "Queued"):
            planted()

    post.fails = place == "transport"
    relay = Relay(store, post, listener=listener)
    running = asyncio.create_task(relay.run())
    await relay.ready()
    relay.feed(await store.publish([a_draft()]))
    await ended(relay, running)

    assert isinstance(running.exception(), Broken)


async def test_an_endpoint_for_which_nothing_can_be_written_does_not_stop_the_others(store, post, monkeypatch, caplog):
    bad = Endpoint(id="ep_bad", url="https://example.test/", created_at=wall_now(), keys=(SigningKey(SECRET),))
    await store.save_endpoint(bad, expect=None)
    relay = Relay(store, post)
    write = relay._requests.write

    def write_or_fail(send: Any, now: Instant) -> Any:
        return planted() if send.endpoint.id == "ep_bad" else write(send, now)

    monkeypatch.setattr(relay._requests, "write", write_or_fail)
    running = asyncio.create_task(relay.run())
    await relay.ready()
    with caplog.at_level(logging.ERROR, "hooklane.relay"):
        relay.feed(await store.publish([a_draft()]))
        await eventually(lambda: here(post.sent >= 1 and bool(caplog.messages)), within_s=WITHIN_S)

    relay.stop()
    await running
    assert "ep_bad" in caplog.messages[0]


# --- publishing ---


class Surprised:
    """A store whose publish fails in a way that nobody foresaw."""

    publish = staticmethod(planted)


async def test_a_publish_is_answered_whatever_its_store_does():
    publisher = Publisher(Surprised())  # type: ignore[arg-type]

    async with asyncio.timeout(scaled_s(WITHIN_S)):
        with pytest.raises(StoreError, match="ZeroDivisionError"):
            await publisher.publish(a_draft())
        with pytest.raises(StoreError, match="ZeroDivisionError"):
            await publisher.publish(a_draft(2))


# --- what an endpoint may carry ---

numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([5e-324, 1e308, 10**400, -(10**400), 2**63, 0, -1]))


@given(numbers, numbers, numbers, numbers, numbers, st.none() | numbers)
def test_whatever_numbers_an_old_row_holds_its_endpoint_is_within_bounds(flights, timeout, tries, wait, cap, rate):
    old = an_endpoint(
        in_flight_max=flights,
        timeout_ms=timeout,
        attempts_max=tries,
        backoff_ms=wait,
        backoff_cap_ms=cap,
        rate_limit=rate,
    )

    mended = within_bounds(old)

    assert [fault for fault in faults_of(mended) if fault[0] != "secret"] == []
    assert within_bounds(mended) is mended
    assert (mended.rate_limit is None) == (rate is None)


@given(st.floats() | st.just(5e-324), st.sampled_from([1.0, 1 / 256]))
def test_no_rate_limit_can_make_the_engine_fail(rate, share):
    engine = Engine()

    engine.step(Instant(0), [LeaseSet(FOREVER, share), EndpointChanged(an_endpoint(rate_limit=rate))])
    engine.step(Instant(0), [EndpointChanged(an_endpoint(rate_limit=rate)), LeaseSet(FOREVER, share / 2)])

    gap_ms = engine.queues["ep"]._gap_ms
    assert gap_ms is not None
    assert 0 < gap_ms < 10 * 86_400_000


async def test_an_old_row_with_nonsense_numbers_is_delivered_to_and_stops_nobody(store, post):
    nonsense = {"rate_limit": 5e-324, "timeout_ms": -1, "backoff_ms": 10**30, "attempts_max": 0, "in_flight_max": 0}
    old = Endpoint(id="ep_0", url="https://example.test/", created_at=wall_now(), keys=(SigningKey(SECRET),))
    await store.save_endpoint(replace(old, **nonsense), expect=None)
    relay = Relay(store, post)
    running = asyncio.create_task(relay.run())
    await relay.ready()

    relay.feed(await store.publish([draft := a_draft()]))
    await eventually(lambda: here(post.sent >= 2), within_s=WITHIN_S)
    relay.stop()
    await running

    found = await store.deliveries("default", [draft.event.id])
    assert {one.endpoint_id: one.state for one in found[draft.event.id]} == {
        "ep_0": DeliveryState.DELIVERED,
        "ep_1": DeliveryState.DELIVERED,
    }
