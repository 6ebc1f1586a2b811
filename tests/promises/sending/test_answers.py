"""What does each answer of an endpoint mean for the event? A table, and what holds for every answer there can be."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.breaker import is_evidence, is_fault
from hooklane.core.judge import HINT_MS_MAX, RetryPolicy, hint_ms, judge, never_happened
from hooklane.model.attempt import DELIVERED, Dead, Gone, Outcome, Retry
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Timings

NOW = Instant(1_750_000_000_000)
POLICY = RetryPolicy(attempts_max=5, backoff_ms=1_000, backoff_cap_ms=60_000)
DAY_MS = 24 * 3_600_000
T = Timings(1.0)


def judged(result: Result, *, seq: int | None = 7, attempt: int = 1, roll: float = 0.0) -> Outcome:
    return judge(result, seq=seq, attempt=attempt, policy=POLICY, now=NOW, roll=roll)


def after(ms: int, reason: str) -> Retry:
    return Retry(Instant(NOW + ms), reason)


def http_date(ms: int) -> str:
    return format_datetime(datetime.fromtimestamp((NOW + ms) / 1000, UTC), usegmt=True)


REDIRECTS = (300, 301, 302, 303, 304, 307, 308)
ERRORS = (400, 401, 404, 422, 499, 500, 502, 504, 599)
ANSWERS: list[tuple[str, Result, Outcome]] = [
    *((f"{status} is delivered", Answer(status, T), DELIVERED) for status in (200, 201, 202, 204, 206, 299)),
    # A redirect is never followed: the signature would go along to whoever is named.
    *(
        (f"{status} is tried again", Answer(status, T), after(1_000, str(status)))
        for status in (301, 302, 303, 307, 308)
    ),
    *(
        (f"{status} is tried again", Answer(status, T), after(1_000, str(status)))
        for status in (400, 401, 404, 422, 499)
    ),
    *((f"{status} is tried again", Answer(status, T), after(1_000, str(status))) for status in (500, 502, 504)),
    ("410 disables the endpoint", Answer(410, T), Gone("410")),
    ("410 with a hint too", Answer(410, T, retry_after="5"), Gone("410")),
    *(
        (f"{status} waits as long as it asks", Answer(status, T, retry_after="90"), after(90_000, str(status)))
        for status in (429, 503)
    ),
    ("a shorter hint never shortens the schedule", Answer(429, T, retry_after="0"), after(1_000, "429")),
    ("a hint is for a day at most", Answer(503, T, retry_after="99999999999"), after(DAY_MS, "503")),
    ("also one of a hundred digits", Answer(503, T, retry_after="9" * 60), after(DAY_MS, "503")),
    ("a date", Answer(503, T, retry_after=http_date(120_000)), after(120_000, "503")),
    ("a date in the past", Answer(503, T, retry_after=http_date(-120_000)), after(1_000, "503")),
    ("a date in the year 9999", Answer(429, T, retry_after="Fri, 31 Dec 9999 23:59:59 GMT"), after(DAY_MS, "429")),
    ("a date without a zone is in GMT", Answer(429, T, retry_after=http_date(120_000)[:-4]), after(120_000, "429")),
    *(
        (f"nonsense ({text!r}) is no hint", Answer(429, T, retry_after=text), after(1_000, "429"))
        for text in ("-1", "nan", "inf", "1e9", "soon", "", "+5", "1.5", "０５", "Fri, 99 Foo 2026", "x" * 10_000)
    ),
    ("only 429 and 503 may ask for a wait", Answer(500, T, retry_after="90"), after(1_000, "500")),
    ("409 that wants the next one means: have it", Answer(409, T, expected_seq="8"), DELIVERED),
    (
        "409 that wants an earlier one stops the lane",
        Answer(409, T, expected_seq="3"),
        Dead("seq_gap", gap=True),
    ),
    ("409 that wants this very one contradicts itself", Answer(409, T, expected_seq="7"), after(1_000, "409")),
    ("409 that is further on than we are", Answer(409, T, expected_seq="9"), after(1_000, "409")),
    *(
        (f"409 with nonsense ({text!r})", Answer(409, T, expected_seq=text), after(1_000, "409"))
        for text in ("", "-1", "8.0", "eight", "8" * 40, "８")
    ),
    ("a plain 409", Answer(409, T), after(1_000, "409")),
    ("the receiver's own word changes nothing", Answer(500, T, outcome="applied"), after(1_000, "500")),
    *(
        (f"{failure} is tried again", NoAnswer(failure, T), after(1_000, str(failure)))
        for failure in Failure
        if failure is not Failure.ABORTED
    ),
]


@pytest.mark.parametrize(("result", "expected"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_an_answer_means(result: Result, expected: Outcome) -> None:
    assert expected == judged(result)


def test_an_event_without_order_takes_no_word_on_order() -> None:
    assert after(1_000, "409") == judged(Answer(409, T, expected_seq="2"), seq=None)


def test_the_last_attempt_is_the_last_whatever_is_asked() -> None:
    assert Dead("429") == judged(Answer(429, T, retry_after="90"), attempt=5)
    assert Dead("timeout") == judged(NoAnswer(Failure.TIMEOUT, T, sent=True), attempt=5)


def test_410_disables_also_at_the_last_attempt() -> None:
    assert Gone("410") == judged(Answer(410, T), attempt=5)


def test_410_of_a_deleted_endpoint_is_a_failure_like_any_other() -> None:
    draining = judge(Answer(410, T), seq=1, attempt=1, policy=POLICY, now=NOW, roll=0.0, can_hold=False)

    assert after(1_000, "410") == draining


answers = st.builds(
    Answer,
    st.integers(100, 999),
    st.just(T),
    retry_after=st.none() | st.text() | st.integers().map(str) | st.datetimes().map(format_datetime),
    expected_seq=st.none() | st.text() | st.integers().map(str),
)
failures = st.builds(NoAnswer, st.sampled_from(Failure), st.just(T), sent=st.booleans())


@given(answers | failures, st.integers(1, 5), st.floats(0, 1, exclude_max=True))
def test_every_wait_is_within_the_schedule_and_a_day(result: Result, attempt: int, roll: float) -> None:
    match judged(result, attempt=attempt, roll=roll):
        case Retry(at=at):
            scheduled = min(60_000, 1_000 * 2 ** (attempt - 1))
            assert scheduled <= at - NOW <= max(1.25 * scheduled, HINT_MS_MAX)
            assert attempt < POLICY.attempts_max
        case Dead(gap=False):
            assert attempt == POLICY.attempts_max


@given(st.text(max_size=100))
def test_any_text_is_a_hint_or_none(text: str) -> None:
    asked = hint_ms(text, NOW)

    assert asked is None or asked >= 0


def test_only_what_was_never_sent_never_happened() -> None:
    assert never_happened(NoAnswer(Failure.ABORTED, T))
    assert not never_happened(NoAnswer(Failure.ABORTED, T, sent=True))
    assert not never_happened(NoAnswer(Failure.CONNECT, T))
    assert not never_happened(Answer(503, T))


@given(answers | failures)
def test_a_client_error_never_speaks_against_the_endpoint(result: Result) -> None:
    match result:
        case Answer(status=status):
            assert is_fault(result) == (status >= 500)
            assert is_evidence(result)
        case NoAnswer(failure=Failure.ABORTED | Failure.TARGET_NOT_ALLOWED):
            assert not is_fault(result)
            assert not is_evidence(result)
        case NoAnswer():
            assert is_fault(result)
