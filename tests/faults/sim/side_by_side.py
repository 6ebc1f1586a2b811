"""A simulated store that asks a real one the same, call by call, and insists on the same answer.

The workers, the network and the people are those of the simulator; the memory tables answer them. What differs between
two stores by right is told apart here and nowhere else: the numbers of lanes, marks, sessions, and that a poll may tell
of a lane once instead of once for each event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from hooklane.model.attempt import Settlement, Write
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.health import Health
from hooklane.model.lane import Grown, LaneId, LaneRow
from hooklane.model.lost import Decide, KnownPlace, LostLane
from hooklane.store.memory.outbox import owning, reading
from hooklane.store.outbox import CommitReport, Draft, Lease, Load, News, PublishReport, Recovery, Roster, Taken
from hooklane.store.reads import AttemptRow
from hooklane.testing.conformance_outbox import Outbox
from hooklane.testing.conformance_outbox.kit import tails
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.store import Mark, SimStore
from hooklane.testing.sim.world import World

TENANT = "default"


class Disagreement(AssertionError):
    """Two stores were asked the same and answered differently."""


class SideBySide(SimStore):
    """The memory tables and *real*: whatever becomes of one must become of the other."""

    def __init__(
        self,
        world: World,
        checker: Invariants,
        *,
        real: Outbox,
        run: asyncio.Runner,
        set_clock: Callable[[Instant], Awaitable[None]],
        fold: Callable[[], Awaitable[object]],
    ) -> None:
        self.real = real
        self.calls = 0
        self._run = run
        self._set_clock = set_clock
        self._fold = fold
        self._there: dict[LaneId, LaneId] = {}
        """Lanes of the real store by those of the memory tables; and the other way round."""
        self._here: dict[LaneId, LaneId] = {}
        self._marks: dict[Mark, Any] = {}
        super().__init__(world, checker)

    def _ask(self, answer: Awaitable[Any]) -> Any:
        async def at_this_time() -> Any:
            await self._set_clock(self.clock())
            return await answer

        self.calls += 1
        return self._run.run(at_this_time())

    def _agree(self, verb: str, ours: object, theirs: object, asked: object = "") -> None:
        if ours != theirs:
            if isinstance(ours, list) and isinstance(theirs, list):
                ours, theirs = [a for a in ours if a not in theirs], [b for b in theirs if b not in ours]
            raise Disagreement(
                f"call {self.calls}, {verb}\n  memory: {ours}\n  real:   {theirs}\n  asked: {asked}"[:3_000]
            )

    # --- numbers of lanes ---

    def _row(self, row: LaneRow) -> LaneRow:
        return replace(row, id=self._here.get(row.id, 0))

    def _write(self, write: Write) -> Write:
        if isinstance(write, Settlement):
            return replace(write, send=replace(write.send, lane_id=self._there[write.send.lane_id]))
        return replace(write, lane_id=self._there[write.lane_id])

    def _tails(self, grown: Sequence[Grown]) -> dict[LaneId, int]:
        return {self._here.get(lane_id, 0): seq for lane_id, seq in tails(grown).items()}

    # --- failing ---

    def crash(self) -> None:
        """Its sessions end, and replies are lost with them. A real store loses no numbers by itself."""
        self.crashes += 1
        self.down_until = max(self.down_until, self.world.now + 50.0 * self.world.roll())
        self.world.counts["store crashed"] += 1

    def account_for(self, places: Sequence[KnownPlace], decide: Decide, now: Instant) -> Sequence[LostLane]:
        ours = list(super().account_for(places, decide, now))
        self._agree("account_for", ours, list(self._ask(self.real.account_for(places, decide, now))))
        return ours

    # --- publishing ---

    def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        ours, theirs = super().publish(drafts), self._ask(self.real.publish(drafts))
        places = [_places(report.grown) for report in (ours, theirs)]
        self._agree("publish", places[0].keys(), places[1].keys())
        for place, lane_id in places[0].items():
            self._there[lane_id] = places[1][place]
            self._here[places[1][place]] = lane_id
        self._agree("publish", list(ours.results), list(theirs.results))
        return replace(ours, span=None)

    def change(self, endpoint: Endpoint, expect: Endpoint | None) -> bool:
        ours = super().change(endpoint, expect)
        self._agree("save_endpoint", ours, self._ask(self.real.save_endpoint(endpoint, expect=expect)))
        return ours

    # --- owning ---

    def join(self, worker: str, lease_ms: int) -> Lease:
        ours = super().join(worker, lease_ms)
        self._agree("join", ours, self._ask(self.real.join(worker, lease_ms)))
        return ours

    def renew(self, worker: str, lease_ms: int) -> Lease | None:
        ours = super().renew(worker, lease_ms)
        self._agree("renew", ours, self._ask(self.real.renew(worker, lease_ms)), worker)
        return ours

    def roster(self) -> Roster:
        ours = super().roster()
        self._agree("roster", ours, self._ask(self.real.roster()))
        return ours

    def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        ours = super().acquire(worker, most)
        self._agree("acquire", list(ours), list(self._ask(self.real.acquire(worker, most))), (worker, most))
        return ours

    def release(self, worker: str, pids: Iterable[int]) -> None:
        pids = list(pids)
        super().release(worker, pids)
        self._ask(self.real.release(worker, pids))

    def leave(self, worker: str) -> None:
        super().leave(worker)
        self._ask(self.real.leave(worker))

    def expire(self, workers: Iterable[str]) -> None:
        workers = list(workers)
        super().expire(workers)
        self._ask(self.real.expire(workers))

    # --- what an owner reads ---

    def load_steps(self, worker: str, epochs: Mapping[int, int]) -> list[Callable[[Any], Any]]:
        return [lambda _: self.load(worker, epochs)]

    def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        mark = self.mark()
        ours: Load = self.read_lanes(worker, epochs, mark, self.read_acks())
        theirs: Load = self._ask(self.real.load(worker, epochs))
        self._agree("load", _by_id(ours.lanes), _by_id({pid: map(self._row, v) for pid, v in theirs.lanes.items()}))
        self._agree("load", _endpoints(ours.endpoints), _endpoints(theirs.endpoints))
        self._agree("load", (ours.now, _healths(ours.health)), (theirs.now, _healths(theirs.health)))
        self._marks[mark] = theirs.mark
        return ours

    def owed(self, worker: str, epochs: Mapping[int, int]) -> Mapping[int, Sequence[LaneRow]]:
        ours, theirs = super().owed(worker, epochs), self._ask(self.real.owed(worker, epochs))
        self._agree("owed", _by_id(ours), _by_id({pid: map(self._row, rows) for pid, rows in theirs.items()}))
        return ours

    def poll(self, worker: str, pids: Iterable[int], mark: Mark) -> News:
        pids = list(pids)
        ours: News = super().poll(worker, pids, mark)
        theirs: News = self._ask(self.real.poll(worker, pids, self._marks[mark]))
        grown = {lane_id: seq for lane_id, seq in tails(ours.grown).items() if not self._is_over(lane_id)}
        self._agree("poll", grown, self._tails(theirs.grown))
        self._agree("poll", set(ours.recovered), {self._here.get(one, 0) for one in theirs.recovered})
        self._agree("poll", _endpoints(ours.endpoints), _endpoints(theirs.endpoints))
        self._agree("poll", (ours.now, _healths(ours.health)), (theirs.now, _healths(theirs.health)))
        self._marks[ours.mark] = theirs.mark
        return ours

    def reload(self, lane_ids: Sequence[LaneId]) -> Sequence[LaneRow]:
        ours = super().reload(lane_ids)
        self._agree("reload", _rows(ours), self._rows_there(lane_ids), lane_ids)
        return ours

    def _rows_there(self, lane_ids: Iterable[LaneId]) -> list[LaneRow]:
        return _rows(map(self._row, self._ask(self.real.reload([self._there[one] for one in lane_ids]))))

    def fetch(self, wants: Sequence[tuple[LaneId, int, int]]) -> Sequence[Any]:
        ours = super().fetch(wants)
        theirs = self._ask(self.real.fetch([(self._there[lane_id], seq, many) for lane_id, seq, many in wants]))
        found = [(self._here.get(lane_id, 0), seq, event) for lane_id, seq, event in theirs]
        owed, found = ([one for one in some if not self._is_over(one[0])] for some in (ours, found))
        # Lane by lane in order; which lane comes first, no caller minds.
        self._agree("fetch", sorted(owed, key=itemgetter(0)), sorted(found, key=itemgetter(0)), wants)
        return ours

    def _is_over(self, lane_id: LaneId) -> bool:
        """A loose delivery that is over: a real store need not know of it any more, and may."""
        lane = self.tables.lanes.get(lane_id)
        return lane is not None and lane_id < 0 and self.tables.head_of(lane) > lane.tail

    # --- what an owner writes ---

    def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        ours: CommitReport = super().commit(worker, epochs, writes)
        theirs: CommitReport = self._ask(self.real.commit(worker, epochs, [self._write(one) for one in writes]))
        stale = frozenset(self._here.get(one, 0) for one in theirs.stale)
        self._agree("commit", (ours.now, ours.fenced, ours.stale), (theirs.now, theirs.fenced, stale), writes)
        touched = list(dict.fromkeys(one.lane_id for one in writes))
        self._agree("commit", _rows(owning.reload(self.tables, touched)), self._rows_there(touched), writes)
        return ours

    def note_health(self, turns: Sequence[Health]) -> Sequence[Health]:
        ours = super().note_health(turns)
        self._agree("note_health", _healths(ours), _healths(self._ask(self.real.note_health(turns))))
        return ours

    def fold(self) -> None:
        super().fold()
        self._ask(self._fold())

    # --- people ---

    def replay(self, dead_letter_id: str) -> None:
        before, at = self.tables.dead_letters[dead_letter_id], self.clock()
        super().replay(dead_letter_id)
        recovery = self._ask(self.real.replay(TENANT, dead_letter_id, actor="operator", now=at))
        self._recovered("replay", before.lane_id, recovery)

    def skip(self, dead_letter_id: str) -> None:
        before, at = self.tables.dead_letters[dead_letter_id], self.clock()
        super().skip(dead_letter_id)
        recovery = self._ask(self.real.skip(TENANT, dead_letter_id, note="why not", actor="operator", now=at))
        self._recovered("skip", before.lane_id, recovery)

    def _recovered(self, verb: str, lane_id: LaneId, recovery: Recovery | None) -> None:
        ours = _rows(owning.reload(self.tables, [lane_id]))
        self._agree(verb, ours, self._rows_there([lane_id]), recovery)

    # --- the end ---

    def compare_all(self) -> None:
        """What people would see: ledgers, and each event with its deliveries and attempts."""
        for endpoint_id in (None, *self.tables.endpoints):
            ours = {k: v for k, v in reading.ledger(self.tables, TENANT, endpoint_id).items() if v}
            theirs = {k: v for k, v in self._ask(self.real.ledger(TENANT, endpoint_id)).items() if v}
            self._agree("ledger", ours, theirs, endpoint_id)
        ids = [event_id for _, event_id in self.tables.events]
        here = reading.deliveries(self.tables, TENANT, ids)
        there = self._ask(self.real.deliveries(TENANT, ids))
        for event_id in ids:
            states = [
                sorted((one.endpoint_id, one.seq or 0, one.state) for one in side[event_id]) for side in (here, there)
            ]
            self._agree("deliveries", states[0], states[1], event_id)
            tried = list(reading.attempts(self.tables, TENANT, event_id))
            self._agree("attempts", _tries(tried), _tries(self._ask(self.real.attempts(TENANT, event_id))), event_id)


def _places(grown: Iterable[Grown]) -> dict[object, LaneId]:
    """Lanes by what they are called in any store: endpoint and key, or the event of a loose delivery."""
    found: dict[object, LaneId] = {}
    for one in grown:
        assert one.event is not None
        found[one.endpoint_id, one.pid, one.key, one.event.id if one.lane_id < 0 else "", one.lane_id < 0] = one.lane_id
        found[one.endpoint_id, one.event.id, one.seq] = one.lane_id
    return found


def _tries(rows: Iterable[AttemptRow]) -> list[object]:
    return sorted((one.endpoint_id, one.started_at, one.attempt, one.outcome, one.status or 0) for one in rows)


def _rows(rows: Iterable[LaneRow]) -> list[LaneRow]:
    return sorted(rows, key=lambda row: row.id)


def _by_id(lanes: Mapping[int, Iterable[LaneRow]]) -> dict[int, list[LaneRow]]:
    return {pid: _rows(rows) for pid, rows in lanes.items()}


def _endpoints(endpoints: Iterable[Endpoint]) -> dict[str, Endpoint]:
    return {one.id: one for one in endpoints}


def _healths(healths: Iterable[Health]) -> dict[str, Health]:
    return {one.endpoint_id: one for one in healths}
