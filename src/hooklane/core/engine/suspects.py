"""Which head killed the worker? Nobody saw it, so those that may have are announced, and kept apart until it shows.

A head is announced durably (`Start`) before it flies, and any outcome wipes the announcement out. So a head that is
loaded with one on record was in the hands of a worker that died: a suspect. Each such death narrows the circle:

    unsure    loaded after a death, never announced    goes with all others, announced
    grouped   announced once, and its worker died      goes with few other suspects
    alone     and again, or there is no other suspect  goes as the only one that anybody doubts, and only this counts

Most deaths are no event's fault. What is innocent is cleared by its first outcome, whatever that is; what kills dies
alone in the end, and is a dead letter after `DEATHS_MAX` such deaths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from heapq import heappop, heappush

from hooklane.core.engine.slot import Phase, Slot
from hooklane.model.attempt import Start
from hooklane.model.clock import FOREVER, START, Instant

GROUP_MAX = 32
"""So many suspects go at once: a death leaves no more to be tried one by one, and thousands soon are through."""
DEATHS_MAX = 6
"""A head that was alone at so many deaths will not be tried again. Three were once chance, among two hundred kills."""
KILLS_MAX = 3 + DEATHS_MAX
"""So many workers can an event kill in all: once unseen, twice in company, then alone."""
QUIET_MS = 1_000
"""So long may heads that nobody accuses be held back for one that goes alone: a slow one is not worth more."""
_GROUPS = 2
"""So many announcements are made in company; every further one is made alone."""


class Rank(IntEnum):
    """How much a head is doubted."""

    UNSURE = 0
    GROUPED = 1
    ALONE = 2


def deaths(slot: Slot) -> int:
    """At how many deaths of a worker this head was the only one that anybody doubted."""
    return max(0, slot.starts - _GROUPS) if slot.unsure else 0


def rank_of(slot: Slot) -> Rank:
    """Where a doubted head belongs; once it is announced, where it was announced."""
    return Rank(min(max(slot.starts if slot.unsure else slot.starts - 1, 0), Rank.ALONE))


class Suspects:
    """The doubted heads that are in hand (announced, in flight or being settled) and those that wait for others."""

    __slots__ = ("_alone", "_count", "_groups", "_in_hand", "_quiet_until", "_unsure")

    def __init__(self) -> None:
        self._in_hand = [0, 0, 0]
        self._unsure: deque[Slot] = deque()
        self._groups: deque[Slot] = deque()
        self._alone: list[tuple[int, int, Slot]] = []  # fewest deaths first: a killer comes last
        self._count = 0
        self._quiet_until: Instant = START

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._unsure or self._groups or self._alone)

    # --- in hand ---

    def may_go(self, slot: Slot, now: Instant) -> bool:
        """Whether *slot* may be announced or fly now."""
        unsure, grouped, alone = self._in_hand
        match rank_of(slot):
            case Rank.UNSURE:
                return now >= self._quiet_until
            case Rank.GROUPED:
                return alone == 0 and grouped < GROUP_MAX
            case Rank.ALONE:
                is_quiet = unsure == 0 or START < self._quiet_until <= now
                return alone == grouped == 0 and not self._has_groups() and is_quiet

    def take(self, slot: Slot, now: Instant) -> None:
        """*slot* goes: until it is released, others may have to wait for it."""
        rank = rank_of(slot)
        if rank is Rank.GROUPED and slot.unsure and not (any(self._in_hand) or self._has_groups()):
            rank = Rank.ALONE  # it has no company
        slot.kept = rank
        self._in_hand[rank] += 1
        if rank is Rank.ALONE:
            self._quiet_until = Instant(now + QUIET_MS)

    def release(self, slot: Slot) -> None:
        """*slot* is in nobody's hands any more."""
        if slot.kept is not None:
            self._in_hand[slot.kept] -= 1
            if slot.kept == Rank.ALONE:
                self._quiet_until = START
            slot.kept = None

    def start_of(self, slot: Slot) -> Start:
        """The announcement of the next attempt; it counts as one only where its head goes alone."""
        if slot.kept == Rank.ALONE:
            starts, attempt = max(slot.starts, _GROUPS) + 1, slot.attempts + 1
        else:
            starts, attempt = slot.starts + 1, slot.attempts
        return Start(slot.id, slot.pid, slot.head, attempt, slot.rev, starts)

    # --- waiting ---

    def set_aside(self, slot: Slot) -> None:
        """*slot* is ready but for others that are doubted."""
        match rank_of(slot):
            case Rank.UNSURE:
                self._unsure.append(slot)
            case Rank.GROUPED:
                self._groups.append(slot)
            case Rank.ALONE:
                self._count += 1  # so that two of the same number are never compared
                heappush(self._alone, (slot.starts, self._count, slot))

    def next_up(self, now: Instant) -> Iterator[Slot]:
        """Those who need wait no longer, one by one; take each that goes before you ask for the next."""
        while self._has_groups() and self.may_go(self._groups[0], now):
            yield self._groups.popleft()
        while self._alone and self._is_turn_of(self._alone[0][2], now):
            slot = heappop(self._alone)[2]
            yield slot
            if self._in_hand[Rank.ALONE] == 0:
                self._quiet_until = START  # it could not go after all
        while self._unsure and now >= self._quiet_until:
            yield self._unsure.popleft()

    def _is_turn_of(self, slot: Slot, now: Instant) -> bool:
        """Whether the first of those who go alone may; if only others in flight are in its way, ask for quiet."""
        if slot.phase is not Phase.READY or self.may_go(slot, now):
            return True
        _, grouped, alone = self._in_hand
        if alone == grouped == 0 and not self._groups and self._quiet_until == START:
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
