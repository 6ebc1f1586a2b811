"""A breaker holds: it opens on faults of the endpoint, probes one at a time, and comes back slowly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.breaker import Breaker, BreakerRules, BreakerState, is_evidence, is_fault
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer, Failure, NoAnswer, Timings

T0 = Instant(1_750_000_000_000)
RULES = BreakerRules()
TIMINGS = Timings(1.0)


def opened() -> Breaker:
    breaker = Breaker()
    for _ in range(RULES.volume_min):
        breaker.record(True, T0, 0.0, 64)
    return breaker


def test_a_few_faults_are_no_outage() -> None:
    breaker = Breaker()
    for _ in range(RULES.volume_min - 1):
        breaker.record(True, T0, 0.0, 64)

    assert breaker.room(T0, 64) == 64


def test_half_of_a_window_failing_opens_it() -> None:
    breaker = Breaker()
    for n in range(RULES.volume_min):
        breaker.record(n % 2 == 0, T0, 0.0, 64)

    assert breaker.state is BreakerState.OPEN
    assert breaker.room(T0, 64) == 0


def test_faults_of_an_old_window_are_forgotten() -> None:
    breaker = Breaker()
    for n in range(RULES.volume_min * 3):
        breaker.record(True, Instant(T0 + n * RULES.window_ms), 0.0, 64)

    assert breaker.state is BreakerState.CLOSED


def test_it_probes_one_at_a_time_after_the_hold_and_longer_after_each_failed_probe() -> None:
    breaker, now, holds = opened(), T0, []
    for _ in range(6):
        holds.append(breaker.until - now)
        assert breaker.room(Instant(breaker.until - 1), 64) == 0
        now = breaker.until
        assert breaker.room(now, 64) == 1
        breaker.record(True, now, 0.0, 64)

    assert holds == [5_000, 10_000, 20_000, 30_000, 30_000, 30_000]


@given(st.floats(0, 1, exclude_max=True))
def test_chance_spreads_the_probes_and_never_hurries_them(roll: float) -> None:
    breaker = Breaker()
    for _ in range(RULES.volume_min):
        breaker.record(True, T0, roll, 64)

    assert RULES.hold_ms <= breaker.until - T0 <= RULES.hold_ms * 1.25


def test_it_comes_back_slowly_and_closes() -> None:
    breaker = opened()
    now = breaker.until
    assert breaker.room(now, 64) == 1
    breaker.record(False, now, 0.0, 64)

    rooms = []
    while breaker.state is not BreakerState.CLOSED:
        rooms.append(breaker.room(now, 64))
        breaker.record(False, now, 0.0, 64)

    assert rooms == list(range(2, 64))
    assert breaker.room(now, 64) == 64


def test_a_fault_while_it_comes_back_opens_it_again() -> None:
    breaker = opened()
    breaker.room(breaker.until, 64)
    breaker.record(False, breaker.until, 0.0, 64)

    breaker.record(True, breaker.until, 0.0, 64)

    assert breaker.state is BreakerState.OPEN


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20_000), st.floats(0, 1, exclude_max=True)), max_size=200))
def test_there_is_never_room_for_less_than_nothing_or_more_than_the_limit(
    steps: list[tuple[bool, int, float]],
) -> None:
    breaker, now = Breaker(), T0
    for fault, ms, roll in steps:
        now = Instant(now + ms)
        assert 0 <= breaker.room(now, 8) <= 8
        breaker.record(fault, now, roll, 8)
    assert breaker.room(Instant(now + 10**6), 8) >= 1, "time alone lets it probe"


def test_only_faults_of_the_whole_endpoint_count() -> None:
    assert [status for status in (200, 301, 400, 404, 410, 422, 429) if is_fault(Answer(status, TIMINGS))] == []
    assert all(is_fault(Answer(status, TIMINGS)) for status in (500, 502, 503, 504))
    ours = (Failure.ABORTED, Failure.TARGET_NOT_ALLOWED)
    for failure in Failure:
        assert is_fault(NoAnswer(failure, TIMINGS)) == (failure not in ours)
        assert is_evidence(NoAnswer(failure, TIMINGS)) == (failure not in ours)
