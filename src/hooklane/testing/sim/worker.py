"""A worker process of a simulated world: the shell of the engine, which crashes, stalls and comes back as a zombie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hooklane.core.engine import (
    Committed,
    Dropped,
    Effects,
    EndpointChanged,
    Engine,
    Fetch,
    Fetched,
    HealthSeen,
    Input,
    LeaseSet,
    Leaving,
    Loaded,
    Reloaded,
    Settled,
)
from hooklane.core.share import fair_share
from hooklane.model.attempt import Send, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.exchange import Result
from hooklane.model.health import Health
from hooklane.model.lane import PARTITIONS, Grown, LaneId
from hooklane.store.outbox import CommitReport, Lease, Load, News, Roster, Taken
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import World

LEASE_MS = 1_000
POLL_MS = 50
SAFE_PART = 0.95
PATIENCE_MS = 300


class Worker:
    """One process: an engine, and what the relay does around it. *number* makes its names unlike all others."""

    def __init__(
        self, world: World, store: SimStore, network: Network, checker: Invariants, number: int, engine: Engine
    ) -> None:
        self.world = world
        self.store = store
        self.network = network
        self.checker = checker
        self.number = number
        self.engine = engine
        self.alive = True
        self.leaving = False
        self._stalled = False
        self._missed: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._clock_rate = 1.0 + world.faults.clock_drift * (2.0 * world.roll() - 1.0)
        self._clock_lag = 0.0
        self._skew = 0.0
        self._lives = 0
        self._inputs: list[Input] = []
        self._turn_is_set = False
        self._alarm_at: Instant = FOREVER
        self._commits: list[Write] = []
        self._committing = False
        self._fetches: list[Fetch] = []
        self._fetching = False
        self._reloads: list[LaneId] = []
        self._reloading = False
        self._begin()

    # --- being a process ---

    def do(self, what: Callable[..., None], *args: Any) -> None:
        """Run something of this process: at once, or when it wakes up, or never."""
        if not self.alive:
            return
        if self._stalled:
            self._missed.append((what, args))
        else:
            what(*args)

    def after(self, delay_ms: float, what: Callable[..., None], *args: Any) -> None:
        self.world.after(delay_ms, self.do, what, *args)

    def crash(self) -> None:
        self.alive = False
        self._missed.clear()
        self.world.counts["crash"] += 1
        self.world.trace(9, self.number)

    def stall(self, for_ms: float, clock_stops: bool) -> None:
        """Everything stops for a while; with a clock that stops as well, nobody notices afterwards."""
        if self._stalled or not self.alive:
            return
        self._stalled = True
        if clock_stops:
            self._clock_lag += for_ms
        self.world.counts["stall"] += 1
        self.world.trace(10, self.number)
        self.world.after(for_ms, self._wake)

    def _wake(self) -> None:
        if not self.alive:
            return
        self._stalled = False
        missed, self._missed = self._missed, []
        for what, args in missed:
            self.do(what, *args)

    def boot(self) -> float:
        """Its own clock, which runs a little wrong and may have stood still."""
        return self.world.now * self._clock_rate - self._clock_lag

    def now(self) -> Instant:
        """What it believes the store's clock to show."""
        return Instant(int(self.boot() + self._skew))

    def _set_time(self, store_now: Instant, before: float) -> None:
        """The store said so at some time since *before*; what we believe is kept while that may be true."""
        self._skew = min(max(self._skew, store_now - self.boot()), store_now - before)

    # --- the engine's turns ---

    def put(self, *inputs: Input) -> None:
        self._inputs.extend(inputs)
        if not self._turn_is_set:
            self._turn_is_set = True
            self.after(0.3 * self.world.roll(), self._turn)

    def _turn(self) -> None:
        self._turn_is_set = False
        inputs, self._inputs = self._inputs, []
        effects = self.engine.step(self.now(), inputs)
        if self.world.roll() < self.world.faults.turn_broken:
            self._break(effects)
        else:
            self.perform(effects)
        self._set_alarm(effects.wake_at)

    def perform(self, effects: Effects) -> None:
        if effects.writes:
            self._commits.extend(effects.writes)
            self._pump_commits()
        if effects.fetches:
            self._fetches.extend(effects.fetches)
            self._pump_fetches()
        if effects.reloads:
            self._reloads.extend(effects.reloads)
            self._pump_reloads()
        if effects.health:
            self._note_health(self.name, effects.health)
        for send in effects.sends:
            if self.network.kills(send):
                self.checker.killed(self.name, send.epoch, send.lane_id, send.seq, send.attempt)
                self.world.counts["killed"] += 1
                self.crash()
                return
            self.network.send(self.name, send, partial(self.do, self._settled, self.name))

    def _break(self, effects: Effects) -> None:
        """Do some of what the engine asked for, then crash or stall, and do the rest after waking up."""
        parts = [Effects(sends=[send]) for send in effects.sends]
        parts += [
            Effects(health=effects.health),
            Effects(writes=effects.writes),
            Effects(fetches=effects.fetches),
            Effects(reloads=effects.reloads),
        ]
        self.world.chance.shuffle(parts)
        cut = self.world.chance.randrange(len(parts) + 1)
        for part in parts[:cut]:
            self.perform(part)
        if self.world.roll() < 0.5:
            self.crash()
        else:
            self.stall(LEASE_MS * 2.5 * self.world.roll(), clock_stops=self.world.roll() < 0.5)
            for part in parts[cut:]:
                self.do(self.perform, part)

    def _set_alarm(self, at: Instant) -> None:
        if at < FOREVER and at != self._alarm_at:
            self._alarm_at = at
            self.after(max(0.0, (at - self.now()) / self._clock_rate) + 1.0, self._ring)

    def _ring(self) -> None:
        self._alarm_at = FOREVER
        self.put()

    # --- attempts ---

    def _settled(self, name: str, send: Send, result: Result) -> None:
        self.checker.settled(name, send.epoch, send.lane_id)
        self.put(Settled(send, result, self.world.roll()))

    # --- the store ---

    def call(self, verb: Callable[[], Any], ok: Callable[..., None], failed: Callable[[], None]) -> None:
        self.store.call(verb, lambda result: self.do(ok, result), lambda: self.do(failed))

    def _pump_commits(self) -> None:
        if not self._committing and self._commits:
            self._committing = True
            writes, self._commits = self._commits, []
            epochs = {pid: self.epochs[pid] for pid in {write.pid for write in writes} if pid in self.epochs}
            self._commit(self.name, epochs, writes)

    def _commit(self, name: str, epochs: dict[int, int], writes: list[Write]) -> None:
        """A failed commit is unknown, not "no": the same one is repeated until it is known."""
        self.call(
            lambda: self.store.commit(name, epochs, writes),
            lambda report: self._committed(epochs, writes, report),
            lambda: self.after(10.0 + 300.0 * self.world.roll(), self._commit_again, name, epochs, writes),
        )

    def _commit_again(self, name: str, epochs: dict[int, int], writes: list[Write]) -> None:
        if name == self.name:
            self._commit(name, epochs, writes)
        else:  # the lease is lost: whoever owns the lanes now will settle them
            self._committing = False
            self._pump_commits()

    def _committed(self, epochs: dict[int, int], writes: list[Write], report: CommitReport) -> None:
        self._committing = False
        for pid in report.fenced:
            if self.epochs.get(pid) == epochs.get(pid):
                self.epochs.pop(pid, None)
        self.put(Committed(writes, report.fenced, report.stale, epochs))
        self._pump_commits()

    def _pump_fetches(self) -> None:
        if not self._fetching and self._fetches:
            self._fetching = True
            wants, self._fetches = self._fetches, []
            self._fetch(wants)

    def _fetch(self, wants: list[Fetch]) -> None:
        def ok(items: Sequence[Any]) -> None:
            self._fetching = False
            self.put(Fetched(items, [want.lane_id for want in wants]))
            self._pump_fetches()

        self.call(lambda: self.store.fetch(wants), ok, lambda: self.after(20.0, self._fetch, wants))

    def _pump_reloads(self) -> None:
        if not self._reloading and self._reloads:
            self._reloading = True
            lane_ids, self._reloads = self._reloads, []
            self._reload(lane_ids)

    def _reload(self, lane_ids: list[LaneId]) -> None:
        epochs = dict(self.epochs)

        def ok(rows: Sequence[Any]) -> None:
            self._reloading = False
            self.put(Reloaded(rows, lane_ids, epochs))
            self._pump_reloads()

        self.call(lambda: self.store.reload(lane_ids), ok, lambda: self.after(20.0, self._reload, lane_ids))

    def _note_health(self, name: str, turns: list[Health]) -> None:
        asked = [replace(turn, by=name) for turn in turns]

        def ok(found: Sequence[Health]) -> None:
            self.put(HealthSeen(found, name, [turn.endpoint_id for turn in turns]))

        self.call(lambda: self.store.note_health(asked), ok, lambda: self.after(20.0, self._note_health, name, turns))

    # --- ownership ---

    def _begin(self) -> None:
        """Join the roster under a name that nobody has had."""
        self._lives += 1
        self.name = f"w{self.number}.{self._lives}"
        self.epochs: dict[int, int] = {}
        self.mark: Any = None
        self._is_reading = self._is_balancing = False
        name, before = self.name, self.boot()

        def ok(lease: Lease) -> None:
            if name == self.name:
                self._leased(before, lease)
                self._balance(name)
                self.after(LEASE_MS / 3, self._keep, name)
                self.after(POLL_MS, self._poll, name)

        self.call(lambda: self.store.join(name, LEASE_MS), ok, lambda: self.after(100.0, self._join_again, name))

    def _join_again(self, name: str) -> None:
        if name == self.name:
            self._begin()

    def _keep(self, name: str) -> None:
        """Renew, and keep to the fair share; an expired lease is never revived."""
        if name != self.name:
            return
        before = self.boot()
        self.after(LEASE_MS / 3, self._keep, name)

        def ok(lease: Lease | None) -> None:
            if name != self.name:
                return
            if lease is None:
                self._start_anew()
            else:
                self._leased(before, lease)
                self._balance(name)

        self.call(lambda: self.store.renew(name, LEASE_MS), ok, lambda: None)

    def _start_anew(self) -> None:
        self.world.counts["lease lost"] += 1
        self.drop(frozenset(self.epochs))
        if self.leaving:
            self.alive = False
        else:
            self._begin()

    def _leased(self, before: float, lease: Lease) -> None:
        self._set_time(lease.now, before)
        left = before + LEASE_MS * SAFE_PART - self.boot()
        self.put(LeaseSet(Instant(int(self.now() + left)), max(1, len(self.epochs)) / PARTITIONS))

    def _balance(self, name: str) -> None:
        """Compare what we own with our share, one step at a time: two at once would undo each other."""
        if not self._is_balancing:
            self._is_balancing = True
            self.call(self.store.roster, lambda roster: self._balanced(name, roster), lambda: self._rest(name))

    def _rest(self, name: str) -> None:
        if name == self.name:
            self._is_balancing = False

    def _balanced(self, name: str, roster: Roster) -> None:
        if name != self.name or self.leaving:
            return
        share = fair_share(len(set(roster.owned) | {name}))
        owned = roster.owned.get(name, 0)
        if owned < len(self.epochs):
            self._start_anew()  # others have taken something of ours, and we do not know what
        elif owned > len(self.epochs):
            # An acquire whose reply was lost, or a release that was: what we do not work on, others must get.
            self._release(name, [pid for pid in range(PARTITIONS) if pid not in self.epochs])
        elif owned > share:
            self._give_back(name, sorted(self.epochs)[share:])
        elif owned < share and roster.free:
            self.call(
                lambda: self.store.acquire(name, share - owned),
                lambda taken: self._take(name, taken),
                lambda: self._rest(name),
            )
        else:
            self._rest(name)

    def _release(self, name: str, pids: Sequence[int]) -> None:
        self.call(lambda: self.store.release(name, pids), lambda _: self._rest(name), lambda: self._rest(name))

    def _take(self, name: str, taken: Sequence[Taken]) -> None:
        """The acquire has been carried out; only now may the lanes be read."""
        if name != self.name or not taken:
            self._rest(name)
            return
        if not self.may_read():
            self.after(5.0, self._take, name, taken)
            return
        self._is_reading = True
        epochs = {one.pid: one.epoch for one in taken}
        self.store.call_in_steps(
            self.store.load_steps(name, epochs),
            lambda load: self.do(self._loaded, name, taken, load),
            lambda: self.do(self._not_loaded, name),
        )

    def _not_loaded(self, name: str) -> None:
        self._read(name)
        self._rest(name)

    def may_read(self) -> bool:
        """Loads and polls take turns. Else the older of two would be believed last about an endpoint, and a poll that
        does not ask for partitions which are being loaded would move the mark past their news."""
        return not self._is_reading

    def _read(self, name: str) -> None:
        if name == self.name:
            self._is_reading = False

    def _loaded(self, name: str, taken: Sequence[Taken], load: Load) -> None:
        self._not_loaded(name)
        if name != self.name:
            return
        mine = [one for one in taken if one.pid in load.lanes]
        self.epochs.update({one.pid: one.epoch for one in mine})
        if self.mark is None:
            self.mark = load.mark  # later loads keep the older mark: it reports some news twice, and misses none
        self.put(*(EndpointChanged(endpoint) for endpoint in load.endpoints), HealthSeen(load.health))
        self.put(*(Loaded(one.pid, one.epoch, load.lanes[one.pid], one.unclean) for one in mine))

    def _give_back(self, name: str, pids: Sequence[int]) -> None:
        self.put(Leaving(frozenset(pids)))
        self.after(20.0, self._let_go, name, pids, self.boot() + PATIENCE_MS)

    def _let_go(self, name: str, pids: Sequence[int], patience: float) -> None:
        if name != self.name:
            return
        busy = self.busy(frozenset(pids))
        if busy and self.boot() < patience:
            self.after(20.0, self._let_go, name, pids, patience)
            return
        quiet = [pid for pid in pids if pid in self.epochs and pid not in busy]
        self.put(Leaving(frozenset()))  # what is still busy stays ours, and goes on
        self.drop(frozenset(quiet))
        for pid in quiet:
            self.epochs.pop(pid, None)
        self.world.counts["handed over"] += len(quiet)
        if self.leaving:
            # What is still busy is left to the next owner, who will find that we did not let go of it.
            self.store.call(lambda: self.store.release(name, quiet), lambda _: None, lambda: None)
            self.alive = False
        else:
            self._release(name, quiet)

    def busy(self, pids: frozenset[int]) -> frozenset[int]:
        return self.engine.busy(pids)

    def leave(self) -> None:
        """End in good order: a deploy, not a crash."""
        self.leaving = True
        self.world.counts["left"] += 1
        if self.epochs:
            self._give_back(self.name, sorted(self.epochs))
        else:
            self.alive = False

    def drop(self, pids: frozenset[int]) -> None:
        """What was decided under an epoch that is over is not written under a later one."""
        self._commits = [write for write in self._commits if write.pid not in pids]
        self.put(Dropped(pids))

    # --- news ---

    def _poll(self, name: str) -> None:
        if name != self.name:
            return
        self.after(POLL_MS * (0.5 + self.world.roll()), self._poll, name)
        if self.mark is None or not self.may_read():
            return
        self._is_reading = True
        pids, mark, before = list(self.epochs), self.mark, self.boot()
        self.call(
            lambda: self.store.poll(name, pids, mark),
            lambda news: self._polled(name, before, news),
            lambda: self._read(name),
        )

    def _polled(self, name: str, before: float, news: News) -> None:
        self._read(name)
        if name != self.name:
            return
        self.mark = news.mark
        self._set_time(news.now, before)
        self.put(*(EndpointChanged(endpoint) for endpoint in news.endpoints), *news.grown, HealthSeen(news.health))
        if news.recovered:
            self._look_again(news.recovered)

    def wake(self, lane_id: LaneId) -> None:
        """A person recovered a lane through this process."""
        self.do(self._look_again, [lane_id])

    def _look_again(self, lane_ids: Sequence[LaneId]) -> None:
        self._reloads.extend(lane_ids)
        self._pump_reloads()

    def feed(self, grown: Iterable[Grown]) -> None:
        """News of this process's own publishes."""
        self.do(self.put, *grown)
