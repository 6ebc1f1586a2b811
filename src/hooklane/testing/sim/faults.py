"""What may go wrong in a simulated run, and how often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Chances are per call, attempt or turn; the others are mean milliseconds from one to the next (0: never)."""

    # the store
    store_unknown: float = 0.02
    """A call whose reply is lost; half of them were carried out."""
    store_slow: float = 0.01
    store_down_every_ms: int = 15_000
    store_clock_jump_every_ms: int = 20_000
    # the network
    request_lost: float = 0.01
    request_late: float = 0.005
    request_doubled: float = 0.01
    reply_lost: float = 0.02
    # the workers
    crash_every_ms: int = 400
    pause_every_ms: int = 2_500
    turn_broken: float = 0.001
    """A crash or a pause between two effects of one turn."""
    leave_every_ms: int = 8_000
    clock_drift: float = 0.02
    # the endpoints
    sick: bool = True
    """Endpoints that fail now and then, are slow, are ill for long, choke on one event, or are gone."""
    # the people
    operate_every_ms: int = 150


NONE = Faults(
    store_unknown=0.0,
    store_slow=0.0,
    store_down_every_ms=0,
    store_clock_jump_every_ms=0,
    request_lost=0.0,
    request_late=0.0,
    request_doubled=0.0,
    reply_lost=0.0,
    crash_every_ms=0,
    pause_every_ms=0,
    turn_broken=0.0,
    leave_every_ms=0,
    clock_drift=0.0,
    sick=False,
)
"""A perfect world."""
