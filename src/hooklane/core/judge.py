"""What does an endpoint's answer mean for the event: delivered, again later, or dead?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from hooklane.model.attempt import DELIVERED, SEQ_GAP, Dead, Gone, Outcome, Retry
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result

JITTER = 0.25
HINT_MS_MAX = 24 * 3_600_000

HINT_CHARS_MAX = 64

_DIGITS = re.compile(r"[0-9]+\Z")
_WHOLE = re.compile(r"[0-9]{1,15}\Z")
_DATE = re.compile(rb"\r\ndate:[ \t]*([^\r\n]{1,64})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how far apart; the delay doubles from *backoff_ms* up to *backoff_cap_ms*."""

    attempts_max: int
    backoff_ms: int
    backoff_cap_ms: int

    def delay_ms(self, attempt: int, roll: float) -> int:
        """The wait after failed attempt number *attempt*: never less than the schedule, up to a quarter more."""
        assert attempt >= 1
        assert 0.0 <= roll < 1.0
        # Beyond 2**40 the cap rules anyway; the bound keeps a hostile setting from building huge numbers.
        base = min(self.backoff_cap_ms, self.backoff_ms << min(attempt - 1, 40))
        return int(base * (1.0 + JITTER * roll))


def never_happened(result: Result) -> bool:
    """Whether the attempt was given up by ourselves before anything was sent: then it was none, and counts as none."""
    return isinstance(result, NoAnswer) and result.failure is Failure.ABORTED and not result.sent


def judge(
    result: Result,
    *,
    seq: int | None,
    attempt: int,
    policy: RetryPolicy,
    now: Instant,
    roll: float,
    can_hold: bool = True,
) -> Outcome:
    """The outcome of attempt number *attempt*. Only complete response headers can make it anything but a retry.

    An endpoint that is deleted already cannot be held (*can_hold*), so that its 410 is a failure like any other.
    """
    match result:
        case Answer(status=status) if 200 <= status < 300:
            return DELIVERED
        case Answer(status=410) if can_hold:
            return Gone("410")
        case Answer(status=409, expected_seq=expected) if expected is not None and seq is not None:
            wanted = _whole_number(expected)
            if wanted == seq + 1:
                return DELIVERED  # "have it": an earlier attempt landed and its reply was lost
            if wanted is not None and wanted < seq:
                return Dead(SEQ_GAP, gap=True)
            reason = "409"
        case Answer(status=status):
            reason = str(status)
        case NoAnswer(failure=failure):
            reason = str(failure)
    if attempt >= policy.attempts_max:
        return Dead(reason)
    hint = result.retry_after if isinstance(result, Answer) and result.status in (429, 503) else None
    head = result.head if isinstance(result, Answer) else b""
    return Retry(Instant(now + _wait_ms(policy.delay_ms(attempt, roll), hint, now, head)), reason)


def _wait_ms(delay_ms: int, hint: str | None, now: Instant, head: bytes) -> int:
    asked = hint_ms(hint, now, head) if hint is not None else None
    return delay_ms if asked is None else max(delay_ms, min(asked, HINT_MS_MAX))


def hint_ms(retry_after: str, now: Instant, head: bytes = b"") -> int | None:
    """How long a `Retry-After` asks to wait, in seconds or as a date; None for nonsense.

    A date is meant by the clock of who wrote it, which the `Date` in *head* tells: ours may be a day behind.
    """
    text = retry_after.strip()
    if len(text) > HINT_CHARS_MAX:
        return None
    if _DIGITS.match(text):
        return int(text) * 1000
    at = _date(text)
    if at is None:
        return None
    written = _DATE.search(head)
    said = None if written is None else _date(written[1].decode("latin-1"))
    return max(0, at - (now if said is None else said))


def _date(text: str) -> Instant | None:
    try:
        date = parsedate_to_datetime(text)
        # HTTP dates are in GMT; one that leaves its zone out would else be taken for the zone of this host.
        at = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
        return Instant(int(at.timestamp() * 1000))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _whole_number(text: str) -> int | None:
    return int(text) if _WHOLE.match(text.strip()) else None
