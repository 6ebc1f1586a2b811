"""When will the coming attempts be made, if each of them fails? Jitter makes a band of each time."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.core.judge import JITTER, RetryPolicy
from hooklane.model.clock import Instant

SHOWN_MAX = 50
ATTEMPTS_MAX = 10_000
"""An endpoint that is tried oftener than this does not die within any time that a person would wait."""


@dataclass(frozen=True, slots=True)
class Coming:
    """Attempt number *attempt* will be made between *first* and *last*."""

    attempt: int
    first: Instant
    last: Instant


@dataclass(frozen=True, slots=True)
class Forecast:
    """The coming attempts, the nearest first, and the one after which the event is dead; None: it is dead already."""

    tries: tuple[Coming, ...]
    dies: Coming | None


def forecast(policy: RetryPolicy, *, attempts: int, next_at: Instant) -> Forecast:
    """What follows where *attempts* have failed and the next is due at *next_at*, if none took any time."""
    if attempts >= policy.attempts_max:
        return Forecast((), None)
    first, last = next_at, next_at
    tries = [Coming(attempts + 1, first, last)]
    for attempt in range(attempts + 1, min(policy.attempts_max, attempts + ATTEMPTS_MAX)):
        delay_ms = policy.delay_ms(attempt, 0.0)
        first, last = Instant(first + delay_ms), Instant(last + int(delay_ms * (1 + JITTER)))
        tries.append(Coming(attempt + 1, first, last))
    return Forecast(tuple(tries[:SHOWN_MAX]), tries[-1])
