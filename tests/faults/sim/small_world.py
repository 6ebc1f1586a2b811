"""A world so small that everything that can happen in it is tried: one lane of two events, two workers, one person.

The engine, the store's tables and the checker are the real ones. What each step does is said by its name, so that a
state is the list of names that led to it; it is built anew for each step, and told from others by what is in it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from unittest.mock import patch

from hooklane.core.engine import (
    Committed,
    Dropped,
    Effects,
    EndpointChanged,
    Engine,
    Fetched,
    Input,
    LeaseSet,
    Loaded,
    Reloaded,
    Settled,
)
from hooklane.core.fanout import partition_of
from hooklane.model.attempt import Send, Settlement, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.endpoint import Endpoint, OnDead
from hooklane.model.event import Event
from hooklane.model.lane import PARTITIONS
from hooklane.store.memory.outbox import tables
from hooklane.store.memory.outbox.tables import Ending
from hooklane.store.outbox import Draft
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.faults import NONE
from hooklane.testing.sim.network import _ANSWERS, TIMED_OUT
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import T0, World

STEP_MS = 10_000.0
"""Between two steps: longer than any wait of the lane, so that what failed is due."""
LEASE_MS = 10**12
"""No lease ends by itself: that one has ended is a step."""
KEY = next(f"k{n}" for n in count() if partition_of("ep", f"k{n}") == 0)
"""A key of the first partition, which is the only one here."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How often the unlikely may happen in one history."""

    steps: int = 14
    events: int = 2
    attempts_max: int = 1
    expiries: int = 1
    crashes: int = 1
    unknown: int = 1
    """Attempts whose answer is lost, and commits of which the worker hears nothing."""
    acts: int = 1
    on_dead: OnDead = OnDead.BLOCK


@dataclass
class Hand:
    """What a worker has: its engine, what it sent, and what it has asked the store to write."""

    name: str
    engine: Engine
    epochs: dict[int, int] = field(default_factory=dict)
    flying: list[Send] = field(default_factory=list)
    landed: list[Send] = field(default_factory=list)
    """Of which the receiver has said 2xx, and the worker does not know it yet."""
    writes: list[Write] = field(default_factory=list)
    asked: bool = False
    """Something of the lane is to be read again."""


class SmallWorld:
    """The world after some steps."""

    def __init__(self, bounds: Bounds, parts: Callable[..., Engine], store: Callable[..., SimStore]) -> None:
        self.bounds = bounds
        self.world = World(0, NONE)
        self.checker = Invariants(lambda: self.world.now)
        self.store = store(self.world, self.checker)
        self.endpoint = Endpoint(
            id="ep",
            url="https://x.example/",
            created_at=Instant(T0),
            attempts_max=bounds.attempts_max,
            backoff_ms=1,
            backoff_cap_ms=1,
            on_dead=bounds.on_dead,
        )
        self.store.change(self.endpoint, None)
        for number in range(1, bounds.events + 1):
            event = Event(f"e{number}", "a.b", KEY, b"{}", Instant(T0))
            self.store.publish([Draft(event, None, (f"id:{number}",), b"")])
        (self.lane,) = self.store.tables.lanes.values()
        self._parts = parts
        self._lives = Counter[str]()
        self.spent = Counter[str]()
        self.hands = [self._new_hand("a"), self._new_hand("b")]

    def _new_hand(self, letter: str) -> Hand:
        self._lives[letter] += 1
        hand = Hand(f"{letter}.{self._lives[letter]}", self._parts())
        self._tell(hand, LeaseSet(FOREVER), EndpointChanged(self.endpoint))
        return hand

    # --- steps ---

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """All that can happen now."""
        bounds, spent = self.bounds, self.spent
        for hand in self.hands:
            at = hand.name[0]
            owner = self.store.tables.parts[self.lane.pid].owner
            if not hand.epochs and (owner is None or not self._is_alive(owner)):
                yield f"{at} takes over", lambda hand=hand: self._take(hand)
            if hand.epochs and owner == hand.name and self._is_alive(hand.name) and spent["expiries"] < bounds.expiries:
                yield f"the lease of {at} ends", lambda hand=hand: self._expire(hand)
            if (hand.epochs or hand.flying) and spent["crashes"] < bounds.crashes:
                yield f"{at} crashes", lambda hand=hand: self._crash(hand)
            if hand.flying:
                yield f"2xx for {at}", lambda hand=hand: self._land(hand, told=True)
                yield f"422 for {at}", lambda hand=hand: self._refuse(hand)
                if spent["unknown"] < bounds.unknown:
                    yield f"2xx that {at} does not hear", lambda hand=hand: self._land(hand, told=False)
            if hand.writes:
                yield f"{at} commits", lambda hand=hand: self._commit(hand, told=True)
                if spent["unknown"] < bounds.unknown:
                    yield f"{at} commits and hears nothing", lambda hand=hand: self._commit(hand, told=False)
            if hand.epochs and hand.asked:
                yield f"{at} looks", lambda hand=hand: self._reload(hand)
            if hand.epochs and owner != hand.name:
                yield f"{at} learns that it lost its lease", lambda hand=hand: self._drop(hand)
        if spent["acts"] < bounds.acts:
            for letter in self.store.tables.dead_letters.values():
                if letter.ending is Ending.DEAD:
                    yield f"replay of {letter.seq}", lambda id=letter.id: self._act("replay", id)
                    yield f"skip of {letter.seq}", lambda id=letter.id: self._act("skip", id)

    def _is_alive(self, worker: str) -> bool:
        return self.store.tables.workers.get(worker, 0) > self.store.clock()

    def _tell(self, hand: Hand, *inputs: Input) -> None:
        """Take a turn of the engine; what it wants to have read is read at once."""
        effects: Effects = hand.engine.step(Instant(T0 + int(self.world.now)), inputs)
        hand.writes += effects.writes
        hand.asked = hand.asked or bool(effects.reloads)
        for send in effects.sends:
            self.checker.sent(hand.name, send.epoch, send.lane_id, send.seq, send.attempt, send.at, send.event.id, 0)
            hand.flying.append(send)
        if effects.fetches:
            self._tell(hand, Fetched(self.store.fetch(effects.fetches), [want.lane_id for want in effects.fetches]))

    def _take(self, hand: Hand) -> None:
        self.store.join(hand.name, LEASE_MS)
        taken = {one.pid: one for one in self.store.acquire(hand.name, PARTITIONS)}
        hand.epochs = {pid: one.epoch for pid, one in taken.items()}
        found = self.store.owed(hand.name, hand.epochs)
        mine = taken[self.lane.pid]
        self._tell(hand, Loaded(mine.pid, mine.epoch, found[mine.pid], mine.unclean))

    def _expire(self, hand: Hand) -> None:
        self.spent["expiries"] += 1
        self.store.expire([hand.name])

    def _crash(self, hand: Hand) -> None:
        self.spent["crashes"] += 1
        self.store.expire([hand.name])
        self.hands[self.hands.index(hand)] = self._new_hand(hand.name[0])

    def _drop(self, hand: Hand) -> None:
        """As a worker does that finds its lease over: everything is given up, with what it had in its hands."""
        self.checker.forgot({self.lane.pid: hand.epochs[self.lane.pid]})
        pids = frozenset(hand.epochs)
        self.hands[self.hands.index(hand)] = fresh = self._new_hand(hand.name[0])
        self._tell(fresh, Dropped(pids))

    def _land(self, hand: Hand, *, told: bool) -> None:
        send = hand.flying.pop(0)
        self.checker.arrived(send.lane_id, send.seq, send.event.id, 0)
        self.checker.answered(send.lane_id, send.seq, send.epoch, landed=True)
        if not told:
            self.spent["unknown"] += 1
            self.checker.unanswered(send.lane_id, send.seq)
        self._settle(hand, send, _ANSWERS[200] if told else TIMED_OUT)

    def _refuse(self, hand: Hand) -> None:
        send = hand.flying.pop(0)
        self.checker.arrived(send.lane_id, send.seq, send.event.id, 0)
        self._settle(hand, send, _ANSWERS[422])

    def _settle(self, hand: Hand, send: Send, result: Any) -> None:
        self.checker.settled(hand.name, send.epoch, send.lane_id)
        self._tell(hand, Settled(send, result, 0.0))

    def _commit(self, hand: Hand, *, told: bool) -> None:
        writes, epochs = list(hand.writes), dict(hand.epochs)
        report = self.store.commit(hand.name, epochs, writes)
        if not told:
            self.spent["unknown"] += 1
            return  # it will be made again
        del hand.writes[: len(writes)]
        self._tell(hand, Committed(writes, report.fenced, report.stale, epochs))

    def _reload(self, hand: Hand) -> None:
        hand.asked = False
        rows = self.store.reload([self.lane.id])
        self._tell(hand, Reloaded(rows, [self.lane.id], dict(hand.epochs)))

    def _act(self, verb: str, letter: str) -> None:
        self.spent["acts"] += 1
        getattr(self.store, verb)(letter)
        for hand in self.hands:
            hand.asked = hand.asked or bool(hand.epochs)

    # --- what is told apart ---

    def key(self) -> object:
        """What this state is, whatever led to it: times count only by their order, names of workers by their letter."""
        lane, stored = self.lane, self.store.tables
        part = stored.parts[lane.pid]
        owner = part.owner is not None
        row = stored.row_of(lane)
        held = (owner, part.owner is not None and self._is_alive(part.owner), row.head, row.state, row.attempts)
        held = (*held, row.starts, row.rev, tuple(sorted(lane.skipped)))
        book = self.checker._books[lane.id]
        seen = (tuple(sorted(book.landed)), tuple(sorted(book.excused)), book.ended)
        hands = sorted((self._hand_key(hand, part) for hand in self.hands), key=repr)  # which of the two is no matter
        return held, seen, tuple(hands), tuple(sorted(self.spent.items()))

    def _hand_key(self, hand: Hand, part: Any) -> object:
        known = hand.engine._heads.lanes.get(self.lane.id)
        mine = part.owner == hand.name and hand.epochs.get(self.lane.pid) == part.epoch
        head = None
        if known is not None:
            head = (known.phase, known.head, known.tail, known.state, known.attempts, known.rev, known.starts)
            head = (*head, known.unsure, known.again, known.acked)
        writes = tuple((type(one), one.lane_id, _outcome(one), one.pid) for one in hand.writes)
        sends = tuple((one.seq, one.attempt, one.rev) for one in hand.flying)
        return bool(hand.epochs), mine, head, writes, sends, hand.asked


def _outcome(write: Write) -> object:
    if isinstance(write, Settlement):
        return type(write.outcome), write.send.seq, write.send.attempt, write.send.rev
    return (write.seq,)


@dataclass(frozen=True)
class Search:
    """What a search has seen."""

    states: int
    histories: int
    broken: tuple[str, ...] = ()
    """The steps of the first history that broke a promise, and which one it was."""
    finished: int = 0
    """States in which everything was delivered or given up."""


def search(bounds: Bounds, parts: Callable[..., Engine] = Engine, store: Callable[..., SimStore] = SimStore) -> Search:
    """Try every history within *bounds*, the shorter ones first."""
    with patch.object(tables, "PARTITIONS", 1):
        return _search(bounds, parts, store)


def _search(bounds: Bounds, parts: Callable[..., Engine], store: Callable[..., SimStore]) -> Search:
    line: deque[tuple[str, ...]] = deque([()])
    seen: set[object] = set()
    histories = finished = 0
    while line:
        trace = line.popleft()
        histories += 1
        small = rebuilt(bounds, parts, store, trace)
        if small.checker.violations:
            return Search(len(seen), histories, (*trace, str(small.checker.violations[0])))
        key = small.key()
        if key in seen:
            continue
        seen.add(key)
        finished += small.store.owed_count == 0
        if len(trace) < bounds.steps:
            line.extend((*trace, name) for name, _ in small.steps())
    return Search(len(seen), histories, finished=finished)


def rebuilt(
    bounds: Bounds, parts: Callable[..., Engine], store: Callable[..., SimStore], trace: Sequence[str]
) -> SmallWorld:
    small = SmallWorld(bounds, parts, store)
    for name in trace:
        small.world.now += STEP_MS
        dict(small.steps())[name]()
    return small
