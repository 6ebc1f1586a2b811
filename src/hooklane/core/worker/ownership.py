"""Which partitions are ours, and until when? Join, renew, keep to the fair share, take, give back, start anew.

One call to the store after the other, so that no two steps undo each other:

    account for what was sent -> leave former names -> join
        -> roster -> take more, give some back, or neither -> renew -> roster -> ...

A worker that is certainly gone is expired before its partitions are counted: its lease need not be waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hooklane.core.engine import Dropped, EndpointChanged, HealthSeen, Jumped, LeaseSet, Leaving, Loaded, StartedAnew
from hooklane.core.lost import mend
from hooklane.core.share import fair_share
from hooklane.core.worker.effects import Call, ClockSet, LeaseLost, Lost, MarkLost, Note
from hooklane.core.worker.news import News
from hooklane.core.worker.sending import Sending
from hooklane.core.worker.state import WorkerState
from hooklane.core.worker.witness import Witness
from hooklane.core.worker.writing import Writing
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.jumps import NO_JUMP, Forward, kept_waiting
from hooklane.model.lane import PARTITIONS
from hooklane.model.lost import LostLane
from hooklane.model.owning import Lease, Load, Roster, Taken

SAFE_PART = 0.95
"""We stop sending a little before the lease ends by our own clock; safety itself comes from the fence."""
LET_GO_POLL_MS = 20
FORMER_MAX = 16
AGAIN_MS = 250
"""After a call that failed."""
RENEWALS = 4
"""So often is a lease renewed in its life."""
LOADED_FIRST = 8
"""So many partitions are loaded first, then twice as many each time: what they owe is sent while the rest is read."""


class Ownership:
    """A worker's place in the roster, its lease and its partitions."""

    def __init__(
        self,
        state: WorkerState,
        news: News,
        writing: Writing,
        sending: Sending,
        witness: Witness,
        lease_ms: int,
        is_gone: Callable[[str], bool],
    ) -> None:
        """*is_gone* says of a worker's name whether that worker is certainly gone."""
        self._state = state
        self._news = news
        self._writing = writing
        self._sending = sending
        self._witness = witness
        self._lease_ms = lease_ms
        self._part_ms = lease_ms // RENEWALS
        self._is_gone = is_gone
        self._call: Call | None = None
        self._due: Instant = START
        """When to renew, or to come back."""
        self._leased_at: Instant = START
        """When the lease that we have now was asked for."""
        self._taken: Sequence[Taken] = ()
        """What we have acquired, and not loaded yet."""
        self._load_most = LOADED_FIRST
        self._leaving: Sequence[int] = ()
        """What shall be given back as soon as it is quiet."""
        self._look_at = self._patience_until = START
        self._parting: Note | None = None
        """Why everything is given up, as soon as what is known is written or refused."""
        self._is_lost = True
        """Nothing is ours: join, under a name that no worker has had."""
        self._former: deque[str] = deque(maxlen=FORMER_MAX)
        """Names of ours that may own something, though nothing is done under them any more. The last ones stay here: a
        backup may be restored in which one of them still has its lease."""
        self._to_leave: list[str] = []
        self._is_accounted = False
        """Whether the store was asked for what we had sent, since everything was lost."""
        self._is_checked = False
        """Whether it was asked once more after the load from whose mark polls go on."""
        self._unchecked: tuple[Call, Load] | None = None
        """That load, meanwhile."""
        self._forward = NO_JUMP
        """How the store's clock was set forward since the last renewal."""
        self._kept_at: Instant = START
        """Since when the times of lanes in the store go by its clock. One that was set back moves them with the next
        renewal, by whomever; what is read until then may seem to wait for a day. FOREVER until that is over."""
        self.is_ready = False
        """Whether it has joined once, and loaded something of what it took."""
        self._then: dict[str, Callable[[Call, Any, Instant], None]] = {
            "account_for": self._accounted,
            "leave": self._left,
            "join": self._leased,
            "renew": self._renewed,
            "roster": self._counted,
            "expire": lambda call, nothing, boot: self._ask("roster", boot, ()),
            "acquire": self._acquired,
            "load": self._loaded,
            "release": lambda call, nothing, boot: self._rest(boot),
        }

    @property
    def has_loaded(self) -> bool:
        """Whether it is ready, and everything is loaded that it took."""
        return self.is_ready and not self._taken

    @property
    def waits_for_outcomes(self) -> bool:
        """Whether partitions are given back, or everything is given up, as soon as what is known is durable."""
        return bool(self._leaving) or self._parting is not None

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which something may be ours: leave the roster under each."""
        return (*self._former, self._state.name)

    def wake_at(self) -> Instant:
        if self._parting is not None:
            return self._patience_until
        if self._call is not None:
            return FOREVER
        return self._look_at if self._leaving else self._due

    def go_on(self, boot: Instant) -> None:
        """Take the next step, if it is time and none is under way."""
        if self._parting is not None:
            self._part(boot)
        if self._call is not None or self._parting is not None:
            return
        if self._taken and boot < self._due:  # a renewal goes first: it moves times in the store that were set back
            self._load(boot)
        elif self._leaving:
            self._let_go(boot)
        elif boot >= self._due:
            if self._is_lost and not self._taken:
                self._to_leave = list(self._former)
                self._come_back(boot)
            else:
                self._ask("renew", boot, (self._state.name, self._lease_ms))

    def _ask(self, verb: str, boot: Instant, args: tuple[Any, ...]) -> None:
        self._call = self._state.ask(verb, boot, args)

    def answered(self, call: Call, result: Any, boot: Instant) -> None:
        self._call = None
        self._news.is_loading = False
        if call.worker == self._state.name and self._parting is None:
            self._then[call.verb](call, result, boot)

    def failed(self, call: Call, boot: Instant) -> None:
        """The store is away; our own deadline stops the sending in time."""
        self._call = None
        self._news.is_loading = False
        if call.worker != self._state.name:
            return
        self._taken = ()
        self._due = Instant(boot + AGAIN_MS + (0 if self._is_lost else self._part_ms))
        if self._is_lost and not (call.verb == "leave" or (call.verb == "account_for" and self._unchecked is None)):
            self._former.append(self._state.name)  # it may have joined, and own something
            self._forget()

    # --- joining and renewing ---

    def _come_back(self, boot: Instant) -> None:
        """What our former names own is let go first: to wait for a lease that we have given up ourselves would be to
        wait for no one. Before that the store is asked for what we had sent: it may be another one, which lost some of
        it, and as long as our lease lives no other worker sends what was published in those places since."""
        if self._witness and not self._is_accounted:
            self._account(boot)
        elif self._to_leave:
            self._ask("leave", boot, (self._to_leave.pop(0),))
        else:
            self._ask("join", boot, (self._state.name, self._lease_ms))

    def _account(self, boot: Instant) -> None:
        now = self._state.now(boot)
        self._ask("account_for", boot, (self._witness.places(now), mend, now))

    def _accounted(self, call: Call, lost: Sequence[LostLane], boot: Instant) -> None:
        if lost:
            self._state.notes.append(Lost(lost))
        if self._unchecked is None:
            self._is_accounted = True
            return  # and come back, with the next turn
        load, self._unchecked, self._is_checked = self._unchecked, None, True
        if any(lane.next_seq for lane in lost):  # what was loaded is from before these lanes have jumped
            self._former.append(self._state.name)
            self._forget()
            self._due = boot
        else:
            self._loaded(*load, boot)

    def _left(self, call: Call, result: None, boot: Instant) -> None:
        self._come_back(boot)

    def _renewed(self, call: Call, lease: Lease | None, boot: Instant) -> None:
        if lease is None:
            self._give_up(LeaseLost(), boot)  # an expired lease is never revived: others may own everything by now
            return
        self._forward = NO_JUMP
        self._leased(call, lease, boot)

    def _leased(self, call: Call, lease: Lease, boot: Instant) -> None:
        self._leased_at = call.asked_at
        self.set_time(lease.now, call.asked_at, boot)
        if self._kept_at == FOREVER:
            self._kept_at = boot
        self._set_lease(boot)
        self._due = Instant(boot + self._part_ms)
        if not self._taken:  # a long load goes on: what is not loaded yet would look like what was lost
            self._ask("roster", boot, ())

    def _set_lease(self, boot: Instant) -> None:
        until = Instant(self._leased_at + int(self._lease_ms * SAFE_PART))
        self._state.lease_until = self._state.now(until)
        self._state.inputs.append(LeaseSet(self._state.lease_until, self._state.share))

    def _rest(self, boot: Instant) -> None:
        """All is well until the next renewal."""
        self._set_lease(boot)  # our share may be another one by now
        self._is_lost = False
        self.is_ready = True

    def set_time(self, store_now: Instant, asked_at: Instant, boot: Instant) -> None:
        """The store has said what time it is. What waits goes on waiting as before, also where its clock was set."""
        state = self._state
        told_at = state.told_at
        by = state.follow(store_now, asked_at, boot)
        if by:
            # The store notes with each renewal what time it is: times of a clock that it never noted, since that was
            # set once more before, would not be moved back with that.
            self._due = boot
        if by < 0:
            self._kept_at = FOREVER
        if by and self.is_ready:
            state.notes.append(ClockSet(by))
            state.lease_until = Instant(state.lease_until + by)
            # What was read before the jump came with later times if the clock was set back: it is moved with the rest.
            state.inputs.insert(0 if by > 0 else len(state.inputs), Jumped(by))
            state.inputs.append(LeaseSet(state.lease_until, state.share))
            # Where our lease is over by that, what is loaded anew goes on waiting. Others may know the new clock since
            # we asked for the time before.
            after = Instant(store_now - (boot - told_at))
            self._forward = Forward(by, Instant(store_now - by), after)

    # --- the fair share ---

    def _counted(self, call: Call, roster: Roster, boot: Instant) -> None:
        name, epochs = self._state.name, self._state.epochs
        gone = [other for other in roster.owned if other != name and self._is_gone(other)]
        if gone:
            self._ask("expire", boot, (gone,))
            return
        share, owned, ours = fair_share(len(roster.owned)), roster.owned.get(name, 0), len(epochs)
        if owned < ours:
            # Others took something of ours and we did not notice (their clock said that our lease was over).
            self._give_up(LeaseLost(), boot)
        elif owned > ours:
            # An acquire or a release whose reply was lost: what we do not work on, others must get.
            self._ask("release", boot, (name, [pid for pid in range(PARTITIONS) if pid not in epochs]))
        elif ours > share:
            self._give_back(sorted(epochs)[share:], boot)
        elif ours < share and roster.free:
            self._ask("acquire", boot, (name, share - ours))
        else:
            self._rest(boot)

    def _acquired(self, call: Call, taken: Sequence[Taken], boot: Instant) -> None:
        self._taken = taken
        self._load_most = LOADED_FIRST
        if not taken:
            self._rest(boot)

    def _load(self, boot: Instant) -> None:
        """The acquire has committed; only now may the lanes be read, or a late ack of the old owner would be missed."""
        if self._news.may_load():
            self._news.is_loading = True
            self._ask("load", boot, (self._state.name, {one.pid: one.epoch for one in self._taken[: self._load_most]}))

    def is_right(self, call: Call) -> bool:
        """Whether the times of the lanes that *call* has read can be believed."""
        return call.asked_at >= self._kept_at

    def _loaded(self, call: Call, load: Load, boot: Instant) -> None:
        if self._witness and self._is_lost and not self._is_checked:
            # Whatever the first answer was worth (another failover since, a server that was cut off): what is lost
            # now is found before anything is sent, and what is lost later makes polls lose their mark.
            self._unchecked = call, load
            self._account(boot)
            return
        state, taken, self._taken = self._state, self._taken[: self._load_most], self._taken[self._load_most :]
        self._load_most *= 2
        state.epochs.update({one.pid: one.epoch for one in taken})
        # A later load may be older than what was decided or polled meanwhile: an endpoint that we know stays as it is,
        # since the older mark, which is kept, tells every change of it.
        known = {} if self._news.mark is None else state.engine.queues
        self._news.loaded(load.mark, load.session)
        state.inputs.extend(EndpointChanged(endpoint) for endpoint in load.endpoints if endpoint.id not in known)
        state.inputs.append(HealthSeen(load.health))
        for one in taken:
            rows = [kept_waiting(row, self._forward) for row in load.lanes.get(one.pid, ())]
            state.inputs.append(Loaded(one.pid, one.epoch, rows, one.unclean))
        self._rest(boot)  # what is loaded is sent now

    def _give_back(self, pids: Sequence[int], boot: Instant) -> None:
        """Start nothing more there, wait for what is in flight, and only then let others have it: no duplicates."""
        self._leaving = pids
        self._look_at = Instant(boot + LET_GO_POLL_MS)
        self._patience_until = Instant(boot + self._part_ms)
        self._state.inputs.append(Leaving(frozenset(pids)))

    def busy(self, pids: frozenset[int]) -> frozenset[int]:
        return self._state.engine.busy(pids)

    def _let_go(self, boot: Instant) -> None:
        if boot < self._look_at:
            return
        busy = self.busy(frozenset(self._leaving))
        if busy and boot < self._patience_until:
            self._look_at = Instant(boot + LET_GO_POLL_MS)
            return
        quiet = [pid for pid in self._leaving if pid not in busy]
        self._leaving = ()
        self._state.inputs.append(Leaving(frozenset()))  # what is still busy stays ours, and goes on
        self._drop(frozenset(quiet))
        self._ask("release", boot, (self._state.name, quiet))

    def _drop(self, pids: frozenset[int]) -> None:
        """These are not ours any more, nor is what was decided there."""
        self._writing.drop(pids)
        self._state.inputs.append(Dropped(pids))
        self._sending.drop(pids)
        for pid in pids:
            self._state.epochs.pop(pid, None)

    # --- starting anew ---

    def mark_lost(self, boot: Instant) -> None:
        """The mark says nothing any more: leave under the old name, and come back under a new one."""
        self._give_up(MarkLost(dict(self._state.epochs)), boot)

    def _give_up(self, why: Note, boot: Instant) -> None:
        """Everything will be forgotten, and nothing more is sent. Known outcomes are offered to the store first.

        Their commit carries the old name and the old epochs. Where no other worker has taken the partitions since, as
        after a short outage of the store, it is let through, and what was delivered is not sent a second time.
        """
        if self._parting is None:
            self._parting = why
            self._patience_until = Instant(boot + self._part_ms)
            self._state.lease_until = self._state.now(boot)
            self._state.inputs.append(LeaseSet(self._state.lease_until, self._state.share))
            self._part(boot)

    def _part(self, boot: Instant) -> None:
        """Forget everything and come back under a new name, unless something is still being written."""
        why = self._parting
        assert why is not None
        if not self._writing.is_idle and boot < self._patience_until:
            return
        self._state.notes.append(why)
        if isinstance(why, MarkLost):
            self._former.append(self._state.name)
        self._forget()
        self._due = boot

    def _forget(self) -> None:
        state = self._state
        self._drop(frozenset(state.epochs))
        state.inputs.append(StartedAnew())
        state.name = state.new_name()
        self._is_accounted = self._is_checked = False
        self._unchecked = None
        self._news.forget()
        self._parting = None
        self._taken = self._leaving = ()
        self._is_lost = True
