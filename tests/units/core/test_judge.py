"""What an answer means: only a 2xx delivers, waits keep to the policy, and the last attempt is the last."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime, formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.judge import HINT_MS_MAX, RetryPolicy, hint_ms, judge
from hooklane.model.attempt import DELIVERED, Dead, Gone, Outcome, Retry
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Timings

NOW = Instant(1_750_000_000_000)
TIMINGS = Timings(1.0)

rolls = st.floats(0, 1, exclude_max=True)
hints = st.none() | st.text(max_size=20) | st.integers(-10, 10**18).map(str)
answers = st.builds(
    Answer, st.integers(100, 599), st.just(TIMINGS), retry_after=hints, expected_seq=hints, outcome=st.none()
)
failures = st.builds(NoAnswer, st.sampled_from(Failure), st.just(TIMINGS), sent=st.booleans())
results = answers | failures
policies = st.builds(
    RetryPolicy,
    attempts_max=st.integers(1, 100),
    backoff_ms=st.integers(1, 10**7),
    backoff_cap_ms=st.integers(1, 10**8),
)


def judged(result: Result, *, seq: int | None = 5, attempt: int = 1) -> Outcome:
    return judge(result, seq=seq, attempt=attempt, policy=RetryPolicy(9, 1_000, 60_000), now=NOW, roll=0.0)


@given(results, st.none() | st.integers(1, 10**9), st.integers(1, 200), policies, rolls)
def test_only_a_2xx_or_a_409_that_says_have_it_delivers(
    result: Result, seq: int | None, attempt: int, policy: RetryPolicy, roll: float
) -> None:
    outcome = judge(result, seq=seq, attempt=attempt, policy=policy, now=NOW, roll=roll)

    if outcome == DELIVERED:
        assert isinstance(result, Answer)
        has_it = seq is not None and result.status == 409 and (result.expected_seq or "").strip() == str(seq + 1)
        assert 200 <= result.status < 300 or has_it
    elif isinstance(result, Answer):
        assert not 200 <= result.status < 300


@given(results, st.none() | st.integers(1, 10**9), st.integers(1, 200), policies, rolls)
def test_a_retry_waits_within_the_policy_whatever_the_endpoint_asks(
    result: Result, seq: int | None, attempt: int, policy: RetryPolicy, roll: float
) -> None:
    outcome = judge(result, seq=seq, attempt=attempt, policy=policy, now=NOW, roll=roll)

    if isinstance(outcome, Retry):
        least = min(policy.backoff_cap_ms, policy.backoff_ms * 2 ** (attempt - 1))
        hinted = isinstance(result, Answer) and result.status in (429, 503)
        most = max(int(least * 1.25), HINT_MS_MAX if hinted else 0)
        assert least <= outcome.at - NOW <= most


@given(results, st.integers(1, 100), rolls)
def test_no_attempt_follows_the_last_one(result: Result, attempts_max: int, roll: float) -> None:
    policy = RetryPolicy(attempts_max, 1_000, 60_000)

    outcome = judge(result, seq=5, attempt=attempts_max, policy=policy, now=NOW, roll=roll)

    assert not isinstance(outcome, Retry)


def test_chance_spreads_retries_over_a_quarter_of_their_wait() -> None:
    policy = RetryPolicy(attempts_max=9, backoff_ms=1_000, backoff_cap_ms=60_000)

    assert [policy.delay_ms(2, roll) for roll in (0.0, 0.5, 0.8)] == [2_000, 2_250, 2_400]


@given(failures)
def test_silence_is_never_success(result: NoAnswer) -> None:
    assert isinstance(judged(result), Retry)


def test_of_all_statuses_exactly_those_from_200_to_299_deliver() -> None:
    assert {status for status in range(100, 600) if judged(Answer(status, TIMINGS)) == DELIVERED} == set(
        range(200, 300)
    )


def test_a_redirect_is_a_failure() -> None:
    assert judged(Answer(302, TIMINGS)) == Retry(Instant(NOW + 1_000), "302")


def test_410_holds_the_endpoint_but_for_one_that_is_deleted_already() -> None:
    gone = Answer(410, TIMINGS)
    policy = RetryPolicy(9, 1_000, 60_000)

    assert judged(gone, attempt=9) == Gone("410")
    kept = judge(gone, seq=1, attempt=1, policy=policy, now=NOW, roll=0.0, can_hold=False)
    assert kept == Retry(Instant(NOW + 1_000), "410")


def test_409_tells_have_it_a_gap_or_nothing() -> None:
    def said(expected: str | None, seq: int | None = 5) -> Outcome:
        return judged(Answer(409, TIMINGS, expected_seq=expected), seq=seq)

    assert said("6") == DELIVERED
    gap = said("3")
    assert isinstance(gap, Dead)
    assert gap.gap
    assert isinstance(said("5"), Retry)
    assert isinstance(said("9"), Retry)
    assert isinstance(said(None), Retry)
    assert isinstance(said("nonsense"), Retry)
    assert isinstance(said("2", seq=None), Retry), "a loose delivery has no place to be missed"


def test_a_gap_burns_no_attempts_and_waits_for_a_person() -> None:
    assert isinstance(judged(Answer(409, TIMINGS, expected_seq="1"), attempt=1), Dead)


def test_the_longer_of_schedule_and_hint_counts() -> None:
    def waited(status: int, hint: str, attempt: int = 1) -> int:
        outcome = judged(Answer(status, TIMINGS, retry_after=hint), attempt=attempt)
        assert isinstance(outcome, Retry)
        return outcome.at - NOW

    assert waited(429, "30") == 30_000
    assert waited(503, "30", attempt=7) == 60_000
    assert waited(503, "0") == 1_000
    assert waited(500, "30") == 1_000, "only 429 and 503 are asked"
    assert waited(429, "99999999") == HINT_MS_MAX
    assert waited(429, "9" * 64) == HINT_MS_MAX


def test_a_hint_may_be_a_date() -> None:
    assert hint_ms(formatdate((NOW + 90_000) / 1000, usegmt=True), NOW) == 90_000
    assert hint_ms(formatdate((NOW - 90_000) / 1000, usegmt=True), NOW) == 0
    in_rome = datetime.fromtimestamp((NOW + 90_000) / 1000, timezone(timedelta(hours=2)))
    assert hint_ms(format_datetime(in_rome), NOW) == 90_000


@given(st.text())
def test_nonsense_in_a_hint_is_no_hint(text: str) -> None:
    hint = hint_ms(text, NOW)

    assert hint is None or hint >= 0


def test_a_hint_is_read_up_to_64_characters() -> None:
    assert hint_ms("9" * 64, NOW) == (10**64 - 1) * 1000
    assert hint_ms("9" * 65, NOW) is None


def test_a_date_without_a_zone_is_in_gmt_whatever_the_zone_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    date = formatdate((NOW + 90_000) / 1000, usegmt=True).removesuffix(" GMT")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert hint_ms(date, NOW) == hint_ms(f"{date} GMT", NOW) == 90_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_date_to_wait_for_is_meant_by_the_clock_of_who_wrote_it() -> None:
    """Ours was a day behind for a moment: one retry waited for a day."""
    wrote = Instant(NOW + 86_400_000)
    until = formatdate((wrote + 90_000) / 1000, usegmt=True)
    head = f"HTTP/1.1 503 Service Unavailable\r\nDate: {formatdate(wrote / 1000, usegmt=True)}\r\n\r\n".encode()
    answer = Answer(503, TIMINGS, retry_after=until, head=head)

    assert hint_ms(until, NOW, head) == 90_000
    assert hint_ms(until, NOW, b"HTTP/1.1 503 x\r\ndate: nonsense\r\n\r\n") == 86_400_000 + 90_000
    assert judged(answer).at == NOW + 90_000
