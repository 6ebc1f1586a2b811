"""A clock that is set makes nothing due and keeps nothing waiting: each wait is as long as it would have been."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.units.core.kit import T0, Bench, answer, grown, row

from hooklane.core.engine import Committed, EndpointChanged, Jumped, Settled
from hooklane.core.engine.engine import NEWS_LATE_MS
from hooklane.core.engine.suspects import QUIET_MS
from hooklane.model.attempt import Cancel
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.jumps import (
    DOUBT_MS,
    JUMP_MS,
    Believed,
    Forward,
    Observed,
    jump,
    kept_waiting,
    next_at_of,
    set_back,
)
from hooklane.model.lane import LaneState

DAY_MS = 86_400_000
jumps = st.integers(-3_650 * DAY_MS, 3_650 * DAY_MS)
instants = st.integers(3_650 * DAY_MS * 10, 3_650 * DAY_MS * 20).map(Instant)


@given(instants, st.integers(0, DAY_MS), jumps)
def test_a_clock_is_found_to_be_set_exactly_where_it_says_something_else_than_it_should(asked, took_ms, by):
    answered = Instant(asked + took_ms)

    assert jump(asked, answered, Instant(answered + max(0, by))) == (by if by > JUMP_MS else 0)
    assert jump(asked, answered, Instant(asked + min(0, by))) == (by if by < -JUMP_MS else 0)


@given(instants, st.integers(0, DAY_MS), st.floats(0, 1))
def test_an_answer_that_was_long_on_its_way_does_not_look_like_a_clock_that_was_set(asked, took_ms, part):
    assert jump(asked, Instant(asked + took_ms), Instant(asked + int(part * took_ms))) == 0


@given(instants, instants)
def test_a_clock_is_set_back_by_at_least_what_it_has_said_before(last, now):
    by = set_back(last, now)

    assert by >= 0
    assert now + by >= last - JUMP_MS  # moved by so much, nothing waits longer than it did


@given(instants, st.integers(0, 3_650 * DAY_MS), st.integers(-DAY_MS, DAY_MS), st.integers(0, 5_000))
def test_what_waited_when_the_clock_was_set_forward_waits_as_long_as_before(before, by, wait_ms, unnoticed_ms):
    now = Instant(before + by)

    kept = kept_waiting(row(next_at=Instant(before + wait_ms)), Forward(by, before, Instant(now - unnoticed_ms)))

    left_before, left_after = max(0, wait_ms), max(0, kept.next_at - now)
    assert left_after == (left_before if by - unnoticed_ms > wait_ms else max(0, wait_ms - by))


@given(instants, st.integers(0, 3_650 * DAY_MS), st.integers(0, 5_000), st.integers(0, DAY_MS))
def test_what_failed_after_the_clock_was_set_forward_waits_no_longer_than_it_says(before, by, unnoticed_ms, wait_ms):
    after = Instant(before + by - unnoticed_ms)
    failed_since = row(next_at=Instant(max(after, before) + wait_ms))

    assert kept_waiting(failed_since, Forward(by, before, after)) == failed_since


@given(instants, st.integers(1, DAY_MS), jumps)
def test_a_retry_is_written_for_when_it_was_judged_to_come_or_after_the_same_wait_where_its_worker_is_ahead(
    now, wait_ms, ahead_ms
):
    judged_at = Instant(now + ahead_ms)

    written = next_at_of(Instant(judged_at + wait_ms), judged_at, now)

    assert written == (now if ahead_ms > JUMP_MS else judged_at) + wait_ms
    assert next_at_of(START, judged_at, now) == START


@given(instants, st.integers(JUMP_MS + 1, 3_650 * DAY_MS), st.integers(0, DOUBT_MS - 1))
def test_a_clock_that_is_set_forward_is_not_believed_for_a_day(before, by, later_ms):
    clock = Believed()
    clock.at(before, Instant(0))

    assert clock.at(Instant(before + 10 + by), Instant(10)) == before + 10
    assert clock.at(Instant(before + 10 + by + later_ms), Instant(10 + later_ms)) == before + 10 + later_ms
    assert clock.at(Instant(before + 20 + later_ms), Instant(20 + later_ms)) == before + 20 + later_ms


@given(instants, st.integers(JUMP_MS + 1, 3_650 * DAY_MS))
def test_a_clock_that_keeps_to_a_later_time_is_believed_after_a_day(before, by):
    clock = Believed()
    clock.at(before, Instant(0))
    clock.at(Instant(before + by), Instant(0))
    believed = Instant(before + by + DOUBT_MS)

    assert (clock.at(believed, Instant(DOUBT_MS)), clock.was_set) == (believed, True)
    assert (clock.at(Instant(believed + 7), Instant(DOUBT_MS + 7)), clock.was_set) == (believed + 7, False)


@given(instants, st.integers(2 * JUMP_MS + 2, 3_650 * DAY_MS))
def test_a_clock_that_is_set_forward_once_more_is_doubted_anew(before, by):
    clock = Believed()
    clock.at(before, Instant(0))
    clock.at(Instant(before + JUMP_MS + 1), Instant(0))

    assert clock.at(Instant(before + by + DOUBT_MS - 1), Instant(DOUBT_MS - 1)) == before + DOUBT_MS - 1
    assert clock.at(Instant(before + by + DOUBT_MS), Instant(DOUBT_MS)) == before + DOUBT_MS


@given(instants, st.integers(0, 3_650 * DAY_MS), st.integers(0, 40 * DAY_MS))
def test_a_clock_that_is_set_back_or_goes_as_clocks_do_is_believed_at_once(before, back_ms, passed_ms):
    clock = Believed()
    clock.at(before, Instant(0))
    found = Instant(before + passed_ms - back_ms)

    assert (clock.at(found, Instant(passed_ms)), clock.was_set) == (found, False)


def waiting_bench() -> Bench:
    """An engine whose only head has failed, and waits for its second attempt: a second from now."""
    bench = Bench(row(1, head=1, tail=1))
    [send] = bench.fetch().sends
    bench.settle(send, 503)
    return bench


def set_clock(bench: Bench, by: int) -> None:
    bench.now = Instant(bench.now + by)
    bench.step(Jumped(by))


@given(jumps, jumps)
def test_a_retry_comes_after_its_wait_however_the_clock_is_set_meanwhile(first, second):
    bench = waiting_bench()

    set_clock(bench, first)
    assert bench.later(400).fetches + bench.effects.sends == []
    set_clock(bench, second)
    assert bench.later(599).fetches + bench.effects.sends == []
    assert bench.effects.wake_at - bench.now == 1
    bench.later(1)

    assert len(bench.effects.sends) + len(bench.effects.fetches) == 1


@given(st.integers(1, 3_650 * DAY_MS))
def test_a_retry_that_becomes_durable_after_the_clock_was_set_back_waits_no_longer(back_ms):
    bench = Bench(row(1, head=1, tail=1))
    [send] = bench.fetch().sends
    writes = bench.answer(send, 503)

    set_clock(bench, -back_ms)
    bench.commit(*writes)
    bench.later(1_000)

    assert len(bench.effects.sends) + len(bench.effects.fetches) == 1


@given(jumps)
def test_a_retry_waits_as_long_where_the_clock_is_found_set_in_the_step_in_which_it_becomes_durable(by):
    bench = Bench(row(1, head=1, tail=1))
    [send] = bench.fetch().sends
    writes = bench.answer(send, 503)

    bench.now = Instant(bench.now + by)
    found = [Committed(writes)]
    found.insert(0 if by > 0 else 1, Jumped(by))  # as a worker tells them
    bench.step(*found)
    assert bench.effects.sends + bench.effects.fetches == []
    assert bench.later(999).sends + bench.effects.fetches == []
    bench.later(1)

    assert len(bench.effects.sends) + len(bench.effects.fetches) == 1


@given(jumps)
def test_a_retry_waits_as_long_where_it_is_judged_in_the_step_in_which_the_clock_is_found_set(by):
    bench = Bench(row(1, head=1, tail=1))
    [send] = bench.fetch().sends

    bench.now = Instant(bench.now + by)
    found = [Settled(send, answer(503), 0.0)]
    found.insert(0 if by > 0 else 1, Jumped(by))  # as a worker tells them
    bench.commit(*bench.step(*found).writes)
    assert bench.later(999).sends + bench.effects.fetches == []
    bench.later(1)

    assert len(bench.effects.sends) + len(bench.effects.fetches) == 1


@given(jumps)
def test_a_held_endpoint_is_tried_again_in_time_however_the_clock_is_set(by):
    bench = Bench(*[row(lane, head=1, tail=1) for lane in range(1, 31)])
    sends = bench.fetch().sends
    for send in sends:
        bench.answer(send, 503)
        if bench.effects.health:
            break
    bench.share_health()
    breaker = bench.engine.queues["ep"].breaker
    left_ms = breaker.until - bench.now
    assert left_ms > 0

    set_clock(bench, by)

    assert breaker.until - bench.now == left_ms


def test_a_lane_that_waits_for_nothing_is_not_touched():
    bench = Bench(row(1, head=1, tail=1))
    [send] = bench.fetch().sends

    set_clock(bench, -DAY_MS)
    bench.step(Settled(send, answer(200), 0.0))
    bench.commit(*bench.effects.writes)

    assert bench.effects.wake_at == FOREVER
    assert bench.engine._heads.lanes[1].state is LaneState.IDLE


@given(instants, st.integers(1, 60_000), st.integers(0, 3_650 * DAY_MS), st.integers(0, 1_000_000))
def test_a_lease_that_ends_later_than_it_can_is_waited_for_once(now, length_ms, back_ms, boot):
    others, until = Observed(length_ms), Instant(now + length_ms + JUMP_MS + back_ms + 1)

    def is_over(after_ms: int, until: Instant = until) -> bool:
        return others.is_over("w", until, Instant(now + after_ms), Instant(boot + after_ms))

    assert not is_over(0)
    if back_ms > length_ms:
        assert not is_over(length_ms - 1)
        assert is_over(length_ms)
        assert not is_over(length_ms, Instant(until + 1)), "its holder lives, and has renewed it"


@given(instants, st.integers(1, 60_000), st.integers(-60_000, 60_000))
def test_a_lease_that_can_be_ends_when_it_says(now, length_ms, left_ms):
    left_ms = min(left_ms, length_ms)

    assert Observed(length_ms).is_over("w", Instant(now + left_ms), now, Instant(0)) == (left_ms <= 0)


def test_an_idle_lane_is_remembered_as_long_as_before_however_the_clock_is_set() -> None:
    for by in (DAY_MS, -DAY_MS):
        bench = Bench(row(1, tail=1), lanes_max=0)
        (send,) = bench.fetch().sends
        bench.settle(send)
        bench.now = Instant(bench.now + by)

        bench.step(Jumped(by))

        assert len(bench.engine) == 1
        bench.later(NEWS_LATE_MS)
        assert len(bench.engine) == 0


def test_heads_that_are_held_back_for_one_that_goes_alone_are_so_no_longer_when_the_clock_is_set_back() -> None:
    bench = Bench(row(1, tail=1, starts=3), row(2, tail=1), unclean=True)
    bench.fetch()
    assert bench.effects.wake_at == bench.now + QUIET_MS
    bench.now = Instant(bench.now - DAY_MS)

    bench.step(Jumped(-DAY_MS))

    assert bench.effects.wake_at == bench.now + QUIET_MS


def test_a_rate_limit_makes_nobody_wait_longer_when_the_clock_is_set_back() -> None:
    bench = Bench(rate_limit=10.0)
    assert len(bench.step(grown(1, 1), grown(2, 1)).sends) == 1
    bench.now = Instant(bench.now - DAY_MS)

    bench.step(Jumped(-DAY_MS))

    assert len(bench.later(101).sends) == 1


def test_an_endpoint_that_waits_for_its_rate_has_one_alarm_however_the_clock_is_set() -> None:
    bench = Bench(rate_limit=1.0)
    bench.step(grown(1, 1), grown(2, 1))
    bench.now = Instant(bench.now + 10_000)

    bench.step(Jumped(10_000), EndpointChanged(bench.endpoint))

    assert len(bench.engine._heads.alarms._heap) == 1


def test_the_news_of_a_first_event_may_be_as_old_as_before_however_the_clock_is_set() -> None:
    for by in (DAY_MS, -DAY_MS):
        bench = Bench(epoch=2)
        set_clock(bench, by)

        assert bench.step(grown(1, 1)).reloads == [1]
        bench.later(NEWS_LATE_MS)
        assert len(bench.step(grown(2, 1)).sends) == 1


def test_the_clock_may_be_found_set_in_the_step_in_which_something_is_cancelled() -> None:
    bench = Bench(row(1, next_at=Instant(T0 + 9)))
    deleted = EndpointChanged(replace(bench.endpoint, state=EndpointState.CANCELLING))

    effects = bench.step(deleted, Jumped(60_000))

    assert [type(write) for write in effects.writes] == [Cancel]
