"""Who is next? Fair turns between tenants and endpoints, and limits that no endpoint exceeds."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.promises.sending.town import peak

from hooklane.core.engine import (
    Committed,
    Effects,
    EndpointChanged,
    Engine,
    Fetched,
    HealthSeen,
    LeaseSet,
    Loaded,
    Settled,
)
from hooklane.core.engine.endpoint_queue import EndpointQueue, Turns
from hooklane.core.engine.owned_lane import OwnedLane
from hooklane.model.attempt import Send, Start
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.endpoint import Endpoint, EndpointState, Order
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Failure, NoAnswer, Timings
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import PARTITIONS, Grown, LaneRow, LaneState

NOW = Instant(1_750_000_000_000)
OK = Answer(200, Timings(1.0))
DOWN = NoAnswer(Failure.TIMEOUT, Timings(1.0), sent=True)


def endpoint(id: str, **rules: object) -> Endpoint:
    return Endpoint(id=id, url="https://x.example/", created_at=NOW, **rules)  # type: ignore[arg-type]


def queue_with(id: str, lanes: int, tenant: str = "default") -> EndpointQueue:
    queue = EndpointQueue(endpoint(id, tenant=tenant))
    for n in range(lanes):
        queue.ready.append(OwnedLane(LaneRow(n + 1, 0, id, f"key-{n}", head=1, tail=1), 1, unsure=False))
    return queue


def engine_with(*endpoints: Endpoint, in_flight_max: int = 2_048) -> Engine:
    engine = Engine(in_flight_max=in_flight_max)
    owned = [Loaded(pid, 1, ()) for pid in range(PARTITIONS)]
    engine.step(NOW, [LeaseSet(FOREVER), *(EndpointChanged(one) for one in endpoints), *owned])
    return engine


_lane_ids = count(1)


def grown(endpoint_id: str, many: int) -> list[Grown]:
    """As many new lanes, each with one event."""
    return [
        Grown(
            lane_id,
            lane_id % PARTITIONS,
            endpoint_id,
            f"key-{lane_id}",
            1,
            Event(f"evt_{lane_id}", "t", "k", b"{}", NOW),
        )
        for lane_id in (next(_lane_ids) for _ in range(many))
    ]


# --- turns ---

towns = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 30)), min_size=1, max_size=12
)  # a tenant and the ready lanes of one of its endpoints


@given(towns, st.integers(1, 200))
def test_each_tenant_and_within_it_each_endpoint_gets_one_turn_after_the_other(
    town: list[tuple[str, int]], rounds: int
) -> None:
    turns = Turns()
    queues = [queue_with(f"ep-{n}", lanes, tenant) for n, (tenant, lanes) in enumerate(town)]
    for queue in queues:
        turns.push(queue)
    by_tenant: Counter[str] = Counter()
    by_queue: Counter[str] = Counter()
    for _ in range(rounds):
        if not turns:
            break
        queue = turns.pop()
        queue.ready.popleft()
        by_tenant[queue.endpoint.tenant] += 1
        by_queue[queue.endpoint.id] += 1
        turns.push(queue)

        hungry = {one.endpoint.tenant for one in queues if one.ready}
        for tenant in hungry:
            # Nobody who still has something to send is behind anybody by more than one turn.
            assert max(by_tenant.values(), default=0) - by_tenant[tenant] <= 1
            turns_of = [by_queue[one.endpoint.id] for one in queues if one.endpoint.tenant == tenant and one.ready]
            most = max(by_queue[one.endpoint.id] for one in queues if one.endpoint.tenant == tenant)
            assert most - min(turns_of) <= 1


def test_an_endpoint_stands_in_line_once_however_often_it_is_pushed() -> None:
    turns, queue = Turns(), queue_with("ep", 3)
    for _ in range(5):
        turns.push(queue)

    assert turns.pop() is queue
    assert not turns


# --- limits ---


def test_no_more_deliveries_are_in_flight_than_the_endpoint_allows() -> None:
    engine = engine_with(endpoint("ep", in_flight_max=7))

    sends = engine.step(NOW, grown("ep", 50)).sends
    after = engine.step(NOW, [Settled(sends[0], OK, 0.0), Settled(sends[1], OK, 0.0)]).sends

    assert (len(sends), len(after), engine.in_flight) == (7, 2, 7)


def test_workers_share_the_cap_and_the_limit_by_their_partitions_and_a_single_lane_has_it_all() -> None:
    half = EndpointQueue(endpoint("ep", in_flight_max=9, rate_limit=10.0), share=0.5)
    whole = EndpointQueue(endpoint("ep", in_flight_max=9, rate_limit=10.0, order=Order.GLOBAL), share=0.5)
    tiny = EndpointQueue(endpoint("ep", in_flight_max=1), share=0.01)

    assert (half.cap, whole.cap, tiny.cap) == (4, 9, 1)
    half.take_off(NOW)
    whole.take_off(NOW)
    assert NOW + 200 <= half.opens_at(NOW) <= NOW + 201
    assert NOW + 100 <= whole.opens_at(NOW) <= NOW + 101


limits = st.floats(0.5, 5_000.0)
waits_ms = st.lists(st.integers(0, 40), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(limits, waits_ms, st.sampled_from([1.0, 0.5, 0.25]))
def test_a_limit_is_spaced_evenly_and_never_exceeded_by_more_than_a_tenth(
    limit: float, waits: list[int], share: float
) -> None:
    """However late the queue is looked at, no second of one worker holds more than its part of the limit allows."""
    queue = EndpointQueue(endpoint("ep", rate_limit=limit, in_flight_max=10_000), share=share)
    now, times = NOW, []
    for _ in range(20):
        for wait in waits:
            now = Instant(now + wait)
            while queue.has_room(now, 10_000, 10_000) and len(times) < 3_000:
                queue.take_off(now)
                queue.in_flight -= 1
                times.append(float(now))

    part = limit * share
    if part < 20:
        assert peak(times) <= ceil(part)  # not one too many
    else:
        assert peak(times) <= 1.02 * part + 1


def test_a_limit_that_is_set_later_holds_from_the_next_attempt() -> None:
    engine = engine_with(endpoint("ep"))
    engine.step(NOW, [EndpointChanged(endpoint("ep", rate_limit=1.0))])

    effects = engine.step(NOW, grown("ep", 10))

    assert len(effects.sends) == 1
    assert NOW + 1_000 <= effects.wake_at <= NOW + 1_001
    assert len(engine.step(Instant(NOW + 1_001), []).sends) == 1


# --- isolation ---


def test_endpoints_that_never_answer_leave_room_for_the_others() -> None:
    """Two thousand deliveries hang at a thousand endpoints, and an endpoint that answers is sent to at once."""
    silent = [endpoint(f"silent-{n}") for n in range(1_000)]
    engine = engine_with(*silent, endpoint("fast"))
    engine.step(NOW, [one for each in silent for one in grown(each.id, 20)])
    held = engine.in_flight
    for n in range(50):
        (send,) = engine.step(Instant(NOW + n), grown("fast", 1)).sends
        engine.step(Instant(NOW + n), [Settled(send, OK, 0.0)])

    assert held > 1_000  # each of them gets its chance
    assert held < 2_048


def test_more_silent_endpoints_than_places_do_not_starve_one_that_answers() -> None:
    engine = engine_with(endpoint("fast"), *(endpoint(f"silent-{n}") for n in range(300)), in_flight_max=128)
    (first,) = engine.step(NOW, grown("fast", 1)).sends
    engine.step(NOW, [Settled(first, OK, 0.0)])
    stuck = engine.step(NOW, [one for n in range(300) for one in grown(f"silent-{n}", 3)]).sends
    held = engine.in_flight

    (send,) = engine.step(NOW, grown("fast", 1)).sends
    engine.step(NOW, [Settled(send, OK, 0.0)])
    then = engine.step(NOW, [Settled(one, DOWN, 0.0) for one in stuck]).sends

    assert held == 124
    assert len(then) == 124
    had_a_turn = {one.endpoint.id for one in stuck}
    assert len([one for one in then if one.endpoint.id not in had_a_turn]) >= 62  # half of the places go to who waited


def test_one_endpoint_cannot_occupy_the_process() -> None:
    engine = engine_with(endpoint("greedy", in_flight_max=10_000), endpoint("fast"), in_flight_max=100)

    engine.step(NOW, grown("greedy", 5_000))
    greedy = engine.in_flight
    sends = engine.step(NOW, grown("fast", 10)).sends

    assert greedy <= 25
    assert [send.endpoint.id for send in sends] == ["fast"] * len(sends)
    assert len(sends) == 10


def test_bytes_in_flight_are_bounded_and_the_rest_waits_its_turn() -> None:
    engine = engine_with(endpoint("ep", in_flight_max=2_000))
    big = b"x" * 256 * 1024
    lanes = [
        Grown(n, n % PARTITIONS, "ep", f"k{n}", 1, Event(f"evt_{n}", "t", "k", big, NOW)) for n in range(20_000, 20_400)
    ]
    engine = Engine(in_flight_max=2_048, window_bytes_max=2**40)
    owned = [Loaded(pid, 1, ()) for pid in range(PARTITIONS)]
    engine.step(NOW, [LeaseSet(FOREVER), EndpointChanged(endpoint("ep", in_flight_max=2_000)), *owned])

    sends = engine.step(NOW, lanes).sends
    more = engine.step(NOW, [Settled(send, OK, 0.0) for send in sends[:10]]).sends

    assert sum(len(send.event.data) for send in sends) <= 64 * 1024 * 1024
    assert len(more) == 10


# --- the breaker in the engine ---


def failing(engine: Engine, lanes: int = 20) -> Effects:
    sends = engine.step(NOW, grown("ep", lanes)).sends
    return engine.step(NOW, [Settled(send, DOWN, 0.5) for send in sends])


def test_an_endpoint_that_keeps_failing_is_held_and_the_store_is_told() -> None:
    engine = engine_with(endpoint("ep"))

    (turn,) = failing(engine).health

    assert (turn.endpoint_id, turn.turn, turn.state) == ("ep", 1, BreakerState.OPEN)
    assert turn.until > NOW
    assert engine.step(NOW, grown("ep", 10)).sends == []


def test_the_probe_goes_out_only_when_the_store_says_that_it_is_ours() -> None:
    engine = engine_with(endpoint("ep"))
    (opened,) = failing(engine).health
    engine.step(NOW, [HealthSeen([by(opened, "me")], "me", ["ep"]), *grown("ep", 10)])
    due = Instant(opened.until + 1)

    (claim,) = engine.step(due, []).health
    waiting = engine.step(due, [])
    theirs = engine.step(due, [HealthSeen([by(claim, "somebody")], "me", ["ep"])])
    later = Instant(claim.until + 1)
    (again,) = engine.step(later, []).health
    ours = engine.step(later, [HealthSeen([by(again, "me")], "me", ["ep"])])

    assert claim.state is BreakerState.PROBING
    assert (waiting.sends, waiting.health) == ([], [])
    assert theirs.sends == []
    assert len(ours.sends) == 1


def test_what_another_worker_finds_is_adopted() -> None:
    engine = engine_with(endpoint("ep"))
    until = Instant(NOW + 5_000)

    held = engine.step(NOW, [HealthSeen([Health("ep", 1, BreakerState.OPEN, until, 1, "other")]), *grown("ep", 10)])
    ramping = engine.step(NOW, [HealthSeen([Health("ep", 3, BreakerState.RAMPING, NOW, 1, "other")])])
    old = engine.step(NOW, [HealthSeen([Health("ep", 2, BreakerState.OPEN, until, 1, "other")])])

    assert held.sends == []
    assert held.wake_at == until
    assert len(ramping.sends) == 2  # a slow start
    assert engine.step(NOW, [Settled(ramping.sends[0], OK, 0.0)]).sends  # and it is not held by old news
    assert old.health == []


def by(turn: Health, worker: str) -> Health:
    return Health(turn.endpoint_id, turn.turn, turn.state, turn.until, turn.probes, worker)


def test_an_open_breaker_announces_no_attempts() -> None:
    """After an unclean takeover each attempt is announced first, and counts. One that is not made must not be."""
    rows = [LaneRow(n, n, "ep", f"k{n}", head=1, tail=1, state=LaneState.ACTIVE) for n in range(1, 101)]
    engine = Engine()
    until = Instant(NOW + 5_000)
    engine.step(
        NOW,
        [
            LeaseSet(FOREVER),
            EndpointChanged(endpoint("ep")),
            HealthSeen([Health("ep", 4, BreakerState.OPEN, until, 1, "other")]),
            *(Loaded(row.pid, 2, [row], unclean=True) for row in rows),
        ],
    )

    (claim,) = engine.step(until, []).health
    effects = engine.step(until, [HealthSeen([by(claim, "me")], "me", ["ep"])])
    lane_ids = [fetch.lane_id for fetch in effects.fetches]
    events = [(lane_id, 1, Event(f"evt_{lane_id}", "t", "k", b"{}", NOW)) for lane_id in lane_ids]
    started = engine.step(until, [Fetched(events, lane_ids)])
    flown = engine.step(until, [Committed(started.writes)])

    assert [type(write) for write in started.writes] == [Start]
    assert len(flown.sends) == 1
    assert flown.writes == []


def test_a_paused_endpoint_is_not_probed() -> None:
    engine = engine_with(endpoint("ep"))
    (opened,) = failing(engine).health
    paused = EndpointChanged(endpoint("ep", state=EndpointState.PAUSED))
    engine.step(NOW, [HealthSeen([by(opened, "me")], "me", ["ep"]), paused, *grown("ep", 10)])

    effects = engine.step(Instant(opened.until + 1), [])

    assert (effects.health, effects.sends) == ([], [])


def test_a_send_is_made_by_the_rules_of_its_time() -> None:
    """F39: what is in flight ends under the old rules, what follows goes by the new ones."""
    engine = engine_with(endpoint("ep"))
    (send,) = engine.step(NOW, grown("ep", 1)).sends
    moved = Endpoint(id="ep", url="https://new.example/", created_at=NOW)

    engine.step(NOW, [EndpointChanged(moved)])
    (after,) = engine.step(NOW, grown("ep", 1)).sends

    assert _url(send) == "https://x.example/"
    assert _url(after) == "https://new.example/"


def _url(send: Send) -> str:
    return send.endpoint.url
