"""What may go wrong in a simulated run, and how often."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Chances are per call, attempt or turn; the others are mean milliseconds from one to the next (0: never)."""

    # the store
    store_unknown: float = 0.02
    """A call whose reply is lost; half of them were carried out."""
    store_slow: float = 0.04
    store_interleaved: float = 0.3
    """Others get their turn between two reads of one call."""
    store_down_every_ms: int = 15_000
    store_clock_jump_every_ms: int = 20_000
    store_crash_every_ms: int = 10_000
    """It ends all its sessions, and numbers that it gave out last are given out once more."""
    store_failover_every_ms: int = 0
    """The same, and a synchronous standby goes on in its place: what was committed is there, on another timeline."""
    poll_misses: float = 0.0
    """A poll does not tell of a lane that grew. No weather makes that, only a mistake."""
    # the network
    no_room: float = 0.005
    """The sender's own host has no connection to spare, so that nothing is sent."""
    request_lost: float = 0.01
    request_late: float = 0.005
    request_doubled: float = 0.01
    reply_lost: float = 0.02
    # the workers
    workers: int = 3
    crash_every_ms: int = 400
    pause_every_ms: int = 2_500
    same_host: float = 0.5
    """The part of all crashes that the other workers see at once, since they run on the same host."""
    turn_broken: float = 0.001
    """A crash or a pause between two effects of one turn."""
    leave_every_ms: int = 8_000
    visit_every_ms: int = 0
    """One worker more comes and soon leaves again: the others give partitions back to it, or are about to."""
    turn_ms: float = 0.3
    """How long a worker is at most about something else before it takes its next turn."""
    clock_drift: float = 0.02
    killers: float = 0.0
    """The part of all deliveries that kill whichever worker makes them."""
    # the endpoints
    sick: bool = True
    """Endpoints that fail now and then, are slow, are ill for long, choke on one event, or are gone."""
    poison: float = 0.0
    """The part of all events on which every endpoint chokes."""
    # the people
    operate_every_ms: int = 150
    """Replays, skips, pauses, resumptions and deletions; 0 from the start: no operator is there."""


ROUGH = Faults(
    store_unknown=0.08,
    store_slow=0.15,
    store_interleaved=0.8,
    crash_every_ms=900,
    leave_every_ms=900,
    poison=0.05,
    operate_every_ms=40,
)
"""A world in which the store is the worst part: for the races that need several things to go wrong at once."""

SLOW = Faults(
    store_unknown=0.0,
    store_slow=0.5,
    store_interleaved=0.8,
    store_down_every_ms=0,
    store_crash_every_ms=0,
    crash_every_ms=0,
    pause_every_ms=0,
    leave_every_ms=300,
    poison=0.2,
    operate_every_ms=40,
)
"""A world in which nothing breaks, but every answer of the store may be old news, and people act all the time."""

POISONED = Faults(
    store_slow=0.0,
    store_down_every_ms=0,
    store_clock_jump_every_ms=0,
    store_crash_every_ms=0,
    crash_every_ms=0,
    pause_every_ms=0,
    turn_broken=0.0,
    leave_every_ms=0,
    clock_drift=0.0,
    killers=0.001,
)
"""A world in which workers die of nothing but what they send."""

NONE = Faults(
    store_unknown=0.0,
    store_slow=0.0,
    store_interleaved=0.0,
    store_down_every_ms=0,
    store_clock_jump_every_ms=0,
    store_crash_every_ms=0,
    no_room=0.0,
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

CRASHING = replace(NONE, store_crash_every_ms=1_500)
"""A world in which nothing but the store crashes."""

MISSING = replace(NONE, poll_misses=0.3)
"""A world in which polls do not tell of everything, though nothing else is wrong."""

ALONE = replace(NONE, workers=1)
"""A world with one worker, which owns everything, is fed most of what is published, and never has to load it anew."""

LEAVING = replace(NONE, workers=5, leave_every_ms=60, store_interleaved=0.8)
"""A world in which nothing is wrong, but partitions change hands all the time."""

VISITED = replace(NONE, workers=2, visit_every_ms=500, request_lost=0.2, sick=True)
"""A world in which attempts last long, so that what shall be given back is often still busy when the taker is gone."""
