"""Was a clock set? What was to come so many seconds later still does, whatever the clock says by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hooklane.model.clock import START, Instant
from hooklane.model.lane import LaneRow

JUMP_MS = 2_000
"""Less is a clock that is being slewed."""
DOUBT_MS = 86_400_000
"""So long is a clock that was set forward not believed by those who throw away what is old."""
NOTE_MS = 30 * 86_400_000
"""So long it is remembered what time it was on a host that looks no more."""


def jump(asked: Instant, answered: Instant, found: Instant) -> int:
    """By how much a clock was set that says *found*; 0 where it goes as clocks do.

    It should say something from *asked* to *answered*: an answer may be long on its way, or its reader stand still.
    """
    by = found - min(max(found, asked), answered)
    return by if abs(by) > JUMP_MS else 0


def set_back(last_seen: Instant, now: Instant) -> int:
    """By how much a clock was set back, at least, that has said *last_seen* before it says *now*."""
    by = last_seen - now
    return by if by > JUMP_MS else 0


def is_too_long(until: Instant, now: Instant, length_ms: int) -> bool:
    """Whether a lease of *length_ms* ends later than any such lease can: the clock was set back since it was given."""
    return until - now > length_ms + JUMP_MS


def next_at_of(next_at: Instant, judged_at: Instant, now: Instant) -> Instant:
    """When a retry comes that is written at *now*, by the store's clock, and was judged at *judged_at*, by that of a
    worker. Where the worker is ahead the store's clock was set back and it has not heard of that: its wait is counted
    from now. 0 is no time."""
    return Instant(next_at - judged_at + now) if next_at and judged_at - now > JUMP_MS else next_at


@dataclass(frozen=True, slots=True)
class Forward:
    """A clock was set forward by *by*: until then it said at most *before*, and from then on at least *after*.

    What was judged by the old clock comes due before *after*, unless it waits for longer than the clock was set; what
    was judged by the new one does not.
    """

    by: int
    before: Instant
    after: Instant


NO_JUMP = Forward(0, START, START)


class Observed:
    """Leases of others, of one length, as this process sees them end: by the clock they were given on, or by its own.

    One that ends later than it can is waited for once, for its length: its holder has renewed it by then, if it lives.
    """

    def __init__(self, length_ms: int) -> None:
        self._length_ms = length_ms
        self._seen: dict[str, tuple[Instant, Instant]] = {}

    def is_over(self, name: str, until: Instant, now: Instant, boot: Instant) -> bool:
        """Whether the lease of *name* has ended at *now*, which is *boot* on a clock that cannot be set."""
        if not is_too_long(until, now, self._length_ms):
            self._seen.pop(name, None)
            return until <= now
        known, since = self._seen.get(name, (None, boot))
        if known != until:
            self._seen[name] = until, boot
            return False
        return boot - since >= self._length_ms


class Told:
    """A clock that remembers the *latest* time that it has said: what was written by that may have to be moved back."""

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self.clock = clock
        self.latest = START

    def __call__(self) -> Instant:
        now = self.clock()
        self.latest = max(now, self.latest)
        return now


class Believed:
    """What time it is for those who throw away what is old, which no clock brings back when it is right again.

    A clock that is set forward is believed once it has kept to that for `DOUBT_MS`, and was not set further meanwhile;
    until then time goes on as before.
    """

    def __init__(self) -> None:
        self._at: tuple[Instant, Instant] | None = None
        self._doubted_since: Instant | None = None
        self._ahead = 0
        self.was_set = False
        """Whether the last answer is the first one by a clock that was set forward."""

    def at(self, found: Instant, boot: Instant) -> Instant:
        """The time to go by where a clock says *found*, at *boot* on one that cannot be set."""
        before, asked_at = self._at or (found, boot)
        expected = Instant(before + boot - asked_at)
        ahead = jump(before, expected, found)
        if ahead <= 0:
            self._doubted_since = None
        elif self._doubted_since is None or ahead > self._ahead + JUMP_MS:
            self._doubted_since, self._ahead = boot, ahead
        is_doubted = self._doubted_since is not None and boot - self._doubted_since < DOUBT_MS
        self.was_set = ahead > 0 and not is_doubted
        self._at = (expected if is_doubted else found), boot
        return self._at[0]


def kept_waiting(row: LaneRow, jumped: Forward) -> LaneRow:
    """*row* as it is meant after *jumped*: what waited then waits on; what was due, or is due since, stays due."""
    waited = jumped.before < row.next_at < jumped.after
    return replace(row, next_at=Instant(row.next_at + jumped.by)) if waited else row
