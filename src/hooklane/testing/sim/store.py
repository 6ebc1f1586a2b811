"""The store of a simulated world: the memory tables behind a line that loses, delays and hides outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from hooklane.core.fanout import places
from hooklane.model.attempt import Dead, Settlement, Start, Write
from hooklane.model.clock import START, Instant
from hooklane.model.endpoint import Endpoint, EndpointState, OnDead
from hooklane.model.lane import LaneId, LaneRow
from hooklane.model.session import Session
from hooklane.store.memory.outbox import health, lost, owning, publishing, recovering, settling
from hooklane.store.memory.outbox.tables import Lane, Tables, row_of
from hooklane.store.outbox import (
    CommitReport,
    Draft,
    Load,
    News,
    Published,
    PublishReport,
    StoreOptions,
    Taken,
)
from hooklane.testing.invariants import Invariants
from hooklane.testing.lane_book import Rules
from hooklane.testing.sim.world import T0, World

P = ParamSpec("P")
T = TypeVar("T")
FOLD_EVERY_MS = 300
NUMBERS_LOST_MAX = 400


class Mark(NamedTuple):
    """Up to where an owner has read, by the numbers that the store gave out when it did, and on which session."""

    read: owning.Mark
    numbers_lost: int
    session: Session

    def by(self, numbers_lost: int) -> owning.Mark:
        """What it says where *numbers_lost* have been given out a second time: it is ahead of what comes next."""
        ahead, read = numbers_lost - self.numbers_lost, self.read
        return read._replace(growth=read.growth + ahead, recoveries=read.recoveries + ahead, turns=read.turns + ahead)


class Written(NamedTuple):
    """The piece of the log that one publish wrote: what was logged after *first*, up to *last*."""

    first: int
    last: int
    numbers_lost: int
    counts: Counter[str]

    def past(self, mark: Mark) -> Mark | None:
        """As on SQLite: the mark moves behind it, unless something of others stands between."""
        if mark.numbers_lost != self.numbers_lost or self.first > mark.read.growth:
            self.counts["span not passed"] += 1
            return None
        self.counts["span passed"] += 1
        return mark._replace(read=mark.read._replace(growth=max(mark.read.growth, self.last)))


def on_tables(verb: Callable[Concatenate[Tables, P], T]) -> Callable[Concatenate[SimStore, P], T]:
    """A verb of the memory store, as it is."""

    def done(store: SimStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return verb(store.tables, *args, **kwargs)

    return done


class SimStore:
    """Verbs are carried out one at a time, and everything that becomes durable is told to the checker."""

    def __init__(self, world: World, checker: Invariants) -> None:
        self.world = world
        self.checker = checker
        self.skew = 0
        self.down_until = 0.0
        self.numbers_lost = 0
        self.crashes = 0
        self.timeline = 1
        self._acquired_in: dict[str, int] = {}
        self._rules: dict[str, Rules] = {}
        self.tables = Tables(StoreOptions(placer=places), self.clock)
        self.owed_count = 0
        """Deliveries that are not over yet."""
        self._tidy()

    def clock(self) -> Instant:
        return Instant(T0 + int(self.world.now) + self.skew)

    # --- the line ---

    def call(self, verb: Callable[[], T], ok: Callable[[T], None], failed: Callable[[], None]) -> None:
        """Ask for a verb from far away; *ok* or *failed* comes later, and what failed may have been carried out."""
        self.call_in_steps([lambda _: verb()], ok, failed)

    def call_in_steps(
        self, steps: Sequence[Callable[[Any], Any]], ok: Callable[[Any], None], failed: Callable[[], None]
    ) -> None:
        """The same for a verb of several reads between which others get their turn; each is handed the one before."""
        world, faults = self.world, self.world.faults
        lost = world.roll()
        slow = 1.0
        if world.roll() < faults.store_slow:
            slow = 1_500.0 if world.roll() < 0.1 else 40.0
        if lost < faults.store_unknown / 2:
            world.after(20.0 + 200.0 * world.roll(), failed)
            world.counts["store call lost"] += 1
            return
        if lost < faults.store_unknown:
            world.counts["store reply lost"] += 1
            done: Callable[[Any], None] = lambda _: failed()  # noqa: E731
        else:
            done = ok
        world.after((0.2 + world.roll()) * slow, self._carry_out, steps, 0, None, slow, done, failed)

    def steps(self, verb: str, args: tuple[Any, ...]) -> list[Callable[[Any], Any]]:
        """The reads and writes of a verb, each of which is handed what the one before has found."""
        return self.load_steps(*args) if verb == "load" else [lambda _: getattr(self, verb)(*args)]

    def _carry_out(
        self,
        steps: Sequence[Callable[[Any], Any]],
        number: int,
        before: Any,
        slow: float,
        done: Callable[[Any], None],
        failed: Callable[[], None],
    ) -> None:
        world = self.world
        if world.now < self.down_until:
            world.after(5.0 + 20.0 * world.roll(), failed)
            return
        result = steps[number](before)
        wait = (0.2 + world.roll()) * slow
        if number + 1 < len(steps):
            if world.roll() < world.faults.store_interleaved:
                self.fold()
                wait += 15.0 * world.roll()
            world.after(wait, self._carry_out, steps, number + 1, result, slow, done, failed)
        else:
            world.after(wait, self._reply, self.crashes, done, failed, result)

    def _reply(self, crashes: int, done: Callable[[Any], None], failed: Callable[[], None], result: Any) -> None:
        """No session outlives a crash: what was carried out just before it is answered by none."""
        if crashes == self.crashes:
            done(result)
        else:
            self.world.counts["reply lost with the session"] += 1
            failed()

    def go_down(self) -> None:
        self.down_until = self.world.now + self.world.chance.uniform(100.0, 1_500.0)
        self.world.counts["store down"] += 1

    def jump(self) -> None:
        """The store's clock is set by hand: leases and due times are judged by the new one."""
        self.skew += self.world.chance.choice((-4_000, -500, 500, 4_000))
        self.checker.clock_set()
        self.world.counts["store clock jumped"] += 1

    def crash(self) -> None:
        """What was committed is there, but not the numbers of what was not."""
        self.crashes += 1
        self.numbers_lost += self.world.chance.randint(1, NUMBERS_LOST_MAX)
        self.down_until = max(self.down_until, self.world.now + 50.0 * self.world.roll())
        self.world.counts["store crashed"] += 1

    def fail_over(self) -> None:
        """The standby, which has all that was committed, goes on under a timeline of its own."""
        self.crash()
        self.timeline += 1
        self.down_until = max(self.down_until, self.world.now + self.world.chance.uniform(50.0, 800.0))
        self.world.counts["store failed over"] += 1

    def session(self) -> Session:
        return Session(f"sim {self.timeline}", str(self.crashes), None, 0)

    def _tidy(self) -> None:
        self.fold()
        self.world.after(FOLD_EVERY_MS * (0.5 + self.world.roll()), self._tidy)

    # --- verbs ---

    def fold(self) -> None:
        settling.fold(self.tables)

    def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        first = len(self.tables.growth)
        report = publishing.publish(self.tables, drafts)
        for one in report.grown:
            assert one.event is not None
            rules = self._rules_of(one.endpoint_id)
            self.checker.accepted(one.lane_id, one.pid, one.seq, one.event.id, rules)
            self.world.trace(1, one.lane_id, one.seq)
        self.owed_count += len(report.grown)
        self.world.counts["published"] += sum(isinstance(one, Published) and not one.repeated for one in report.results)
        span = Written(first, len(self.tables.growth), self.numbers_lost, self.world.counts)
        return replace(report, span=span)

    def _rules_of(self, endpoint_id: str) -> Rules:
        """Fixed when an endpoint is made, as far as the checker must know them."""
        rules = self._rules.get(endpoint_id)
        if rules is None:
            rules = self._rules[endpoint_id] = _rules(self.tables.endpoints[endpoint_id])
        return rules

    join = on_tables(owning.join)
    renew = on_tables(owning.renew)
    roster = on_tables(owning.roster)
    release = on_tables(owning.release)
    leave = on_tables(owning.leave)
    expire = on_tables(owning.expire)
    owed = on_tables(owning.owed)
    reload = on_tables(owning.reload)
    fetch = on_tables(owning.fetch)
    account_for = on_tables(lost.account_for)
    note_health = on_tables(health.note_health)
    write = on_tables(settling.commit)

    def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        taken = owning.acquire(self.tables, worker, most)
        self._acquired_in[worker] = self.crashes
        for one in taken:
            self.checker.owned(one.pid, worker, one.epoch, unclean=one.unclean)
            self.world.trace(2, one.pid, one.epoch)
        return taken

    def is_same_run(self, worker: str) -> bool:
        """Whether it has not crashed since *worker* acquired something: what else it tells is not told to that one, as
        a client of PostgreSQL knows by its connections."""
        return self._acquired_in.get(worker, self.crashes) == self.crashes

    def read_acks(self) -> dict[LaneId, int]:
        """The first half of a load: what owners appended and no fold has reached yet."""
        return dict(self.tables.acks)

    def load_steps(self, worker: str, epochs: Mapping[int, int]) -> list[Callable[[Any], Any]]:
        """A load as the SQL stores make it: acks first, then lanes, and a mark from before both."""

        def first(_: Any) -> tuple[Mark, Session, dict[LaneId, int]]:
            return self.mark(), self.session(), self.read_acks()

        def second(found: tuple[Mark, Session, dict[LaneId, int]]) -> Load:
            mark, session, acks = found
            return replace(self.read_lanes(worker, epochs, mark, acks), session=session)

        return [first, second]

    def mark(self) -> Mark:
        return Mark(owning.mark_of(self.tables), self.numbers_lost, self.session())

    def endpoints(self) -> Sequence[Endpoint]:
        return list(self.tables.endpoints.values())

    def read_lanes(self, worker: str, epochs: Mapping[int, int], mark: Mark, acks: Mapping[LaneId, int]) -> Load:
        tables = self.tables
        lanes: dict[int, Sequence[LaneRow]] = {}
        for pid, epoch in epochs.items():
            if owning.is_owner(tables.parts[pid], worker, epoch):
                rows = [row_of(tables.lanes[one], acks.get(one, 0)) for one in tables.by_pid[pid]]
                lanes[pid] = [row for row in rows if row.head <= row.tail and not owning.is_over(row)]
        health = list(tables.health.values())
        return Load(lanes, list(tables.endpoints.values()), mark, self.clock(), health, self.session())

    def poll(self, worker: str, pids: Iterable[int], mark: Mark) -> News:
        news = owning.poll(self.tables, pids, mark.by(self.numbers_lost))
        told = [one for one in news.grown if self.world.roll() >= self.world.faults.poll_misses]
        self.world.counts["missed by a poll"] += len(news.grown) - len(told)
        here = self.session()
        return replace(news, grown=told, mark=self.mark(), session=here, mark_lives=mark.session == here)

    def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        """Carry a commit out, and tell the checker what the tables say has changed, not what the report says."""
        tables = self.tables
        before = []
        for write in writes:
            lane = tables.lanes[write.lane_id]
            before.append((lane, tables.row_of(lane)))
        report = self.write(worker, epochs, writes)
        for (lane, row), write in zip(before, writes, strict=True):
            self._tell(worker, epochs.get(lane.pid, 0), lane, row, write)
        return report

    def _tell(self, worker: str, epoch: int, lane: Lane, before: LaneRow, write: Write) -> None:
        after, checker = self.tables.row_of(lane), self.checker
        if after == before:
            return
        for seq in range(before.head, after.head):
            self.world.trace(3, lane.id, seq)
            self.owed_count -= 1
            if seq in lane.cancelled:
                deleted = self.tables.endpoints[lane.endpoint_id].state is EndpointState.CANCELLING
                checker.cancelled(worker, epoch, lane.id, seq, deleted=deleted)
            elif seq in lane.skipped or (isinstance(write, Settlement) and isinstance(write.outcome, Dead)):
                seen = not (isinstance(write, Settlement) and write.result is None)
                checker.given_up(worker, epoch, lane.id, seq, recorded=seq in lane.skipped, seen=seen)
                self.world.counts["given up"] += 1
            else:
                checker.acked(worker, epoch, lane.id, seq)
                self.world.counts["delivered"] += 1
        if after.head != before.head:
            return
        if isinstance(write, Start):
            checker.started(worker, epoch, lane.id, after.head, after.attempts)
        elif isinstance(write, Settlement):
            self.world.trace(4, lane.id, after.head, after.attempts)
            due = after.next_at if after.next_at not in (START, before.next_at) else None
            seen = write.result is not None
            checker.failed(worker, epoch, lane.id, after.head, after.attempts, write.at, due, seen=seen)
            if after.state != before.state and isinstance(write.outcome, Dead):
                checker.died(worker, epoch, lane.id, after.head, seen=seen)
                self.world.counts["dead" if seen else "dead with its workers"] += 1

    # --- people ---

    def replay(self, dead_letter_id: str) -> None:
        dead_row = self.tables.dead_letters[dead_letter_id]
        recovery = recovering.replay(self.tables, "default", dead_letter_id)
        if recovery is not None:
            lane = self.tables.lanes[dead_row.lane_id]
            self.world.trace(5, lane.id, dead_row.seq)
            self.checker.replayed(lane.id, dead_row.seq, self.tables.head_of(lane))
            self.world.counts["replayed"] += 1

    def skip(self, dead_letter_id: str) -> None:
        dead_row = self.tables.dead_letters[dead_letter_id]
        recovery = recovering.skip(self.tables, "default", dead_letter_id, "why not")
        if recovery is not None:
            lane = self.tables.lanes[dead_row.lane_id]
            self.world.trace(6, lane.id, dead_row.seq)
            self.owed_count -= 1
            head, recorded = self.tables.head_of(lane), dead_row.seq in lane.skipped
            self.checker.skipped(lane.id, dead_row.seq, head, recorded=recorded)
            self.world.counts["skipped"] += 1

    def change(self, endpoint: Endpoint, expect: Endpoint | None) -> bool:
        return publishing.save_endpoint(self.tables, endpoint, expect)


def _rules(endpoint: Endpoint) -> Rules:
    return Rules(endpoint.attempts_max, endpoint.backoff_ms, endpoint.backoff_cap_ms, endpoint.on_dead is OnDead.SKIP)
