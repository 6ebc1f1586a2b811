"""Limits are kept, nobody starves, and memory is bounded."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.units.core.kit import T0, TIMEOUT, TIMINGS, Bench, endpoint, event, grown, row

from hooklane.core.engine import Dropped, EndpointChanged, Fetched, HealthSeen, LeaseSet, Loaded, StartedAnew
from hooklane.core.engine.heads import FETCH_ALONE_MAX, FETCH_MAX, FLYING_BYTES_MAX, KEEP_BODY_MS
from hooklane.core.engine.owned_lane import OwnedLane
from hooklane.model.attempt import Send
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.endpoint import EndpointState, OnDead
from hooklane.model.exchange import Failure, NoAnswer
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import Grown


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


@pytest.mark.parametrize("tenants", [["default"], ["default", "other"]], ids=len)
def test_an_endpoint_that_waits_for_a_place_stands_in_line_once(tenants) -> None:
    bench = Bench(in_flight_max_all=64)
    bench.step(*(EndpointChanged(endpoint(f"busy_{n}", tenant=tenants[0])) for n in range(80)))
    bench.step(*(EndpointChanged(endpoint(name, tenant=tenants[0])) for name in ("ep_a", "ep_b")))
    bench.step(*(EndpointChanged(endpoint(f"ep_{tenant}", tenant=tenant)) for tenant in tenants))
    line = bench.step(*(grown(lane, 1, endpoint_id=f"busy_{lane % 80}") for lane in range(80, 160))).sends
    assert len(line) < 80

    for lane in (201, 202, 203):
        bench.step(grown(lane, 1, endpoint_id="ep_a"))
    bench.step(grown(204, 1, endpoint_id="ep_b"))
    turns = []
    while line:
        following = bench.settle(line.pop(0)).sends
        turns.append([send.endpoint.id for send in following])
        line += following

    assert turns[turns.index(["ep_a"]) + 1] == ["ep_b"]


def test_of_two_tenants_one_holds_no_more_places_than_are_still_free() -> None:
    bench = Bench(in_flight_max_all=5)
    many = [EndpointChanged(endpoint(f"ep_{n}")) for n in range(20)]
    bench.step(EndpointChanged(endpoint("other", tenant="other")), *many)

    sends = bench.step(*(grown(n + 1, 1, endpoint_id=f"ep_{n}") for n in range(20))).sends

    assert len(sends) == 3
    for _ in range(10):
        sends = [*sends[1:], *bench.settle(sends[0]).sends]
        assert len(sends) == 3, "each that ends makes room for one"


def test_a_place_that_a_tenant_gives_back_goes_to_what_waits_of_that_tenant() -> None:
    bench = Bench(in_flight_max_all=64)
    names = [(tenant, n) for tenant in ("a", "b") for n in range(100)]
    bench.step(*(EndpointChanged(endpoint(f"{tenant}_{n}", tenant=tenant)) for tenant, n in names))
    bench.step(*(grown(n + 1, 1, endpoint_id=f"a_{n}") for n in range(100)))
    sends = bench.step(*(grown(n + 101, 1, endpoint_id=f"b_{n}") for n in range(100))).sends

    (following,) = bench.settle(sends[0]).sends

    assert following.endpoint.tenant == "b"


def test_a_share_of_the_work_that_grows_is_used_at_once() -> None:
    bench = Bench(in_flight_max=2)
    bench.step(LeaseSet(FOREVER, share=0.5))
    held = bench.step(*(grown(lane, 1) for lane in (1, 2, 3))).sends

    grown_share = bench.step(LeaseSet(FOREVER, share=1.0)).sends

    assert (len(held), len(grown_share)) == (1, 1)


def test_an_endpoint_that_comes_later_is_shared_as_well() -> None:
    bench = Bench()
    bench.step(LeaseSet(FOREVER, share=0.5), EndpointChanged(endpoint("ep_new", rate_limit=10.0)))

    bench.step(*(grown(lane, 1, endpoint_id="ep_new") for lane in (1, 2)))

    assert 200 <= bench.effects.wake_at - T0 <= 202


@pytest.mark.parametrize("started_anew", [False, True])
def test_who_has_half_of_the_work_sees_an_outage_after_half_of_the_faults(started_anew) -> None:
    bench = Bench()
    bench.step(LeaseSet(FOREVER, share=0.5), *([StartedAnew()] if started_anew else []))
    sends = bench.step(*(grown(lane, 1) for lane in range(1, 31))).sends

    turns = [bench.settle(send, 503).health for send in sends[:10]]

    assert [len(one) for one in turns] == [0] * 9 + [1]


def test_a_limit_of_few_in_a_second_counts_from_the_end_of_the_millisecond() -> None:
    bench = Bench(rate_limit=10.0)
    bench.step(grown(1, 1))

    bench.now = Instant(T0 + 100)
    effects = bench.step(grown(2, 1))

    assert (effects.sends, effects.wake_at) == ([], T0 + 101)
    assert len(bench.later(1).sends) == 1


@pytest.mark.parametrize(("limit", "after_ms"), [(20.0, 30), (19.9, 51)])
def test_who_sends_twenty_times_a_second_may_catch_up_and_who_sends_less_often_may_not(limit, after_ms) -> None:
    bench = Bench(rate_limit=limit)

    effects = bench.step(grown(1, 1), grown(2, 1))

    assert (len(effects.sends), effects.wake_at) == (1, T0 + after_ms)


def full_but_for_the_limited(**rules) -> tuple[Bench, Send]:
    """The one place is taken, and the rate-limited endpoint, which has sent once, has one more."""
    bench = Bench(in_flight_max_all=1, **rules)
    bench.step(EndpointChanged(endpoint("other")))
    (first,) = bench.step(grown(1, 1)).sends
    bench.settle(first)
    (held,) = bench.step(grown(9, 1, endpoint_id="other")).sends
    return bench, held


@pytest.mark.parametrize("limit", [None, 10.0])
def test_an_endpoint_whose_time_has_come_goes_when_a_place_is_free(limit) -> None:
    bench, held = full_but_for_the_limited(rate_limit=limit)
    bench.later(101)
    assert bench.step(grown(2, 1)).sends == []

    assert [send.endpoint.id for send in bench.settle(held).sends] == ["ep"]


@pytest.mark.parametrize(("size", "many"), [(FLYING_BYTES_MAX - 1, 2), (FLYING_BYTES_MAX, 1)])
def test_no_more_starts_when_as_many_bytes_are_in_flight_as_may_be(size, many) -> None:
    bench = Bench(window_bytes_max=2**40)
    big = Grown(1, 0, "ep", "k1", 1, event(1, "k1", bytes(size)))

    started = len(bench.step(big, grown(2, 1)).sends)

    assert started == many


def test_as_much_is_kept_in_memory_as_fits() -> None:
    bench = Bench(state=EndpointState.PAUSED, window_bytes_max=2 * len(event(1).data))

    bench.step(grown(1, 1), grown(2, 1), grown(3, 1))

    assert bench.engine.held_bytes == 2 * len(event(1).data)


def test_a_lane_that_holds_no_event_has_no_place_for_one() -> None:
    bench = Bench()
    (send,) = bench.step(grown(1, 1)).sends

    bench.settle(send)

    assert bench.engine._heads.lanes[1].bodies is None


@pytest.mark.parametrize(("wait_ms", "is_kept"), [(KEEP_BODY_MS, True), (KEEP_BODY_MS + 1, False)])
def test_a_head_that_is_due_soon_keeps_its_event_in_memory(wait_ms, is_kept) -> None:
    bench = Bench(backoff_ms=wait_ms)
    (send,) = bench.step(grown(1, 1)).sends

    bench.settle(send, 500)

    assert (bench.engine.held_bytes > 0) is is_kept


def test_a_lane_that_is_read_again_keeps_no_events_in_memory() -> None:
    bench = Bench()
    (send,) = bench.step(grown(1, 1), grown(1, 2)).sends

    effects = bench.commit(*bench.answer(send), stale=True)

    assert (effects.reloads, bench.engine.held_bytes) == ([1], 0)


def test_lanes_that_were_lost_while_they_waited_make_no_more_room_than_there_is() -> None:
    bench = Bench(*(row(lane, next_at=Instant(T0 + 500)) for lane in range(1, 5)), in_flight_max=1)

    bench.step(Dropped(frozenset({0})))
    bench.step(Loaded(1, 1, [row(lane, pid=1) for lane in range(5, 9)]))

    assert len(bench.fetch().sends) == 1


def test_only_idle_lanes_beyond_the_bound_are_forgotten() -> None:
    bench = Bench(row(1, head=2, tail=1), row(2, head=2, tail=1), lanes_max=1)

    bench.later(60_000)

    assert len(bench.engine) == 1


def test_a_lane_that_has_work_again_is_not_forgotten() -> None:
    bench = Bench(row(1, head=2, tail=1), lanes_max=0)
    (send,) = bench.step(grown(1, 2)).sends

    bench.later(60_000)

    assert len(bench.engine) == 1
    assert len(bench.answer(send)) == 1


def test_who_has_asked_for_a_probe_waits_for_the_answer_and_is_not_woken_at_once() -> None:
    bench = ill()
    (claim,) = bench.later(5_000).health
    assert claim.state is BreakerState.PROBING

    effects = bench.step(grown(99, 1))

    assert (effects.health, effects.wake_at > bench.now) == ([], True)


def test_a_turn_that_is_made_while_another_is_being_written_is_told_after_it() -> None:
    bench = Bench(in_flight_max=3, in_flight_max_all=1_000)
    sends = bench.step(*(grown(lane, 1) for lane in range(1, 61))).sends
    while sends:
        effects = bench.settle(sends.pop(), 503)
        sends += [] if effects.health else effects.sends
        bench.share_health()
    ramping = bench.settle(probing(bench))
    assert [turn.state for turn in ramping.health] == [BreakerState.RAMPING]
    asked = bench.effects

    assert bench.settle(ramping.sends[0]).health == [], "it has closed, which waits for the answer"
    bench.effects = asked
    (closing,) = bench.share_health().health

    assert (closing.state, closing.turn) == (BreakerState.CLOSED, asked.health[0].turn + 1)


def test_the_health_of_an_endpoint_that_is_not_known_is_passed_over() -> None:
    bench = Bench(row())

    bench.step(HealthSeen([Health("gone", 1, BreakerState.OPEN, Instant(T0 + 9), 1)], "w1", ["gone", "ep"]))

    assert list(bench.engine.queues) == ["ep"]


def test_a_probe_for_which_there_is_no_place_is_made_when_there_is_one() -> None:
    bench = Bench(in_flight_max_all=64)
    silent = [endpoint(f"silent_{n}") for n in range(62)]
    held = bench.step(
        *(EndpointChanged(one) for one in silent),
        *(grown(n + 2, 1, endpoint_id=one.id) for n, one in enumerate(silent)),
    ).sends
    bench.step(HealthSeen([Health("ep", 1, BreakerState.OPEN, Instant(T0 + 10), 1)]), grown(1, 1))
    bench.later(10)
    assert (len(held), bench.share_health().sends) == (62, [])

    (probe,) = bench.settle(held[0]).sends

    assert probe.endpoint.id == "ep"
