"""A breaker holds: it opens on faults of the endpoint, for all workers; one of them probes; all come back slowly."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.breaker import Breaker, BreakerRules, is_evidence, is_fault
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer, Failure, NoAnswer, Timings
from hooklane.model.health import BreakerState, Health

T0 = Instant(1_750_000_000_000)
RULES = BreakerRules()
EASY = BreakerRules(volume_min=2, volume_floor=2, relapse_min=2)
"""So few faults are enough that chance finds the way through all states."""
ROOM = 4
TIMINGS = Timings(1.0)
TIMEOUT_MS = 20_000


class Shared:
    """The one place where turns are decided, as a store does it: the next turn is whose who writes it first."""

    def __init__(self) -> None:
        self.last: Health | None = None

    def ask(self, breaker: Breaker, turn: Health | None, worker: str, now: Instant) -> None:
        while turn is not None:
            if turn.turn == (self.last.turn if self.last else 0) + 1:
                self.last = replace(turn, by=worker)
            turn = breaker.answered(self.last, worker, now)


class Endpoint:
    """One worker's view of an endpoint, which talks to what all workers share."""

    def __init__(self, shared: Shared, worker: str = "w1", rules: BreakerRules = RULES, room: int = 64) -> None:
        self.shared, self.worker, self.room_max = shared, worker, room
        self.breaker = Breaker("ep", rules)

    def record(self, fault: bool, now: Instant, *, roll: float = 0.0, sent_at: Instant | None = None) -> None:
        sent_at = now if sent_at is None else sent_at
        self.shared.ask(self.breaker, self.breaker.record(fault, now, roll, self.room_max, sent_at), self.worker, now)

    def probe(self, now: Instant) -> bool:
        """Whether it is time to probe, and the probe became ours."""
        if self.breaker.wants_probe(now):
            self.shared.ask(self.breaker, self.breaker.claim(now, TIMEOUT_MS), self.worker, now)
        return self.breaker.state is BreakerState.PROBING and self.breaker.room(now, 64) == 1

    def look(self, now: Instant) -> None:
        if self.shared.last is not None:
            self.breaker.see(self.shared.last, now)

    @property
    def state(self) -> BreakerState:
        return self.breaker.state


def opened(roll: float = 0.0) -> Endpoint:
    endpoint = Endpoint(Shared())
    for _ in range(RULES.volume_min):
        endpoint.record(True, T0, roll=roll)
    assert endpoint.state is BreakerState.OPEN
    return endpoint


def test_a_few_faults_are_no_outage() -> None:
    endpoint = Endpoint(Shared())
    for _ in range(RULES.volume_min - 1):
        endpoint.record(True, T0)

    assert endpoint.breaker.room(T0, 64) == 64


def test_more_than_half_of_a_window_failing_opens_it() -> None:
    endpoint = Endpoint(Shared())
    for n in range(RULES.volume_min * 3):
        endpoint.record(n % 3 != 0, T0)

    assert endpoint.state is BreakerState.OPEN
    assert endpoint.breaker.room(T0, 64) == 0


@pytest.mark.parametrize("share", [1.0, 0.3, 0.01])
def test_an_endpoint_that_takes_most_of_what_it_gets_is_never_held(share: float) -> None:
    chance = random.Random(22)
    endpoint = Endpoint(Shared())
    endpoint.breaker.share(share)
    for n in range(100_000):
        endpoint.record(chance.random() < 0.22, Instant(T0 + n))

    assert endpoint.shared.last is None, "chance opened it, which no judgement by a share of a few results avoids"


def test_an_endpoint_that_fails_now_and_then_comes_back_all_the_same() -> None:
    back = 0
    for seed in range(100):
        chance, endpoint = random.Random(seed), opened()
        now = endpoint.breaker.until
        assert endpoint.probe(now)
        endpoint.record(False, now)
        while endpoint.state is BreakerState.RAMPING:
            endpoint.record(chance.random() < 0.22, now)
        back += endpoint.state is BreakerState.CLOSED

    assert back > 80


def test_faults_of_an_old_window_are_forgotten() -> None:
    endpoint = Endpoint(Shared())
    for n in range(RULES.volume_min * 3):
        endpoint.record(True, Instant(T0 + n * RULES.window_ms))

    assert endpoint.state is BreakerState.CLOSED


def test_it_probes_one_at_a_time_after_the_hold_and_longer_after_each_failed_probe() -> None:
    endpoint, now, holds = opened(), T0, []
    for _ in range(6):
        holds.append(endpoint.breaker.until - now)
        assert not endpoint.probe(Instant(endpoint.breaker.until - 1))
        now = endpoint.breaker.until
        assert endpoint.probe(now)
        endpoint.record(True, now)

    assert holds == [5_000, 10_000, 20_000, 30_000, 30_000, 30_000]


@given(st.floats(0, 1, exclude_max=True))
def test_chance_spreads_the_probes_and_never_hurries_them(roll: float) -> None:
    endpoint = opened(roll)

    assert RULES.hold_ms <= endpoint.breaker.until - T0 <= RULES.hold_ms * 1.25
    assert opened(0.5).breaker.until - T0 == RULES.hold_ms * 1.125


def test_it_comes_back_slowly_and_closes() -> None:
    endpoint = opened()
    now = endpoint.breaker.until
    assert endpoint.probe(now)
    endpoint.record(False, now)

    rooms = []
    while endpoint.state is not BreakerState.CLOSED:
        rooms.append(endpoint.breaker.room(now, 64))
        endpoint.record(False, now)

    assert rooms == list(range(2, 64))
    assert endpoint.breaker.room(now, 64) == 64
    assert endpoint.shared.last is not None
    assert endpoint.shared.last.state is BreakerState.CLOSED


def test_only_successes_make_room_while_it_comes_back_and_never_more_than_the_limit() -> None:
    endpoint = opened()
    now = endpoint.breaker.until
    assert endpoint.probe(now)
    endpoint.record(False, now)

    endpoint.record(True, now)

    assert [endpoint.breaker.room(now, limit) for limit in (1, 64)] == [1, RULES.ramp_start]


def test_a_success_makes_up_for_no_more_than_one_fault_however_many_there_were_before() -> None:
    endpoint = Endpoint(Shared())
    for fault in (*[False] * 100, *[True] * (RULES.volume_min - 1), False):
        endpoint.record(fault, T0)

    for _ in range(2):
        assert endpoint.state is BreakerState.CLOSED
        endpoint.record(True, T0)

    assert endpoint.state is BreakerState.OPEN


def test_what_was_sent_while_it_came_back_counts_when_it_is_closed() -> None:
    endpoint = opened()
    now = endpoint.breaker.until
    assert endpoint.probe(now)
    while endpoint.state is not BreakerState.CLOSED:
        endpoint.record(False, now)

    for _ in range(RULES.volume_min):
        endpoint.record(True, Instant(now + 1), sent_at=Instant(now - 1))

    assert endpoint.state is BreakerState.OPEN


def test_a_few_faults_while_it_comes_back_open_it_again() -> None:
    endpoint = opened()
    now = endpoint.breaker.until
    assert endpoint.probe(now)
    endpoint.record(False, now)

    for _ in range(RULES.relapse_min):
        assert endpoint.state is BreakerState.RAMPING
        endpoint.record(True, now)

    assert endpoint.state is BreakerState.OPEN


def test_what_was_sent_before_a_turn_says_nothing_about_the_time_after_it() -> None:
    endpoint = opened()
    now = endpoint.breaker.until
    assert endpoint.probe(now)

    endpoint.record(False, now, sent_at=T0)

    assert endpoint.state is BreakerState.PROBING, "a straggler from before the outage is no probe"


def test_who_finds_an_endpoint_ill_opens_it_for_all() -> None:
    first = opened()
    second = Endpoint(first.shared, "w2")

    second.look(T0)

    assert second.state is BreakerState.OPEN
    assert second.breaker.room(T0, 64) == 0


def test_only_one_worker_probes() -> None:
    first = opened()
    second = Endpoint(first.shared, "w2")
    second.look(T0)
    now = first.breaker.until

    assert second.probe(now)
    assert not first.probe(now)
    assert first.state is BreakerState.PROBING, "it was told so, and asks no more"
    assert not first.breaker.wants_probe(now)


def test_while_the_store_is_asked_whose_the_probe_is_nobody_asks_again_and_no_news_decide_it() -> None:
    breaker = opened().breaker
    now = breaker.until
    claim = breaker.claim(now, TIMEOUT_MS)

    breaker.see(replace(claim, by="w2"), now)

    assert breaker.state is BreakerState.OPEN
    assert not breaker.wants_probe(now)
    assert breaker.answered(replace(claim, by="w1"), "w1", now) is None
    assert (breaker.state, breaker.room(now, 64)) == (BreakerState.PROBING, 1)


def test_a_probe_that_comes_after_others_found_it_well_is_none() -> None:
    breaker = opened().breaker
    now = breaker.until
    claim = breaker.claim(now, TIMEOUT_MS)
    breaker.see(Health("ep", claim.turn + 1, BreakerState.RAMPING, now, 1, by="w2"), now)

    breaker.answered(replace(claim, by="w1"), "w1", now)

    assert breaker.state is BreakerState.RAMPING


def test_a_later_turn_under_our_own_name_is_not_the_one_that_was_asked_for() -> None:
    breaker = opened().breaker
    now = breaker.until
    claim = breaker.claim(now, TIMEOUT_MS)

    breaker.answered(Health("ep", claim.turn + 3, BreakerState.RAMPING, now, 1, by="w1"), "w1", now)

    assert breaker.state is BreakerState.RAMPING
    assert breaker.claim(now, TIMEOUT_MS).turn == claim.turn + 4


def test_only_the_prober_judges_by_what_was_sent_since_the_probe_began() -> None:
    first = opened()
    second = Endpoint(first.shared, "w2")
    now = first.breaker.until
    assert first.probe(now)
    second.look(now)

    for fault in (False, True):
        assert second.breaker.record(fault, now, 0.0, 64, now) is None
        assert second.state is BreakerState.PROBING


def test_what_fails_while_it_is_open_makes_the_hold_no_longer() -> None:
    endpoint = opened()
    until = endpoint.breaker.until

    for _ in range(2 * RULES.volume_min):
        endpoint.record(True, Instant(T0 + 1))

    assert (endpoint.state, endpoint.breaker.until) == (BreakerState.OPEN, until)


def test_a_prober_that_dies_is_followed_by_another() -> None:
    first = opened()
    second = Endpoint(first.shared, "w2")
    second.look(T0)
    now = first.breaker.until
    assert first.probe(now)
    second.look(now)

    assert not second.probe(Instant(now + TIMEOUT_MS))
    assert second.probe(Instant(now + TIMEOUT_MS + RULES.probe_ms))


def test_all_workers_come_back_slowly() -> None:
    first = opened()
    second = Endpoint(first.shared, "w2")
    second.look(T0)
    now = first.breaker.until
    assert first.probe(now)
    first.record(False, now)

    second.look(now)

    assert (first.breaker.room(now, 64), second.breaker.room(now, 64)) == (2, 2)


steps = st.lists(
    st.tuples(
        st.sampled_from(("w1", "w2", "w3")),
        st.sampled_from(("fault", "well", "probe", "look")),
        st.integers(0, 8_000),
        st.floats(0, 1, exclude_max=True),
    ),
    max_size=200,
)


@given(steps)
def test_there_is_never_more_than_one_prober_nor_more_room_than_the_limit(
    steps: list[tuple[str, str, int, float]],
) -> None:
    shared, now = Shared(), T0
    workers = {name: Endpoint(shared, name, EASY, ROOM) for name in ("w1", "w2", "w3")}
    for name, what, ms, roll in steps:
        now = Instant(now + ms)
        worker = workers[name]
        match what:
            case "probe":
                worker.probe(now)
            case "look":
                worker.look(now)
            case _ if worker.breaker.room(now, ROOM):
                worker.record(what == "fault", now, roll=roll)
        rooms = {one.worker: one.breaker.room(now, ROOM) for one in workers.values()}
        assert all(0 <= room <= ROOM for room in rooms.values())
        probers = [one for one in workers.values() if one.state is BreakerState.PROBING and rooms[one.worker]]
        assert len(probers) <= 1


@given(steps)
def test_time_alone_lets_somebody_try_again(steps: list[tuple[str, str, int, float]]) -> None:
    shared, now = Shared(), T0
    workers = {name: Endpoint(shared, name, EASY, ROOM) for name in ("w1", "w2", "w3")}
    for name, what, ms, roll in steps:
        now = Instant(now + ms)
        if workers[name].breaker.room(now, ROOM):
            workers[name].record(what == "fault", now, roll=roll)
    now = Instant(now + 10**6)
    for worker in workers.values():
        worker.look(now)
        worker.probe(now)

    assert any(worker.breaker.room(now, ROOM) for worker in workers.values())


def test_only_faults_of_the_whole_endpoint_count() -> None:
    assert [status for status in (200, 301, 400, 404, 410, 422, 429) if is_fault(Answer(status, TIMINGS))] == []
    assert all(is_fault(Answer(status, TIMINGS)) for status in (500, 502, 503, 504))
    ours = (Failure.ABORTED, Failure.TARGET_NOT_ALLOWED)
    for failure in Failure:
        assert is_fault(NoAnswer(failure, TIMINGS)) == (failure not in ours)
        assert is_evidence(NoAnswer(failure, TIMINGS)) == (failure not in ours)


def test_one_that_was_well_again_is_held_as_shortly_as_at_first() -> None:
    endpoint = opened()
    now = endpoint.breaker.until
    for fault in (True, False):  # a probe that fails, and one that does not
        assert endpoint.probe(now)
        endpoint.record(fault, now)
        now = max(now, endpoint.breaker.until)
    while endpoint.state is not BreakerState.CLOSED:
        endpoint.record(False, now)
    while endpoint.state is BreakerState.CLOSED:
        endpoint.record(True, now)

    assert endpoint.breaker.until - now == RULES.hold_ms


@pytest.mark.parametrize(("share", "faults"), [(1.0, 20), (0.9, 18), (0.5, 10), (0.3, 10), (0.0, 10)])
def test_a_worker_with_a_part_of_the_traffic_needs_as_many_faults_less_but_never_very_few(
    share: float, faults: int
) -> None:
    endpoint = Endpoint(Shared())
    endpoint.breaker.share(share)
    for _ in range(faults - 1):
        endpoint.record(True, T0)

    assert endpoint.state is BreakerState.CLOSED
    endpoint.record(True, T0)
    assert endpoint.state is BreakerState.OPEN


@pytest.mark.parametrize(("later_ms", "state"), [(9_999, BreakerState.OPEN), (10_000, BreakerState.CLOSED)])
def test_faults_count_together_within_ten_seconds(later_ms: int, state: BreakerState) -> None:
    endpoint = Endpoint(Shared())
    endpoint.record(True, T0)
    for _ in range(RULES.volume_min - 1):
        endpoint.record(True, Instant(T0 + later_ms))

    assert endpoint.state is state


@given(st.lists(st.booleans(), max_size=60))
def test_each_success_makes_up_for_one_fault_and_none_for_those_to_come(results: list[bool]) -> None:
    endpoint, evidence = Endpoint(Shared()), 0
    for fault in [*results, *[True] * RULES.volume_min]:
        if endpoint.state is BreakerState.CLOSED:
            endpoint.record(fault, T0)
            evidence = max(0, evidence + (1 if fault else -1))

        assert (endpoint.state is BreakerState.OPEN) == (evidence >= RULES.volume_min)


def test_a_probe_that_is_never_answered_is_over_when_its_time_is() -> None:
    endpoint = opened()
    now = endpoint.breaker.until
    assert endpoint.probe(now)
    ends_at = Instant(now + TIMEOUT_MS + RULES.probe_ms)

    assert (endpoint.breaker.room(Instant(ends_at - 1), 64), endpoint.breaker.room(ends_at, 64)) == (1, 0)
    assert not endpoint.breaker.wants_probe(Instant(ends_at - 1))
    assert endpoint.probe(ends_at)


@given(steps, st.integers(-(10**9), 10**9), st.integers(0, 200))
def test_a_clock_that_is_set_and_told_changes_nothing(
    steps: list[tuple[str, str, int, float]], by: int, at: int
) -> None:
    """The same history twice, once with a jump in its midst: states and rooms are the same, times are later by it."""
    seen: list[list[object]] = []
    for jump in (0, by):
        shared, now, passed, story = Shared(), T0, 0, []
        workers = {name: Endpoint(shared, name, EASY, ROOM) for name in ("w1", "w2", "w3")}
        for number, (name, what, ms, roll) in enumerate(steps):
            if number == at:
                now, passed = Instant(now + jump), jump
                for one in workers.values():
                    one.breaker.jump(jump)
                if shared.last is not None:
                    shared.last = replace(shared.last, until=Instant(shared.last.until + jump))
            now = Instant(now + ms)
            worker = workers[name]
            if what == "probe":
                worker.probe(now)
            elif what == "look":
                worker.look(now)
            elif worker.breaker.room(now, ROOM):
                worker.record(what == "fault", now, roll=roll, sent_at=Instant(now - 2 * ms))
            story += [
                (one.state, one.breaker.room(now, ROOM), one.breaker.until - passed)
                for one in workers.values()
                if one.state is not BreakerState.CLOSED
            ]
        seen.append(story)

    assert seen[0] == seen[1]


@pytest.mark.parametrize(("ahead_ms", "waits_ms"), [(8_250, 8_250), (8_251, 5_000), (300_000, 5_000), (10**9, 5_000)])
def test_a_clock_that_was_set_back_untold_delays_a_probe_by_a_hold_at_most(ahead_ms: int, waits_ms: int) -> None:
    endpoint = opened()
    now = Instant(endpoint.breaker.until - ahead_ms)

    assert endpoint.breaker.room(now, 64) == 0
    assert endpoint.breaker.until - now == waits_ms


@pytest.mark.parametrize(
    ("state", "probes", "ahead_ms", "waits_ms"),
    [
        (BreakerState.OPEN, 2, 14_500, 14_500),
        (BreakerState.OPEN, 2, 14_501, 10_000),
        (BreakerState.PROBING, 1, 300_000, 300_000),
        (BreakerState.PROBING, 1, 300_001, 5_000),
    ],
)
def test_no_longer_hold_and_no_longer_probe_of_others_is_believed_than_there_can_be(
    state: BreakerState, probes: int, ahead_ms: int, waits_ms: int
) -> None:
    endpoint = Endpoint(Shared())
    endpoint.breaker.see(Health("ep", 1, state, Instant(T0 + ahead_ms), probes, by="w2"), T0)

    endpoint.breaker.room(T0, 64)

    assert endpoint.breaker.until - T0 == waits_ms


def test_only_an_answer_of_500_and_more_is_a_fault_whatever_the_number() -> None:
    assert [status for status in range(100, 600) if is_fault(Answer(status, TIMINGS))] == list(range(500, 600))


def test_what_turned_while_the_store_was_asked_is_told_with_its_answer() -> None:
    shared = Shared()
    endpoint = Endpoint(shared)
    for _ in range(RULES.volume_min - 1):
        endpoint.record(True, T0)
    breaker = endpoint.breaker
    opening = breaker.record(True, T0, 0.0, 64, T0)
    assert opening is not None
    well = Health("ep", 1, BreakerState.RAMPING, T0, 0, by="w2")
    breaker.see(replace(well, turn=2), T0)
    for _ in range(RULES.relapse_min):
        assert breaker.record(True, Instant(T0 + 1), 0.0, 64, Instant(T0 + 1)) is None, "one question at a time"
    assert breaker.state is BreakerState.OPEN

    following = breaker.answered(replace(opening, by="w1"), "w1", Instant(T0 + 1))

    assert following is not None
    assert (following.turn, following.state) == (opening.turn + 1, BreakerState.OPEN)
    assert breaker.answered(None, "w1", T0) is None
    assert breaker.answered(None, "w1", T0) is None, "nothing was asked"


def test_news_of_a_turn_that_is_known_already_change_nothing() -> None:
    endpoint = opened()
    until = endpoint.breaker.until
    assert endpoint.shared.last is not None
    for turn in (0, endpoint.shared.last.turn):
        endpoint.breaker.see(Health("ep", turn, BreakerState.CLOSED, T0, 0, by="w2"), T0)

        assert (endpoint.state, endpoint.breaker.until) == (BreakerState.OPEN, until)


def test_a_worker_that_knew_nothing_of_an_outage_does_not_come_back_from_it() -> None:
    endpoint = Endpoint(Shared())

    endpoint.breaker.see(Health("ep", 4, BreakerState.CLOSED, T0, 0, by="w2"), T0)

    assert (endpoint.state, endpoint.breaker.room(T0, 64)) == (BreakerState.CLOSED, 64)


def test_one_that_comes_back_already_is_not_thrown_back_by_the_news_that_all_is_well() -> None:
    endpoint = opened()
    now = endpoint.breaker.until
    assert endpoint.probe(now)
    for _ in range(10):
        endpoint.record(False, now)
    room = endpoint.breaker.room(now, 64)

    endpoint.breaker.see(Health("ep", 99, BreakerState.CLOSED, T0, 0, by="w2"), now)

    assert (endpoint.state, endpoint.breaker.room(now, 64)) == (BreakerState.RAMPING, room)


def test_a_worker_that_hears_that_all_is_well_comes_back_slowly_and_tells_nobody() -> None:
    late = Endpoint(Shared())
    late.breaker.see(Health("ep", 1, BreakerState.OPEN, Instant(T0 + 5_000), 1, by="w2"), T0)

    late.breaker.see(Health("ep", 4, BreakerState.CLOSED, T0, 0, by="w2"), T0)

    rooms = []
    for _ in range(RULES.ramp_start, 8):
        rooms.append(late.breaker.room(T0, 8))
        assert late.breaker.record(False, T0, 0.0, 8, T0) is None, "the store knows it already"
    assert rooms == list(range(RULES.ramp_start, 8))
    assert late.state is BreakerState.CLOSED


@pytest.mark.parametrize("by", [-(10**6), 10**6])
def test_a_hold_and_a_window_are_as_long_when_the_clock_is_set(by: int) -> None:
    held = opened().breaker
    held.jump(by)
    assert held.until - T0 == RULES.hold_ms + by

    states = []
    for later_ms in (RULES.window_ms - 1, RULES.window_ms):
        endpoint = Endpoint(Shared())
        for _ in range(RULES.volume_min - 1):
            endpoint.record(True, T0)
        endpoint.breaker.jump(by)
        endpoint.record(True, Instant(T0 + by + later_ms))
        states.append(endpoint.state)
    assert states == [BreakerState.OPEN, BreakerState.CLOSED]


@pytest.mark.parametrize("by", [-(10**6), 10**6])
def test_what_was_sent_before_a_turn_is_known_by_that_also_when_the_clock_is_set(by: int) -> None:
    endpoint = opened()
    assert endpoint.probe(endpoint.breaker.until)
    now = Instant(T0 + RULES.hold_ms + by)
    endpoint.breaker.jump(by)

    endpoint.record(False, now, sent_at=Instant(now - 1))
    assert endpoint.state is BreakerState.PROBING
    endpoint.record(False, now, sent_at=now)
    assert endpoint.state is BreakerState.RAMPING
