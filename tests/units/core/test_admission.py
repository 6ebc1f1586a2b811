"""The receiver's decisions, alone: properties that hold for every input."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hooklane.core.admission.breaker import Breaker, BreakerPolicy, BreakerState
from hooklane.core.admission.copies import Copy, is_too_old, judge_copy
from hooklane.core.admission.failures import (
    INTERRUPTIONS_PER_ATTEMPT,
    Hopeless,
    Interrupted,
    RetryPolicy,
    Transient,
    judge_failure,
    weigh,
)
from hooklane.core.admission.freshness import RANKS, microseconds, pick, rank, tie
from hooklane.core.admission.rate import WAIT_S_MAX, Bucket
from hooklane.core.admission.retention import STILL_MS, beat, cutoff
from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.model.clock import Instant
from hooklane.model.inbox import Heartbeat
from hooklane.model.message import Status
from hooklane.model.sqlstate import meaning_of_sqlstate
from hooklane.receiver.recent import Recent

NOW = Instant(1_800_000_000_000)
DAY_MS = 86_400_000
seqs = st.integers(0, 50)
rolls = st.floats(0, 1, exclude_max=True)


@given(seqs, seqs, seqs)
def test_a_message_is_ready_only_when_it_is_new_and_its_predecessor_is_applied(seq: int, back: int, done: int) -> None:
    prev_seq = max(0, seq - 1 - back)
    turn = whose_turn(seq=seq, prev_seq=prev_seq, applied=done)
    assert (turn is Turn.PAST) == (seq <= done)
    assert (turn is Turn.READY) == (prev_seq <= done < seq)


@given(st.permutations(list(range(1, 8))))
def test_taken_by_turns_every_order_of_arrival_applies_in_sequence(arrivals: list[int]) -> None:
    applied: list[int] = []
    waiting: list[int] = []
    for arrival in arrivals:
        waiting.append(arrival)
        for _ in range(len(waiting)):
            done = applied[-1] if applied else 0
            ready = [seq for seq in waiting if whose_turn(seq=seq, prev_seq=seq - 1, applied=done) is Turn.READY]
            applied += ready
            waiting = [seq for seq in waiting if seq not in ready]
    assert applied == list(range(1, 8))


@given(st.integers(1, 50), rolls, st.integers(0, 10 * DAY_MS))
def test_a_failure_is_retried_within_the_policy_or_dies(attempts: int, roll: float, age_ms: int) -> None:
    policy = RetryPolicy()
    sentence = judge_failure(
        Transient(), attempts=attempts, received_at=Instant(NOW - age_ms), now=NOW, policy=policy, roll=roll
    )
    if sentence.status is Status.FAILED:
        assert attempts < policy.attempts_max
        assert 0 < sentence.due_at - NOW <= policy.backoff_cap_ms
        assert sentence.due_at - (NOW - age_ms) <= policy.age_ms_max
    else:
        assert attempts >= policy.attempts_max or age_ms + policy.backoff_cap_ms > policy.age_ms_max


@given(st.integers(1, 7), rolls)
def test_full_jitter_spreads_over_the_whole_step(attempts: int, roll: float) -> None:
    sentence = judge_failure(Transient(), attempts=attempts, received_at=NOW, now=NOW, policy=RetryPolicy(), roll=roll)
    step = min(3_600_000, 5_000 * 2 ** (attempts - 1))
    assert max(500, int(step * roll)) == sentence.due_at - NOW


def test_what_cannot_get_better_dies_at_once_and_a_wish_is_kept() -> None:
    options = {"attempts": 1, "received_at": NOW, "now": NOW, "policy": RetryPolicy(), "roll": 0.5}
    assert judge_failure(Hopeless("poison"), **options).status is Status.DEAD  # type: ignore[arg-type]
    assert judge_failure(Transient(90_000), **options).due_at == NOW + 90_000  # type: ignore[arg-type]


@example(64, 7, 0.0)
@given(st.integers(0, 200), st.integers(1, 20), st.floats(0, 1, exclude_max=True))
def test_an_interruption_is_retried_within_a_minute_and_costs_no_attempt_until_it_is_one_too_many(
    given_back: int, attempts: int, roll: float
) -> None:
    policy = RetryPolicy()
    options = {"attempts": attempts, "received_at": NOW, "now": NOW, "policy": policy, "roll": roll}
    sentence = judge_failure(Interrupted(), given_back=given_back, **options)  # type: ignore[arg-type]

    interruptions_max = policy.attempts_max * INTERRUPTIONS_PER_ATTEMPT
    # Where `Retry(after=…)` leaves the attempts, however often; interruptions alone never give back more.
    was_put_off = attempts == policy.attempts_max - 1 and given_back > interruptions_max
    if was_put_off or given_back < interruptions_max:
        assert (sentence.status, sentence.attempts) == (Status.FAILED, attempts - 1)
        assert NOW < sentence.due_at <= NOW + 60_000
    else:
        assert sentence == judge_failure(Transient(), **options)  # type: ignore[arg-type]


def test_what_was_put_off_many_times_and_is_then_interrupted_for_ever_ends_by_its_age() -> None:
    policy = RetryPolicy()
    options = {"attempts": policy.attempts_max - 1, "given_back": 1_000, "now": NOW, "policy": policy, "roll": 0.5}
    ages_ms = (0, policy.age_ms_max - 60_000, policy.age_ms_max - 1_000)
    sentences = [judge_failure(Interrupted(), received_at=Instant(NOW - age), **options) for age in ages_ms]  # type: ignore[arg-type]

    assert [sentence.status for sentence in sentences] == [Status.FAILED, Status.FAILED, Status.DEAD]
    assert sentences[-1].reason == "age_max"


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03", "57014", "53000", "53100", "08003", "57P01", "57P03"])
def test_a_code_that_passes_is_an_interruption_whatever_followed_from_it(code: str) -> None:
    passing, followed = meaning_of_sqlstate(code), meaning_of_sqlstate("25P02")
    assert passing is not None
    assert followed is not None
    assert weigh([followed, passing]) == Interrupted()


@pytest.mark.parametrize("code", ["23505", "42P01", "22012", "22P02", "25P02"])
def test_a_code_of_a_bug_is_none(code: str) -> None:
    meaning = meaning_of_sqlstate(code)
    assert weigh([] if meaning is None else [meaning]) == Transient()


@pytest.mark.parametrize("wrong", [{"attempts_max": 0}, {"backoff_ms": 0}, {"age_ms_max": 0}, {"backoff_cap_ms": 1}])
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)).removesuffix("_cap_ms")):
        RetryPolicy(**wrong)


def test_fingerprints_decide_between_a_copy_and_a_conflict() -> None:
    assert judge_copy(first=b"a", second=b"a") is Copy.DUPLICATE
    assert judge_copy(first=b"a", second=b"b") is Copy.CONFLICT
    assert judge_copy(first=b"", second=b"b") is Copy.DUPLICATE
    assert judge_copy(first=b"a", second=b"a", first_topic="x", second_topic="y") is Copy.CONFLICT
    assert judge_copy(first=b"a", second=b"a", first_topic="x") is Copy.DUPLICATE


def test_only_a_known_time_can_be_too_old() -> None:
    assert is_too_old(Instant(0), now=NOW, age_ms_max=1)
    assert not is_too_old(None, now=NOW, age_ms_max=1)
    assert not is_too_old(Instant(0), now=NOW, age_ms_max=None)


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.integers(-14, 14))  # noqa: DTZ001
def test_one_instant_has_one_number_however_it_is_written(naive: datetime, hours: int) -> None:
    at = naive.replace(tzinfo=UTC)
    elsewhere = at.astimezone(timezone(timedelta(hours=hours)))
    expected = microseconds(at)
    assert expected == microseconds(at.isoformat()) == microseconds(elsewhere.isoformat()) == microseconds(elsewhere)
    assert expected == microseconds(at.isoformat().replace("+00:00", "Z"))
    seconds = expected // 1_000_000
    assert seconds * 1_000_000 == microseconds(seconds) == microseconds(str(seconds))
    if seconds >= 100_000_000:  # smaller ones are seconds; nobody sends milliseconds of 1970
        assert seconds * 1_000_000 == microseconds(seconds * 1000) == microseconds(seconds * 1_000_000)


@given(st.lists(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)), min_size=2, max_size=2))  # noqa: DTZ001
def test_times_compare_as_times(pair: list[datetime]) -> None:
    first, second = (each.replace(tzinfo=UTC) for each in pair)
    assert (first < second) == (microseconds(first.isoformat()) < microseconds(second.isoformat()))


@pytest.mark.parametrize("at", [1767225603123.5, -1767225603123.5, 1767225603.25, 1767225603123456.5, -0.5, 0.0])
def test_a_time_with_a_fraction_is_the_same_as_a_number_and_as_text(at: float) -> None:
    assert abs(microseconds(at) - microseconds(f"{at:.9f}")) <= (abs(at) > 1e14), (
        "what is less than a microsecond is cut"
    )


def test_milliseconds_with_a_fraction_are_milliseconds_also_as_text() -> None:
    assert 1_767_225_603_123_500 == microseconds("1767225603123.5") == microseconds(1767225603123.5)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        True,
        "",
        "yesterday",
        [],
        float("nan"),
        "9" * 30,
        -(10**30),
        "0001-01-01T00:00:00+14:00",
        datetime(2026, 1, 1),  # noqa: DTZ001
    ],
)
def test_what_is_no_time_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError):
        microseconds(wrong)


NUMBERS = (
    st.integers(-(2**62), 2**80)
    | st.decimals(-1000, 1000, places=3, allow_nan=False)
    | st.floats(-1e6, 1e30, allow_nan=False)
)


@given(NUMBERS, NUMBERS, st.sampled_from([str, float, int, None]))
@example(9.5, 10.5, None)
@example(9, 9.5, None)
@example(999_999_999_999_999_999, 10**18, str)
@example(2**63 - 1, 2**63, str)
@example(-1, -1e-38, None)
def test_versions_compare_as_numbers_inside_a_tie(first: Any, second: Any, kind: Any) -> None:
    """However they come: whole or not, as numbers or as text, and however large."""
    versions = [each if kind is None or not isinstance(each, int) else kind(each) for each in (first, second)]
    versions = [str(each) if isinstance(each, Decimal) else each for each in versions]
    ties = [tie(version=each, type="t", ranks=(), event_id="e") for each in versions]
    compared = [Decimal(str(each)) for each in versions]
    assert (compared[0] < compared[1]) == (ties[0] < ties[1])


@pytest.mark.parametrize("word", ["", "v10", "1.2.3", "NaN", "١٢", float("nan"), float("inf"), True])
def test_a_version_that_is_no_number_is_compared_as_text(word: Any) -> None:
    assert tie(version=word, type="t", ranks=(), event_id="e") == f"{word}/000/e"


def test_types_rank_in_the_order_of_a_life() -> None:
    ranks = ("*created*", "*updated*", "*deleted*")
    assert [rank(f"order.{word}", ranks) for word in ("created", "updated", "deleted")] == [1, 2, 3]


@pytest.mark.parametrize("ranks", [("*created*", "*updated*", "*deleted*"), ("*created*", "*deleted*"), tuple("abcd")])
def test_a_type_in_no_rank_comes_after_the_first_and_before_the_last(ranks: tuple[str, ...]) -> None:
    first, other, last = (rank(word, ranks) for word in (ranks[0], "invoice.paid", ranks[-1]))

    assert first < other < last


def test_a_type_in_no_rank_is_as_an_update_and_comes_before_a_single_rank() -> None:
    assert rank("order.updated", RANKS) == rank("order.paid", RANKS)
    assert rank("order.paid", ("*deleted*",)) < rank("order.deleted", ("*deleted*",))


def test_values_are_picked_by_path_and_missing_ones_are_none() -> None:
    document = {"a": [{"b": 1}], "c": {"d": None}}
    assert 1 == pick(document, "a.0.b") == pick(document, "a[0].b") == pick(document, lambda each: each["a"][0]["b"])
    assert [pick(document, path) for path in ("a.1.b", "c.d.e", "x", "a.b")] == [None] * 4
    assert pick(None, "a") is None


@given(st.lists(st.tuples(st.integers(1, 5 * DAY_MS), st.booleans()), max_size=20))
@example([(1, True), (5 * DAY_MS, False), (4 * DAY_MS, True), (2 * DAY_MS - 1, False)])
def test_a_cutoff_never_reaches_what_lived_less_than_the_retention(steps: list[tuple[int, bool]]) -> None:
    """Rows live through the retention in time during which the inbox was up; downtime does not count."""
    retention_ms = 7 * DAY_MS
    now, heart = NOW, Heartbeat(NOW)
    alive_ms = 0
    for step_ms, lies_still in steps:
        if lies_still:
            now = Instant(now + STILL_MS + step_ms)
        else:
            now = Instant(now + step_ms)
            heart = Heartbeat(now, heart.down_ms, heart.down_until)  # beaten all the while
            alive_ms += step_ms
        heart = beat(heart, now, retention_ms=retention_ms)
        if alive_ms < retention_ms:
            limit = cutoff(heart, now, retention_ms=retention_ms, settle_ms=3_600_000)
            assert limit is None or limit < NOW


def test_a_breaker_opens_by_rate_with_a_minimum_and_forgets_what_is_long_ago() -> None:
    breaker = Breaker(BreakerPolicy(window_ms=1_000, calls_min=4, failure_rate=0.5))
    for at, ok in enumerate([False, False, False]):
        breaker.record(ok, Instant(at))
    assert breaker.state is BreakerState.CLOSED, "too few to say"
    for at in range(2_000, 2_006):
        breaker.record(True, Instant(at))
    breaker.record(False, Instant(2_007))
    assert breaker.state is BreakerState.CLOSED, "the old failures are out of the window"
    for at in range(2_010, 2_015):
        breaker.record(False, Instant(at))
    assert breaker.state is BreakerState.OPEN


def test_a_breaker_counts_a_busy_handler_without_remembering_each_call() -> None:
    breaker = Breaker(BreakerPolicy(window_ms=60_000, calls_min=10, failure_rate=0.5))
    for at in range(0, 180_000, 2):
        breaker.record(True, Instant(at))
    assert len(breaker._parts) <= 61
    failures = 1
    while breaker.record(False, Instant(180_000)) is not BreakerState.OPEN:
        failures += 1

    assert 29_500 <= failures <= 31_000, "as many as the successes of the last minute"


def test_recent_ids_are_known_again_until_newer_ones_take_their_place() -> None:
    recent = Recent()
    ids = [("github", "default", f"evt_{number}") for number in range(100_000)]

    assert not recent.note(ids[:1])
    assert recent.note(ids[:1])
    assert not recent.note(ids[:2]), "not all of them"
    assert not recent.note(ids)
    assert sum(recent.note([id]) for id in ids[-1_000:]) > 900
    assert sum(recent.note([id]) for id in ids[:1_000]) < 100, "newer ones came"


@pytest.mark.parametrize("wrong", [{"failure_rate": 0.0}, {"failure_rate": 1.1}, {"probes": 0}, {"calls_min": 0}])
def test_a_breaker_policy_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        BreakerPolicy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, 1.5, -1, float("nan"), float("inf"), "5"])
@pytest.mark.parametrize(
    ("policy", "field"),
    [(kind, each.name) for kind in (RetryPolicy, BreakerPolicy) for each in dataclasses.fields(kind)],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_policy_takes_whole_numbers_and_says_which_field_is_none(policy: Any, field: str, wrong: Any) -> None:
    """Naive: `nan` is neither too little nor too much, so it is taken, and an event is then retried for ever."""
    with pytest.raises(ValueError, match=field):
        policy(**{field: wrong})


def test_an_event_is_too_old_from_the_first_millisecond_behind_the_window_and_never_for_being_new() -> None:
    ages = {
        age: is_too_old(Instant(NOW - age), now=NOW, age_ms_max=DAY_MS) for age in (DAY_MS + 1, DAY_MS, 0, -DAY_MS * 2)
    }

    assert ages == {DAY_MS + 1: True, DAY_MS: False, 0: False, -DAY_MS * 2: False}


def test_nothing_may_go_until_an_inbox_that_was_down_has_settled() -> None:
    heart = Heartbeat(NOW, down_ms=DAY_MS, down_until=NOW)

    found = [
        cutoff(heart, Instant(NOW + later), retention_ms=30 * DAY_MS, settle_ms=1_000)
        for later in (0, 999, 1_000, 1_001)
    ]

    assert found == [None, None, Instant(NOW - 31 * DAY_MS), Instant(NOW - 31 * DAY_MS)]


@pytest.mark.parametrize("every_ms", [1_000, 60_000, STILL_MS])
def test_an_inbox_that_beats_all_the_while_was_never_down_and_forgets_what_is_old(every_ms: int) -> None:
    heart = Heartbeat(NOW)
    for n in range(1, 200):
        heart = beat(heart, Instant(NOW + n * every_ms), retention_ms=7 * DAY_MS)

        assert (heart.down_ms, heart.down_until) == (0, Heartbeat(NOW).down_until)
        limit = cutoff(heart, heart.seen_at, retention_ms=7 * DAY_MS, settle_ms=3_600_000)
        assert limit == heart.seen_at - 7 * DAY_MS


@pytest.mark.parametrize(("later_ms", "down_ms"), [(0, 2 * DAY_MS), (1, 0)])
def test_a_downtime_counts_until_the_retention_has_passed_since(later_ms: int, down_ms: int) -> None:
    now = Instant(NOW + 7 * DAY_MS + 2 * DAY_MS + later_ms)
    heart = Heartbeat(Instant(now - 1_000), down_ms=2 * DAY_MS, down_until=NOW)

    assert beat(heart, now, retention_ms=7 * DAY_MS).down_ms == down_ms


@given(
    st.floats(1e-323, 1e6) | st.floats(0.5, 50.0),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 1_000)), max_size=20),
)
def test_however_many_come_together_they_come_in_after_the_wait_that_they_were_told(
    rate: float, asked: list[tuple[int, int]]
) -> None:
    bucket, now = Bucket(rate, max(1.0, rate)), NOW
    for after_ms, many in asked:
        now = Instant(now + after_ms)
        told = bucket.wait(now, many)
        after_s = bucket.take(now, many)
        assert told == after_s, "to ask takes nothing"
        if after_s is not None and after_s < WAIT_S_MAX:
            now = Instant(now + 1000 * after_s + 1)  # a millisecond for what floats round away
            assert bucket.take(now, many) is None
