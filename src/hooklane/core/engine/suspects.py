"""Which head killed the worker? It was not seen, so those that may have are announced, and kept apart until it shows.

A head is announced durably (`Start`) before it flies, and any outcome wipes the announcement out. So a head that is
loaded with one on record was in the hands of a worker that died: a suspect. Each such death narrows the circle:

    unsure    loaded after a death, never announced    goes with all others, announced
    grouped   announced once, and its worker died      goes with few other suspects
    alone     and again, or there is no other suspect  goes as the only one in doubt, and only this counts

Most deaths are no event's fault. What is innocent is cleared by its first outcome, whatever that is; what kills dies
alone in the end, and is a dead letter after `DEATHS_MAX` such deaths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count

from hooklane.core.engine.owned_lane import OwnedLane, Phase
from hooklane.model.attempt import Start
from hooklane.model.clock import FOREVER, START, Instant

GROUP_MAX = 32
"""So many suspects go at once: a death leaves no more to be tried one by one, and thousands soon are through."""
DEATHS_MAX = 6
"""A head that was alone at so many deaths will not be tried again. Three were once chance, among two hundred kills."""
KILLS_MAX = 3 + DEATHS_MAX
"""So many workers can an event kill in all: once unseen, twice in company, then alone."""
QUIET_MS = 1_000
"""So long may heads that are not suspected be held back for one that goes alone: a slow one is not worth more."""
_GROUPS = 2
"""So many announcements are made in company; every further one is made alone."""


class Rank(IntEnum):
    """How much a head is doubted."""

    UNSURE = 0
    GROUPED = 1
    ALONE = 2


def deaths(lane: OwnedLane) -> int:
    """At how many deaths of a worker this head was the only one in doubt."""
    return max(0, lane.starts - _GROUPS) if lane.unsure else 0


def rank_of(lane: OwnedLane) -> Rank:
    """Where a doubted head belongs; once it is announced, where it was announced."""
    return Rank(min(max(lane.starts if lane.unsure else lane.starts - 1, 0), Rank.ALONE))


class Suspects:
    """The doubted heads that are in hand (announced, in flight or being settled) and those that wait for others."""

    __slots__ = ("_alone", "_groups", "_in_hand", "_numbers", "_quiet_until", "_unsure")

    def __init__(self) -> None:
        self._in_hand = [0, 0, 0]
        self._unsure: deque[OwnedLane] = deque()
        self._groups: deque[OwnedLane] = deque()
        self._alone: list[tuple[int, int, OwnedLane]] = []  # fewest deaths first: a killer comes last
        self._numbers = count()  # so that two of the same number of deaths are never compared
        self._quiet_until: Instant = START

    def __bool__(self) -> bool:
        """Whether any lane waits."""
        return bool(self._unsure or self._groups or self._alone)

    # --- in hand ---

    def may_go(self, lane: OwnedLane, now: Instant) -> bool:
        """Whether *lane* may be announced or fly now."""
        unsure, grouped, alone = self._in_hand
        match rank_of(lane):
            case Rank.UNSURE:
                return now >= self._quiet_until
            case Rank.GROUPED:
                return alone == 0 and grouped < GROUP_MAX
            case Rank.ALONE:
                is_quiet = unsure == 0 or START < self._quiet_until <= now
                return alone == grouped == 0 and is_quiet

    def take(self, lane: OwnedLane, now: Instant) -> None:
        """*lane* goes: until it is released, others may have to wait for it."""
        rank = rank_of(lane)
        if rank is Rank.GROUPED and lane.unsure and not (any(self._in_hand) or self._has_groups()):
            rank = Rank.ALONE  # it has no company
        lane.kept = rank
        self._in_hand[rank] += 1
        if rank is Rank.ALONE:
            self._quiet_until = Instant(now + QUIET_MS)

    def release(self, lane: OwnedLane) -> None:
        """*lane* is not in flight any more."""
        if lane.kept is not None:
            self._in_hand[lane.kept] -= 1
            if lane.kept == Rank.ALONE:
                self._quiet_until = START
            lane.kept = None

    def start_of(self, lane: OwnedLane) -> Start:
        """The announcement of the next attempt; it counts as one only where its head goes alone."""
        if lane.kept == Rank.ALONE:
            starts, attempt = max(lane.starts, _GROUPS) + 1, lane.attempts + 1
        else:
            starts, attempt = lane.starts + 1, lane.attempts
        return Start(lane.id, lane.pid, lane.head, attempt, lane.rev, starts)

    def jump(self, by: int) -> None:
        """The clock was set."""
        if self._quiet_until > START:
            self._quiet_until = Instant(self._quiet_until + by)

    # --- waiting ---

    def set_aside(self, lane: OwnedLane) -> None:
        """*lane* is ready but for others that are doubted."""
        match rank_of(lane):
            case Rank.UNSURE:
                self._unsure.append(lane)
            case Rank.GROUPED:
                self._groups.append(lane)
            case Rank.ALONE:
                heappush(self._alone, (lane.starts, next(self._numbers), lane))

    def next_up(self, now: Instant) -> Iterator[OwnedLane]:
        """Those who need wait no longer, one by one, groups before one alone; take each that goes before the next."""
        while self._has_groups() and self.may_go(self._groups[0], now):
            yield self._groups.popleft()
        while self._alone and self._is_turn_of(self._alone[0][2], now):
            lane = heappop(self._alone)[2]
            yield lane
            if self._in_hand[Rank.ALONE] == 0:
                self._quiet_until = START  # it could not go after all
        while self._unsure and now >= self._quiet_until:
            yield self._unsure.popleft()

    def _is_turn_of(self, lane: OwnedLane, now: Instant) -> bool:
        """Whether the first of those who go alone may; if only others in flight are in its way, ask for quiet."""
        if lane.phase is not Phase.READY or self.may_go(lane, now):
            return True
        _, grouped, alone = self._in_hand
        if alone == grouped == 0 and self._quiet_until == START:
            # Those in flight may end first, and no more of them start; but not for ever.
            self._quiet_until = Instant(now + QUIET_MS)
        return False

    def _has_groups(self) -> bool:
        groups = self._groups
        while groups and groups[0].phase is not Phase.READY:
            groups.popleft()  # it has moved on since it was set aside
        return bool(groups)

    def wake_at(self, now: Instant) -> Instant:
        """When to look again though nothing happens."""
        return self._quiet_until if self and self._quiet_until > now else FOREVER
