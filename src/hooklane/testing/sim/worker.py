"""A worker process of a simulated world: which partitions it owns and until when, and how it hears the news."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hooklane.core.engine import (
    Dropped,
    EndpointChanged,
    Engine,
    HealthSeen,
    LeaseSet,
    Leaving,
    Loaded,
)
from hooklane.core.share import fair_share
from hooklane.model.clock import Instant
from hooklane.model.lane import PARTITIONS, Grown, LaneId
from hooklane.store.outbox import Lease, Load, News, Roster, Taken
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.shell import Shell
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import World

LEASE_MS = 1_000
POLL_MS = 50
SAFE_PART = 0.95
PATIENCE_MS = 300


class Worker(Shell):
    """One process of the sender. *number* makes its names unlike all others."""

    def __init__(
        self, world: World, store: SimStore, network: Network, checker: Invariants, number: int, engine: Engine
    ) -> None:
        super().__init__(world, store, network, checker, number, engine)
        self.leaving = False
        self._lives = 0
        self._begin()

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
