"""Again, or never? What becomes of a message whose handler failed."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.model.clock import Instant
from hooklane.model.message import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff with full jitter, bounded in attempts and in age."""

    attempts_max: int = 8
    backoff_ms: int = 5_000
    backoff_cap_ms: int = 3_600_000
    age_ms_max: int = 7 * 86_400_000

    def __post_init__(self) -> None:
        if self.attempts_max < 1:
            raise ValueError(f"attempts_max must be at least 1, got {self.attempts_max}")
        if not 0 < self.backoff_ms <= self.backoff_cap_ms:
            raise ValueError(f"backoff_ms must lie in 1..backoff_cap_ms, got {self.backoff_ms}")
        if self.age_ms_max <= 0:
            raise ValueError(f"age_ms_max must be positive, got {self.age_ms_max}")


@dataclass(frozen=True, slots=True)
class Transient:
    """Something went wrong that may go right later; *after_ms* when the handler said when."""

    after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Hopeless:
    """Trying again cannot help: rejected, unreadable, or a handler that broke its contract."""

    reason: str


Failure = Transient | Hopeless


@dataclass(frozen=True, slots=True)
class Sentence:
    """What the row becomes, and when it is due again."""

    status: Status
    due_at: Instant
    reason: str | None = None


def judge_failure(
    failure: Failure, *, attempts: int, received_at: Instant, now: Instant, policy: RetryPolicy, roll: float
) -> Sentence:
    """*attempts* includes the one that failed; *roll* in [0, 1) is the chance that spreads retries."""
    assert 0.0 <= roll < 1.0
    match failure:
        case Hopeless(reason):
            return Sentence(Status.DEAD, now, reason)
        case Transient(after_ms):
            if attempts >= policy.attempts_max:
                return Sentence(Status.DEAD, now, "attempts_max")
            wait_ms = backoff_ms(attempts, policy, roll) if after_ms is None else after_ms
            if now + wait_ms - received_at > policy.age_ms_max:
                return Sentence(Status.DEAD, now, "age_max")
            return Sentence(Status.FAILED, Instant(now + wait_ms))


def backoff_ms(attempts: int, policy: RetryPolicy, roll: float) -> int:
    """Full jitter: anything up to the doubled step, at least a tenth of the first, so that a retry is never at once."""
    step = min(policy.backoff_cap_ms, policy.backoff_ms * 2 ** min(attempts - 1, 40))
    return max(policy.backoff_ms // 10, int(step * roll), 1)
