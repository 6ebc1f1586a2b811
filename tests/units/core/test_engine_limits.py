"""Limits are kept, nobody starves, and memory is bounded."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.units.core.kit import T0, TIMEOUT, TIMINGS, Bench, endpoint, event, grown, row

from hooklane.core.engine import Dropped, EndpointChanged, Fetched, HealthSeen, LeaseSet, Loaded
from hooklane.core.engine.heads import FETCH_ALONE_MAX, FETCH_MAX
from hooklane.core.engine.owned_lane import OwnedLane
from hooklane.model.attempt import Send
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.endpoint import EndpointState, OnDead
from hooklane.model.exchange import Failure, NoAnswer
from hooklane.model.health import BreakerState


def test_no_more_than_its_limit_is_in_flight_at_an_endpoint() -> None:
    bench = Bench(*(row(lane, tail=1) for lane in range(1, 10)), in_flight_max=3)

    sends = bench.fetch().sends

    assert len(sends) == 3
    assert len(bench.settle(sends[0]).sends) == 1


def test_no_more_than_the_limit_of_the_process_is_in_flight() -> None:
    bench = Bench(in_flight_max_all=20)
    bench.step(*(EndpointChanged(endpoint(f"ep_{n}")) for n in range(30)))

    effects = bench.step(*(grown(n + 1, 1, endpoint_id=f"ep_{n}") for n in range(30)))

    assert len(effects.sends) == 20
    assert bench.engine.in_flight == 20


def test_one_endpoint_takes_only_a_part_of_what_is_free() -> None:
    bench = Bench(in_flight_max_all=20)

    effects = bench.step(*(grown(lane, 1) for lane in range(1, 50)))

    assert len(effects.sends) == 4


def test_deliveries_keep_the_distance_that_a_rate_limit_asks_for() -> None:
    bench = Bench(rate_limit=10.0)
    times = [bench.now] * len(bench.step(*(grown(lane, 1) for lane in range(1, 6))).sends)

    while bench.effects.wake_at < FOREVER:
        bench.now = bench.effects.wake_at
        times += [bench.now] * len(bench.step().sends)

    assert len(times) == 5
    assert all(100 <= later - earlier <= 102 for earlier, later in pairwise(times))


def test_a_high_rate_is_kept_by_a_process_that_comes_late_to_each_turn() -> None:
    bench = Bench(rate_limit=100.0, in_flight_max=1_000, in_flight_max_all=8_192)
    sent = len(bench.step(*(grown(lane, 1) for lane in range(1, 200))).sends)

    while bench.now < T0 + 1_000:
        sent += len(bench.later(15).sends)

    assert 99 <= sent <= 103


def test_a_rate_limit_is_shared_with_other_workers() -> None:
    bench = Bench(rate_limit=10.0)
    bench.step(LeaseSet(FOREVER, share=0.5))

    bench.step(*(grown(lane, 1) for lane in (1, 2)))

    assert 200 <= bench.effects.wake_at - T0 <= 202


def test_a_clock_that_is_set_back_does_not_put_a_rate_limited_endpoint_to_sleep() -> None:
    bench = Bench(rate_limit=10.0, in_flight_max=1)
    (first,) = bench.step(grown(1, 1), grown(2, 1)).sends
    bench.later(110)  # its alarm rings while the one place is still taken
    bench.now = Instant(T0 - 5_000)

    effects = bench.settle(first)

    assert effects.sends == []
    assert T0 + 100 <= effects.wake_at <= T0 + 102
    bench.now = effects.wake_at
    assert len(bench.step().sends) == 1


def test_tenants_and_endpoints_take_turns() -> None:
    bench = Bench(in_flight_max_all=24)
    bench.step(EndpointChanged(endpoint("ep_b")), EndpointChanged(endpoint("ep_c", tenant="other")))

    many = [grown(lane, 1) for lane in range(1, 50)]
    few = [grown(100, 1, endpoint_id="ep_b"), *(grown(lane, 1, endpoint_id="ep_c") for lane in (101, 102, 103))]
    sends = bench.step(*many, *few).sends

    assert {"ep", "ep_b", "ep_c"} == {send.endpoint.id for send in sends[:4]}
    assert [send.endpoint.tenant for send in sends[:4]].count("other") == 2


def ill() -> Bench:
    """An endpoint whose breaker has opened."""
    bench = Bench()
    for send in bench.step(*(grown(lane, 1) for lane in range(1, 31))).sends:
        if bench.settle(send, 503).health:
            bench.share_health()
    assert bench.engine.queues["ep"].breaker.state is BreakerState.OPEN
    return bench


def probing(bench: Bench) -> Send:
    """The one attempt that is made after the hold."""
    assert bench.later(5_000).sends == []
    (probe,) = bench.share_health().sends
    assert bench.engine.queues["ep"].breaker.state is BreakerState.PROBING
    return probe


def test_faults_open_the_breaker_and_nothing_burns_attempts_while_it_is_open() -> None:
    bench = ill()

    assert bench.later(1_500).sends == []
    probe = probing(bench)
    effects = bench.settle(probe)

    assert [turn.state for turn in effects.health] == [BreakerState.RAMPING]
    assert len(effects.sends) == 2, "recovery ramps up"


def test_a_probe_is_made_only_when_the_store_says_that_it_is_ours() -> None:
    bench = ill()
    bench.later(6_500)
    (turn,) = bench.effects.health

    effects = bench.step(HealthSeen([replace(turn, by="w2")], "w1", ["ep"]))

    assert (effects.sends, effects.health) == ([], [])


def test_one_poison_event_is_no_outage() -> None:
    bench = Bench()
    sends = bench.step(*(grown(lane, 1) for lane in range(1, 31))).sends

    for send in sends:
        bench.settle(send, 422)

    assert bench.engine.queues["ep"].breaker.state is BreakerState.CLOSED


def test_what_we_refuse_ourselves_says_nothing_about_an_endpoint() -> None:
    bench = ill()
    probe = probing(bench)

    effects = bench.settle(probe, NoAnswer(Failure.TARGET_NOT_ALLOWED, TIMINGS))

    assert bench.engine.queues["ep"].breaker.state is BreakerState.PROBING
    assert len(effects.sends) == 1, "the next probe"


def test_an_attempt_for_which_we_had_no_room_is_none() -> None:
    bench = Bench(row(1))
    (send,) = bench.fetch().sends

    assert bench.answer(send, NoAnswer(Failure.ABORTED, TIMINGS)) == []
    (again,) = bench.later(1_000).sends

    assert (send.attempt, again.attempt) == (1, 1)


def test_a_few_events_of_a_lane_are_read_at_once_and_more_where_no_other_is_read() -> None:
    bench = Bench(row(1, tail=100), row(2, tail=100), row(3, tail=100))

    assert bench.effects.fetches == [(1, 1, FETCH_ALONE_MAX), (2, 1, FETCH_MAX), (3, 1, FETCH_MAX)]


def test_reading_is_bounded_and_goes_on_when_something_arrives() -> None:
    bench = Bench(*(row(lane, tail=1) for lane in range(1, 12)), in_flight_max=2)

    assert len(bench.effects.fetches) == 8
    waiting = bench.fetch().sends
    done = 0
    while waiting:
        effects = bench.settle(waiting.pop())
        done += 1
        waiting += effects.sends
        if effects.fetches:
            waiting += bench.fetch().sends
    assert done == 11
    assert bench.engine.queues["ep"].fetching == 0


def test_reading_goes_on_when_what_was_being_read_is_lost() -> None:
    first = [row(lane, pid=0, tail=1) for lane in range(1, 9)]
    bench = Bench(*first, in_flight_max=2)
    bench.step(Loaded(1, 1, [row(lane, pid=1, tail=1) for lane in range(20, 23)]))
    assert bench.effects.fetches == []

    effects = bench.step(Dropped(frozenset({0})))

    assert {20, 21, 22} == {want.lane_id for want in effects.fetches}


def test_events_that_the_store_does_not_have_make_the_engine_look_again_and_count_once() -> None:
    bench = Bench(row(1), row(2))
    wants = [want.lane_id for want in bench.effects.fetches]

    effects = bench.step(Fetched([(2, 1, event(1, "k2"))], wants))

    assert effects.reloads == [1]
    assert bench.engine.queues["ep"].fetching == 0


def test_the_events_in_memory_are_counted_and_let_go() -> None:
    bench = Bench()
    sends = bench.step(*(grown(lane, 1) for lane in range(1, 5))).sends
    assert bench.engine.held_bytes == 4 * len(event(1).data)

    bench.settle(sends[0])
    bench.settle(sends[1], 400)
    bench.step(Dropped(frozenset({0})))

    assert bench.engine.held_bytes == 0
    assert len(bench.engine) == 0


def test_no_more_is_kept_in_memory_than_fits_but_each_head_that_is_due() -> None:
    bench = Bench(row(1), row(2), window_bytes_max=1)

    sends = bench.fetch().sends

    assert [send.lane_id for send in sends] == [1, 2]
    assert bench.engine.held_bytes == 2 * len(event(1).data)


def test_an_event_of_which_two_tell_counts_once_in_memory() -> None:
    bench = Bench()
    (send,) = bench.step(grown(1, 1), grown(1, 1)).sends

    bench.settle(send)

    assert bench.engine.held_bytes == 0


def test_an_event_that_was_skipped_by_policy_is_not_kept_in_memory() -> None:
    bench = Bench(on_dead=OnDead.SKIP, attempts_max=1)
    (send,) = bench.step(grown(1, 1)).sends

    bench.settle(send, 422)

    assert bench.engine.held_bytes == 0


def test_events_that_are_cancelled_are_not_kept_in_memory() -> None:
    bench = Bench(state=EndpointState.PAUSED)
    bench.step(grown(1, 1), grown(1, 2))
    held_before = bench.engine.held_bytes

    bench.commit(*bench.step(EndpointChanged(endpoint(state=EndpointState.CANCELLING))).writes)

    assert (held_before > 0, bench.engine.held_bytes) == (True, 0)


def test_a_head_that_waits_for_long_does_not_keep_its_event_in_memory() -> None:
    bench = Bench(backoff_ms=60_000)
    (send,) = bench.step(grown(1, 1)).sends

    bench.settle(send, 500)

    assert bench.engine.held_bytes == 0
    bench.later(60_000)
    assert len(bench.fetch().sends) == 1


def test_a_partition_that_is_loaded_twice_leaves_nothing_behind() -> None:
    bench = Bench(row(1), row(2))
    bench.step(grown(3, 1))

    bench.step(Loaded(0, 2, [row(1, tail=1), row(2, tail=1), row(3, tail=1)]))

    assert bench.engine.held_bytes == 0
    assert bench.engine.queues["ep"].fetching == 3


@pytest.mark.parametrize(
    ("rules", "waits"),
    [({}, {"next_at": T0 + 86_400_000}), ({"state": EndpointState.PAUSED}, {})],
    ids=["tried", "paused"],
)
def test_lanes_that_wait_are_not_kept_once_for_each_time_that_their_partition_came_and_went(rules, waits) -> None:
    """They were, until their time came or their endpoint was resumed: a day, or weeks."""
    before = lanes_in_memory()
    rows = [row(lane, **waits) for lane in range(1, 101)]
    bench = Bench(*rows, **rules)

    for epoch in range(2, 12):
        bench.step(Dropped(frozenset({0})))
        bench.step(Loaded(0, epoch, rows))

    assert lanes_in_memory() - before <= 100
    assert bench.step(EndpointChanged(replace(bench.endpoint, state=EndpointState.ACTIVE))).sends == []


def lanes_in_memory() -> int:
    gc.collect()
    return sum(type(one) is OwnedLane for one in gc.get_objects())  # others may answer for their class


def test_an_endpoint_whose_lanes_went_before_its_turn_is_passed_over() -> None:
    bench = Bench(in_flight_max_all=1)
    (send,) = bench.step(grown(1, 1)).sends
    bench.step(EndpointChanged(endpoint("ep_2")), Loaded(1, 1, [row(2, pid=1, endpoint_id="ep_2", tail=1)]))

    bench.step(Dropped(frozenset({1})))

    assert bench.settle(send).sends == []


def test_a_tenant_whose_endpoints_never_answer_leaves_half_of_the_places_to_others() -> None:
    bench = Bench(in_flight_max_all=64)
    dead = [endpoint(f"dead_{n}", tenant="acme") for n in range(100)]
    bench.step(*(EndpointChanged(one) for one in (*dead, endpoint("ep_b", tenant="other"))))

    flood = bench.step(*(grown(lane, 1, endpoint_id=dead[lane % 100].id) for lane in range(1, 401))).sends
    first = bench.step(*(grown(lane, 1, endpoint_id="ep_b") for lane in range(500, 504))).sends

    assert len(flood) == 32
    assert [send.endpoint.id for send in first] == ["ep_b"] * 4, "an endpoint that was never tried before goes at once"
    seen = {send.endpoint.id for send in flood}
    for send in flood:
        seen |= {one.endpoint.id for one in bench.settle(send, 200).sends}
    assert len(seen) > 60, "and what waited of the tenant goes on as its own deliveries end"


def test_a_tenant_that_is_alone_may_use_every_place() -> None:
    bench = Bench(in_flight_max_all=64)
    several = [endpoint(f"ep_{n}") for n in range(100)]
    bench.step(*(EndpointChanged(one) for one in several))

    sends = bench.step(*(grown(lane, 1, endpoint_id=several[lane % 100].id) for lane in range(1, 401))).sends

    assert len(sends) >= 60


def test_every_endpoint_that_never_answers_gets_its_places_again_and_again() -> None:
    bench = Bench(in_flight_max_all=64, attempts_max=9)
    silent = [endpoint(f"silent_{n}") for n in range(80)]
    bench.step(*(EndpointChanged(one) for one in silent))
    line = bench.step(*(grown(lane, 1, endpoint_id=silent[lane % 80].id) for lane in range(1, 161))).sends
    tries = Counter[int]()

    for _ in range(4):
        while line:
            send = line.pop(0)
            tries[send.lane_id] += 1
            line += bench.settle(send, TIMEOUT).sends
        line = bench.later(120_000).sends

    assert (len(tries), min(tries.values())) == (160, 4)


def test_every_endpoint_of_a_tenant_that_fills_its_places_gets_them_again_and_again() -> None:
    bench = Bench(in_flight_max_all=64)
    many = [endpoint(f"ep_{n}", tenant="acme") for n in range(100)]
    bench.step(*(EndpointChanged(one) for one in (*many, endpoint("ep_b", tenant="other"))))
    line = bench.step(
        *(grown(lane, seq, endpoint_id=many[lane % 100].id) for lane in range(1, 101) for seq in (1, 2, 3, 4))
    ).sends

    done = 0
    while line:
        done += 1
        line += bench.settle(line.pop(0)).sends

    assert done == 400
