"""Again, or never? What becomes of a message whose handler failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hooklane.model.clock import Instant
from hooklane.model.message import Status
from hooklane.model.sqlstate import Meaning
from hooklane.model.whole import is_whole

INTERRUPTIONS_PER_ATTEMPT = 8
"""A handler that is always interrupted is tried so many times as often as one that fails by itself."""
INTERRUPTED_MS_MAX = 60_000

_PASSING = frozenset((Meaning.LOST_RACE, Meaning.CUT_SHORT, Meaning.SHORT_OF, Meaning.FULL, Meaning.AWAY))

AFTER_MS_MIN = 100
"""Put off again and again by nothing at all, an event would keep a worker busy for as long as it lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff with full jitter, bounded in attempts and in age."""

    attempts_max: int = 8
    backoff_ms: int = 5_000
    backoff_cap_ms: int = 3_600_000
    age_ms_max: int = 7 * 86_400_000

    def __post_init__(self) -> None:
        for name in ("attempts_max", "backoff_ms", "backoff_cap_ms", "age_ms_max"):
            if not is_whole(value := getattr(self, name)):
                raise ValueError(f"{name} is a whole number of at least 1, got {value!r}")
        if self.backoff_ms > self.backoff_cap_ms:
            raise ValueError(f"backoff_ms must lie in 1..backoff_cap_ms, got {self.backoff_ms}")


@dataclass(frozen=True, slots=True)
class Transient:
    """Something went wrong that may go right later; with *after_ms*, when the handler said, its age alone ends it."""

    after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The database was in the way, and the handler is not to blame: a deadlock, a timeout, a lost connection."""


@dataclass(frozen=True, slots=True)
class Hopeless:
    """Trying again cannot help: rejected, unreadable, or a handler that broke its contract."""

    reason: str


Failure = Transient | Interrupted | Hopeless


def weigh(meanings: Iterable[Meaning]) -> Transient | Interrupted:
    """What a failure is, by what the databases said on the way: one that passes explains all that followed from it."""
    return Interrupted() if any(meaning in _PASSING for meaning in meanings) else Transient()


@dataclass(frozen=True, slots=True)
class Sentence:
    """What the row becomes, and when it is due again."""

    status: Status
    due_at: Instant
    reason: str | None = None
    attempts: int | None = None
    """How many attempts count from now on, where not all that were begun do."""


def judge_failure(
    failure: Failure,
    *,
    attempts: int,
    received_at: Instant,
    now: Instant,
    policy: RetryPolicy,
    roll: float,
    given_back: int = 0,
) -> Sentence:
    """*attempts* includes the one that failed, *given_back* are those that did not count; *roll* in [0, 1) is the
    chance that spreads retries."""
    assert 0.0 <= roll < 1.0
    if isinstance(failure, Interrupted):
        # Those that a handler put off did not count either, and many of them are no sign of an outage that does not
        # end: where they leave the attempts, age alone decides, as it does for them. Interruptions alone never give
        # back more than their number.
        interruptions_max = policy.attempts_max * INTERRUPTIONS_PER_ATTEMPT
        was_put_off = given_back > interruptions_max and 1 < attempts == _put_off_max(policy) + 1
        wait_ms = soon_ms(given_back, policy, roll)
        if was_put_off and now + wait_ms - received_at > policy.age_ms_max:
            return Sentence(Status.DEAD, now, "age_max")
        if was_put_off or given_back < interruptions_max:
            return Sentence(Status.FAILED, Instant(now + wait_ms), attempts=attempts - 1)
        failure = Transient()  # it is not so transient after all, and ends as a bug does
    match failure:
        case Hopeless(reason):
            return Sentence(Status.DEAD, now, reason)
        case Transient(after_ms):
            if after_ms is None and attempts >= policy.attempts_max:
                return Sentence(Status.DEAD, now, "attempts_max")
            counted = min(attempts, _put_off_max(policy))
            if after_ms is None:
                wait_ms = backoff_ms(attempts, policy, roll)
            else:
                wait_ms = after_ms if counted == attempts else max(after_ms, AFTER_MS_MIN)
            if now + wait_ms - received_at > policy.age_ms_max:
                return Sentence(Status.DEAD, now, "age_max")
            return Sentence(Status.FAILED, Instant(now + wait_ms), attempts=None if after_ms is None else counted)


def _put_off_max(policy: RetryPolicy) -> int:
    """So many attempts count at most of those that a handler put off, however often it does: a bug or the death of a
    worker afterwards has attempts left."""
    return max(0, policy.attempts_max - 2)


def backoff_ms(attempts: int, policy: RetryPolicy, roll: float) -> int:
    """Full jitter: anything up to the doubled step, at least a tenth of the first, so that a retry is never at once."""
    step = min(policy.backoff_cap_ms, policy.backoff_ms * 2 ** min(attempts - 1, 40))
    return max(policy.backoff_ms // 10, int(step * roll), 1)


def soon_ms(given_back: int, policy: RetryPolicy, roll: float) -> int:
    """A tenth of the first step, doubled with each interruption up to a minute; the later half of it, by chance."""
    cap = min(policy.backoff_cap_ms, INTERRUPTED_MS_MAX)
    step = min(cap, max(1, policy.backoff_ms // 10) * 2 ** min(given_back, 40))
    return max(1, int(step * (1 + roll) / 2))
