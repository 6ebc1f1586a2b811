"""Which rule of `core/worker/` or `core/engine/` could be deleted without any test turning red? Each is deleted here.

`python -m tests.units.core.deletions` prints the table of docs/explain/proof.md; with a number it makes that one
deletion in its own process and prints the first test that turns red.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tests.support.pace import scaled_s
from tests.support.tree import ROOT

CORE = ROOT / "src/hooklane/core"
CPU_S_MAX = 10.0
TESTS = {
    "worker": (
        "test_worker_ownership",
        "test_worker_news",
        "test_worker_writing",
        "test_worker_waking",
        "test_worker_witness",
    ),
    "engine": (
        "test_engine_order",
        "test_engine_news",
        "test_engine_limits",
        "test_engine_suspects",
        "test_engine_sweeps",
        "test_clock_jumps",
        "promises.sending.test_turns",
    ),
}


MEASURING = ("test_a_lane_is_forgotten_as_soon_after_many_others_as_after_few",)


class Deletion(NamedTuple):
    """In *file* (of `core/worker/`, unless it names its folder), *text* becomes *instead*: a rule less."""

    rule: str
    file: str
    text: str
    instead: str = ""

    @property
    def folder(self) -> str:
        return self.file.partition("/")[0] if "/" in self.file else "worker"

    @property
    def path(self) -> Path:
        return CORE / self.folder / self.file.rpartition("/")[2]


OWN, NEWS, WRITE, SEND, READ, SWEEP, WORK, STATE, WITNESS = (
    f"{name}.py"
    for name in ("ownership", "news", "writing", "sending", "reading", "sweeping", "worker", "state", "witness")
)
OUT, HEADS, ENGINE, QUEUE, LANE, WINDOW, SUSPECTS = (
    f"engine/{name}.py"
    for name in ("outcomes", "heads", "engine", "endpoint_queue", "owned_lane", "window", "suspects")
)
DELETIONS = [
    # --- ownership ---
    Deletion("one step after the other", OWN, "if self._call is not None or self._parting is", "if self._parting is"),
    Deletion("an answer to a former name is ignored", OWN, "if call.worker == self._state.name and self", "if self"),
    Deletion("a failure under a former name is ignored", OWN, "if call.worker != self._state.name:", "if False:"),
    Deletion(
        "what was not loaded is not kept",
        OWN,
        "        self._taken = ()\n        self._due = Instant(",
        "        self._due = Instant(",
    ),
    Deletion("a rest after a failed renewal", OWN, " + (0 if self._is_lost else self._part_ms)"),
    Deletion("a name that may have joined is left", OWN, "self._former.append(self._state.name)  # it", "pass  # it"),
    Deletion("former names are left first", OWN, "self._to_leave = list(self._former)", "self._to_leave = []"),
    Deletion("an expired lease is not revived", OWN, "        if lease is None:", "        if False:"),
    Deletion("a lease counts from its asking", OWN, "self._leased_at = call.asked_at", "self._leased_at = boot"),
    Deletion("sending ends before the lease", OWN, "int(self._lease_ms * SAFE_PART)", "self._lease_ms"),
    Deletion("the share follows the partitions", OWN, "self._set_lease(boot)  # our share", "pass  # our share"),
    Deletion("the first time is no jump", OWN, "if by and self.is_ready:", "if by:"),
    Deletion("a lease follows the store's clock", OWN, "state.lease_until = Instant(state.lease_until + by)", "pass"),
    Deletion(
        "the engine hears of a jump",
        OWN,
        "            state.inputs.insert(0 if by > 0 else len(state.inputs), Jumped(by))\n",
    ),
    Deletion("a jump forward is kept in mind", OWN, "Forward(by, Instant(store_now - by), after)", "NO_JUMP"),
    Deletion(
        "until the next renewal", OWN, "        self._forward = NO_JUMP\n        self._leased(", "        self._leased("
    ),
    Deletion("what waited goes on waiting", OWN, "[kept_waiting(row, self._forward) for row in", "[row for row in"),
    Deletion("who was robbed starts anew", OWN, "if owned < ours:", "if False:"),
    Deletion("what we do not work on is given back", OWN, "elif owned > ours:", "elif False:"),
    Deletion("no more than the fair share", OWN, "elif ours > share:", "elif False:"),
    Deletion(
        "nothing starts in what is given back", OWN, "self._state.inputs.append(Leaving(frozenset(pids)))", "pass"
    ),
    Deletion("what is busy is waited for", OWN, "if busy and boot < self._patience_until:", "if False:"),
    Deletion("but not for ever", OWN, "if busy and boot < self._patience_until:", "if busy:"),
    Deletion("what is busy stays ours", OWN, "if pid not in busy]", "]"),
    Deletion("and goes on", OWN, "self._state.inputs.append(Leaving(frozenset()))", "pass"),
    Deletion("lost partitions lose their writes", OWN, "        self._writing.drop(pids)\n"),
    Deletion("the engine hears of a loss", OWN, "        self._state.inputs.append(Dropped(pids))\n"),
    Deletion("lost partitions lose their sends", OWN, "        self._sending.drop(pids)\n"),
    Deletion(
        "a lost partition is not ours", OWN, "            self._state.epochs.pop(pid, None)\n", "            pass\n"
    ),
    Deletion(
        "a name without a mark is left",
        OWN,
        "            self._former.append(self._state.name)\n        self._forget()",
        "            pass\n        self._forget()",
    ),
    Deletion(
        "what is known is offered first",
        OWN,
        "if not self._writing.is_idle and boot < self._patience_until:",
        "if False:",
    ),
    Deletion(
        "but not for long",
        OWN,
        "if not self._writing.is_idle and boot < self._patience_until:",
        "if not self._writing.is_idle:",
    ),
    Deletion("nothing is sent meanwhile", OWN, "            self._state.lease_until = self._state.now(boot)\n"),
    Deletion("who is gone is not waited for", OWN, "        if gone:", "        if False:"),
    Deletion("nobody thinks itself gone", OWN, "other != name and self._is_gone(other)", "self._is_gone(other)"),
    Deletion("a few partitions are loaded first", OWN, "self._taken[: self._load_most]})", "self._taken})"),
    Deletion("a long load does not forget the lease", OWN, "if self._taken and boot < self._due:", "if self._taken:"),
    Deletion(
        "what is not loaded yet is no loss",
        OWN,
        "        if not self._taken:  # a long load",
        "        if True:  # a long load",
    ),
    Deletion("breakers are counted anew", OWN, "        state.inputs.append(StartedAnew())\n"),
    Deletion("no name is used twice", OWN, "        state.name = state.new_name()\n"),
    Deletion("the mark is forgotten", OWN, "        self._news.forget()\n"),
    Deletion("plans are forgotten", OWN, "        self._taken = self._leaving = ()\n"),
    # --- news ---
    Deletion("loads wait for polls", NEWS, "        return self._call is None\n", "        return True\n"),
    Deletion("polls wait for loads", NEWS, "return not self.is_loading", "return True"),
    Deletion(
        "a load that failed lets polls go on",
        OWN,
        "        self._news.is_loading = False\n        if call.worker !=",
        "        if call.worker !=",
    ),
    Deletion("later loads keep the older mark", NEWS, "        if self.mark is None:\n", "        if True:\n"),
    Deletion("spans are forgotten", NEWS, "        self._spans.clear()\n"),
    Deletion("one poll at a time", NEWS, "if self._call is not None or not (", "if not ("),
    Deletion("a nudge is a poll at once", NEWS, "not (self._nudged or boot >= self._due)", "not (boot >= self._due)"),
    Deletion("one nudge is one poll", NEWS, "self._nudged = False  # one", "pass  # one"),
    Deletion("news for a former name are ignored", NEWS, "if call.worker != self._state.name:", "if False:"),
    Deletion("news count while their mark holds", NEWS, "        if not self.holds(told):\n            return False\n"),
    Deletion("the mark moves", NEWS, "        self.mark, self.session = told.mark, told.session\n"),
    Deletion("spans pass after a poll", NEWS, "self._begun\n        self._pass()\n", "self._begun\n"),
    Deletion("spans pass where all is ours", NEWS, " and len(self._state.epochs) == PARTITIONS"),
    Deletion("no span passes during a poll", NEWS, "            if self._call is None:\n", "            if True:\n"),
    # --- writing ---
    Deletion("what may wait is told apart", WRITE, "write.outcome.at - write.at >= PATIENT_MS", "True"),
    Deletion("one commit at a time", WRITE, "if self._again_at == FOREVER:", "if False:"),
    Deletion(
        "a repeat takes its time", WRITE, "                if boot >= self._again_at:\n", "                if True:\n"
    ),
    Deletion(
        "the same epochs again",
        WRITE,
        "_, epochs, writes = call.args",
        "writes, epochs = call.args[2], dict(self._state.epochs)",
    ),
    Deletion(
        "no repeat for a former name",
        WRITE,
        "            if call.worker == self._state.name:\n",
        "            if True:\n",
    ),
    Deletion("what may wait waits", WRITE, "if not at_once and many < FEW and boot < self._linger_until:", "if False:"),
    Deletion("but not for ever", WRITE, " and boot < self._linger_until"),
    Deletion("a few need not wait", WRITE, " and many < FEW"),
    Deletion("only a few join a commit", WRITE, "max(FEW, many // 16)", "many"),
    Deletion("a long line goes in large parts", WRITE, "max(FEW, many // 16)", "FEW"),
    Deletion("a stop waits for nothing that may wait", WORK, "at_once=self._is_stopping or ", "at_once="),
    Deletion(
        "nor does what gives all up", OWN, "bool(self._leaving) or self._parting is not None", "bool(self._leaving)"
    ),
    Deletion("nor what gives some back", OWN, "bool(self._leaving) or self._parting", "self._parting"),
    Deletion("a commit has a bound", WRITE, "room = COMMIT_MAX - len(patient)", "room = len(self._line)"),
    Deletion(
        "urgent writes are dropped",
        WRITE,
        "        self._line = [write for write in self._line if write.pid not in pids]\n",
    ),
    Deletion(
        "patient writes are dropped",
        WRITE,
        "        self._patient = [write for write in self._patient if write.pid not in pids]\n",
    ),
    Deletion(
        "a report to a former name is ignored",
        WRITE,
        "        if call.worker != self._state.name:\n            return False\n",
    ),
    Deletion(
        "a fence holds for its epoch", WRITE, "if self._state.epochs.get(pid) == call.epochs.get(pid):", "if True:"
    ),
    Deletion(
        "fenced partitions are not ours",
        WRITE,
        "                self._state.epochs.pop(pid, None)\n",
        "                pass\n",
    ),
    # --- sending ---
    Deletion("held back when the lease is over", SEND, "        if self.is_held_back(boot):\n            return []\n"),
    Deletion("a few at a time", SEND, "self._line[:SENDS_AT_ONCE], self._line[SENDS_AT_ONCE:]", "self._line, []"),
    Deletion("no turn sends beside the shell", SEND, "[] if self.has_more else self.next(boot)", "self.next(boot)"),
    Deletion(
        "lost sends are not sent",
        SEND,
        "        self._line = [send for send in self._line if send.pid not in pids]\n",
    ),
    Deletion(
        "and give their places back",
        SEND,
        "self._state.inputs.extend(Settled(send, never, 0.0) for send in void)",
        "pass",
    ),
    # --- reading ---
    Deletion(
        "one read of a kind at a time", READ, "if self._items and not self._batch and boot", "if self._items and boot"
    ),
    Deletion("a rest after a failed read", READ, "        self._due = Instant(boot + REST_MS)\n"),
    Deletion("a failed read is made again", READ, "        self._items.extend(self._batch)\n"),
    Deletion("reads have a bound", READ, "self._items[:BATCH_MAX], self._items[BATCH_MAX:]", "self._items, []"),
    Deletion("rows count for their epochs", READ, "(batch,), dict(self._state.epochs))", "(batch,))"),
    Deletion("a breaker's turn has a name", READ, "replace(turn, by=self._state.name)", "turn"),
    # --- sweeping ---
    Deletion("one look at a time", SWEEP, "        if self._look is not None:\n            return\n"),
    Deletion("a look is believed late", SWEEP, "if look.polls <= 0]", "]"),
    Deletion("a look of a former name is ignored", SWEEP, "if look.worker != self._state.name:", "if False:"),
    Deletion("a look at what is ours", SWEEP, "        if look.pid in owed:\n", "        if True:\n"),
    Deletion("endpoints once in a round", SWEEP, "if pid == min(state.epochs):", "if False:"),
    Deletion(
        "unnoticed endpoints are told",
        SWEEP,
        "self._state.inputs.extend(EndpointChanged(one) for one in changed)",
        "pass",
    ),
    Deletion("and counted", SWEEP, "                self._state.notes.append(Missed(len(changed)))\n"),
    # --- the whole ---
    Deletion(
        "a lost mark starts anew", WORK, "                self.ownership.mark_lost(boot)\n", "                pass\n"
    ),
    Deletion("a poll tells the time", WORK, "        self.ownership.set_time(told.now, call.asked_at, boot)\n"),
    Deletion("recovered lanes are read again", WORK, "        self.reloads.add(told.recovered)\n"),
    Deletion("a poll leads to a sweep", WORK, "        self.sweeping.polled(boot, self.reloads.asked)\n"),
    Deletion(
        "what a sweep found is counted",
        WORK,
        "            state.notes.append(Missed(found.missed))\n",
        "            pass\n",
    ),
    Deletion("who is stopped sends no more", WORK, "        self.state.inputs.append(Draining())\n"),
    Deletion("a drain waits for attempts", WORK, "self.engine.in_flight == 0 and "),
    Deletion("a drain waits for commits", WORK, " and self.writing.is_idle"),
    Deletion("a drain has an end", WORK, "boot >= self._grace_until and not is_quiet", "False"),
    Deletion(
        "small differences are not followed",
        STATE,
        "if not asked - SLACK_MS <= store_now <= answered + SLACK_MS:",
        "if True:",
    ),
    # --- the engine: outcomes ---
    Deletion(
        "a late answer moves no lane",
        OUT,
        "if lane is None or lane.flight is not send or lane.phase is not Phase.FLYING:",
        "if lane is None:",
    ),
    Deletion("what never happened is no attempt", OUT, "if never_happened(result):", "if False:"),
    Deletion("a gap is not skipped by policy", OUT, "case Dead(gap=False) if", "case Dead() if"),
    Deletion("a 410 holds the endpoint at once", OUT, "case Gone() if queue.is_open:", "case Gone() if False:"),
    Deletion(
        "a late report takes nothing away",
        OUT,
        "if committed.epochs is not None and committed.epochs != self._heads.epochs:",
        "if False:",
    ),
    Deletion("what is fenced is dropped", OUT, "        if fenced:\n", "        if False:\n"),
    Deletion(
        "a 410 that was not written is taken back", OUT, "if isinstance(outcome, Gone) and (send", "if False and (send"
    ),
    Deletion(
        "a commit counts for its own attempt",
        OUT,
        "if lane is None or lane.flight is not send or lane.phase is not Phase.SETTLING:",
        "if lane is None:",
    ),
    Deletion("what was stale is read again", OUT, "if lane.again or lane.id in committed.stale:", "if lane.again:"),
    Deletion(
        "what a person recovered is read again",
        OUT,
        "if lane.again or lane.id in committed.stale:",
        "if lane.id in committed.stale:",
    ),
    Deletion(
        "an announcement counts for its head",
        OUT,
        "if lane is None or write.seq != lane.head or write.rev != lane.rev:",
        "if lane is None:",
    ),
    Deletion(
        "an announcement counts in its phase",
        OUT,
        "if lane.phase is not (Phase.STARTING if isinstance(write, Start) else Phase.SETTLING):",
        "if False:",
    ),
    Deletion("a retry has its time while it is being written", OUT, "lane.next_at = settlement.outcome.at", "pass"),
    Deletion(
        "a failed attempt counts",
        OUT,
        "                lane.state = after(lane.state, Move.FAIL)\n"
        "                lane.attempts = settlement.send.attempt\n",
        "                lane.state = after(lane.state, Move.FAIL)\n",
    ),
    Deletion(
        "a dead head stops its lane",
        OUT,
        "lane.state = after(lane.state, Move.DIE)",
        "lane.state = after(lane.state, Move.FAIL)",
    ),
    Deletion(
        "an announced head of a deleted endpoint is cancelled",
        OUT,
        "if self._heads.queues[lane.endpoint_id].endpoint.state is EndpointState.CANCELLING:",
        "if False:",
    ),
    # --- the engine: heads ---
    Deletion("a dead head is not sent", HEADS, "elif lane.state is LaneState.BLOCKED:", "elif False:"),
    Deletion("a head waits for its time", HEADS, "elif lane.next_at > now:", "elif False:"),
    Deletion(
        "what a deleted endpoint is owed is cancelled",
        HEADS,
        "if queue.endpoint.state is EndpointState.CANCELLING:\n            self.cancel(lane)\n        elif lane.st",
        "if lane.st",
    ),
    Deletion(
        "what was decided for a lost partition is void",
        HEADS,
        "self.effects.writes = [write for write in self.effects.writes if write.pid not in dropped.pids]",
        "pass",
    ),
    Deletion("a lost partition has no epoch", HEADS, "            self.epochs.pop(pid, None)\n", "            pass\n"),
    Deletion(
        "the lanes of a lost partition are forgotten",
        HEADS,
        "if lane.pid in dropped.pids]:\n            self.forget(lane)\n",
        "if lane.pid in dropped.pids]:\n            pass\n",
    ),
    Deletion(
        "nothing is sent when the lease is over",
        HEADS,
        "if self.draining or now >= self.lease_until:",
        "if self.draining:",
    ),
    Deletion(
        "nothing is sent while draining",
        HEADS,
        "if self.draining or now >= self.lease_until:",
        "if now >= self.lease_until:",
    ),
    Deletion(
        "no more in flight than there are places",
        HEADS,
        "return self.in_flight + self._starting < self.in_flight_max and",
        "return",
    ),
    Deletion("no more bytes in flight than fit", HEADS, "max and self.flying_bytes < FLYING_BYTES_MAX", "max"),
    Deletion(
        "what has moved on is not started",
        HEADS,
        "if lane.phase is Phase.READY and not self._start(now, queue, lane):",
        "if not self._start(now, queue, lane):",
    ),
    Deletion("what leaves is parked", HEADS, "if lane.pid in self.leaving:", "if False:"),
    Deletion("a doubted head is announced", HEADS, "if lane.unsure or lane.starts:", "if False:"),
    Deletion("a head that kills is given up", HEADS, "        if is_lost:\n", "        if False:\n"),
    Deletion("reading has a bound", HEADS, "if queue.fetching >= 4 * queue.endpoint.in_flight_max:", "if False:"),
    Deletion("only what is waited for is kept", HEADS, " and lane.phase is Phase.FETCHING and seq >= lane.head:", ":"),
    Deletion(
        "what is not there is looked for", HEADS, "if lane.bodies is None or lane.head not in lane.bodies:", "if False:"
    ),
    Deletion(
        "a redelivery is never skipped by policy",
        HEADS,
        "return queue.skips_dead and not is_redelivery(lane.id)",
        "return queue.skips_dead",
    ),
    # --- the engine: what it is told ---
    Deletion(
        "after a takeover a first event may be old",
        ENGINE,
        "now if loaded.epoch == 1 else Instant(now + NEWS_LATE_MS)",
        "now",
    ),
    Deletion(
        "after an unclean takeover heads are doubted",
        ENGINE,
        "unsure=loaded.unclean and row.next_at <= now",
        "unsure=False",
    ),
    Deletion(
        "what was not due is not doubted",
        ENGINE,
        "unsure=loaded.unclean and row.next_at <= now",
        "unsure=loaded.unclean",
    ),
    Deletion(
        "news of others' partitions are ignored",
        ENGINE,
        "        if epoch is None:\n            return  # not ours",
        "        if epoch is None:\n            epoch = 0  # not ours",
    ),
    Deletion(
        "a head comes from the store alone",
        ENGINE,
        "if grown.seq != 1 or grown.event is None or now < self._sure_at[grown.pid]:",
        "if grown.event is None:",
    ),
    Deletion("a tail only rises", ENGINE, "lane.tail = max(lane.tail, grown.seq)", "lane.tail = grown.seq"),
    Deletion(
        "rows of another epoch are void",
        ENGINE,
        " or (reloaded.epochs is not None and reloaded.epochs.get(row.pid) != epoch)",
        "",
    ),
    Deletion("what is in flight is not read over", ENGINE, "elif lane.phase in _BUSY:", "elif False:"),
    Deletion("an older row is not believed", ENGINE, "elif self._is_older(row, lane):", "elif False:"),
    Deletion(
        "a sweep counts for its epoch", ENGINE, "if self._heads.epochs.get(swept.pid) != swept.epoch:", "if False:"
    ),
    Deletion(
        "a lane is remembered while late news may come", ENGINE, "if 0 <= now - since < NEWS_LATE_MS:", "if False:"
    ),
    Deletion(
        "what is being written is busy",
        ENGINE,
        "_BUSY: Final = (Phase.FLYING, Phase.SETTLING, Phase.STARTING)",
        "_BUSY: Final = (Phase.FLYING, Phase.STARTING)",
    ),
    Deletion(
        "what waits goes on waiting when the clock is set", ENGINE, "lane.next_at = Instant(lane.next_at + by)", "pass"
    ),
    Deletion(
        "a deleted endpoint's lanes are cancelled at once",
        ENGINE,
        "if endpoint.state is EndpointState.CANCELLING:",
        "if False:",
    ),
    Deletion("others may have known the new clock before", OWN, "Instant(store_now - (boot - told_at))", "store_now"),
    Deletion(
        "what the store has not moved yet is not loaded",
        OWN,
        "            self._due = boot\n        if by < 0:",
        "            pass\n        if by < 0:",
    ),
    Deletion("nor believed when it was read before", OWN, "return call.asked_at >= self._kept_at", "return True"),
    # --- rules that no test noticed on 2026-11-19 ---
    Deletion("a load tells which endpoints are ill", OWN, "        state.inputs.append(HealthSeen(load.health))\n", ""),
    Deletion(
        "later loads begin with a few too",
        OWN,
        "        self._taken = taken\n        self._load_most = LOADED_FIRST\n",
        "        self._taken = taken\n",
    ),
    Deletion("woken for what gathers", WORK, "            self.writing.wake_at(),\n", ""),
    Deletion("woken to read events again", WORK, "            self.fetches.wake_at(),\n", ""),
    Deletion("woken to read lanes again", WORK, "            self.reloads.wake_at(),\n", ""),
    Deletion("woken to tell of a breaker again", WORK, "            self.breaker_turns.wake_at(),\n", ""),
    Deletion("woken when the grace is over", WORK, "            self._grace_until,\n", ""),
    Deletion("woken for the next poll", WORK, "            self.news.wake_at(),\n", ""),
    Deletion("woken for the lease", WORK, "            self.ownership.wake_at(),\n", ""),
    Deletion("woken for the engine", WORK, "            state.boot_at(found.wake_at),\n", ""),
    Deletion(
        "a long look is followed by a long rest",
        SWEEP,
        "max(self._rest_ms_min, int(took_ms * (1 / self._part - 1)))",
        "self._rest_ms_min",
    ),
    Deletion(
        "a short look by a rest all the same",
        SWEEP,
        "max(self._rest_ms_min, int(took_ms * (1 / self._part - 1)))",
        "int(took_ms * (1 / self._part - 1))",
    ),
    Deletion(
        "what was heard since is newer than a look", SWEEP, "known.get(one.id) is before.get(one.id) and known", "known"
    ),
    Deletion(
        "a look that has ended is followed by a rest",
        SWEEP,
        "        self._rounds.looked(boot, boot - self._look.began_at)\n",
        "",
    ),
    Deletion("what is sent again is no place", WITNESS, "if not is_redelivery(send.lane_id):", "if True:"),
    Deletion(
        "what has no place is asked for while young",
        WITNESS,
        " if one.key is not None or now - one.created_at < LOOSE_MS]",
        "]",
    ),
    Deletion("each place is asked for once", WITNESS, "dict.fromkeys(self._places)", "self._places"),
    Deletion(
        "what is read after a jump forward is not moved",
        OWN,
        "state.inputs.insert(0 if by > 0 else len(state.inputs), Jumped(by))",
        "state.inputs.append(Jumped(by))",
    ),
    Deletion(
        "what was read before a jump back is moved",
        OWN,
        "state.inputs.insert(0 if by > 0 else len(state.inputs), Jumped(by))",
        "state.inputs.insert(0, Jumped(by))",
    ),
    Deletion("the quiet round a suspect is as long", ENGINE, "        self._heads.suspects.jump(by)\n", ""),
    Deletion(
        "idle lanes are remembered as long however the clock is set",
        ENGINE,
        "(lane_id, Instant(since + by)) for lane_id, since in self",
        "(lane_id, since) for lane_id, since in self",
    ),
    Deletion(
        "what is done is not kept",
        ENGINE,
        "if grown.event is not None and grown.seq >= lane.head:",
        "if grown.event is not None:",
    ),
    Deletion(
        "a recovery is not forgotten for an older row",
        ENGINE,
        "lane.again = lane.again or row.rev > lane.rev",
        "lane.again = row.rev > lane.rev",
    ),
    Deletion(
        "a stopped lane keeps nothing in memory",
        HEADS,
        "            lane.phase = Phase.STOPPED\n            self.window.drop(lane)",
        "            lane.phase = Phase.STOPPED",
    ),
    Deletion(
        "what is forgotten is idle no more",
        HEADS,
        "        self.idle.pop(lane.id, None)\n        self.window.drop(lane)",
        "        self.window.drop(lane)",
    ),
    Deletion("what was lost is not leaving any more", HEADS, "        self.leaving -= dropped.pids\n", ""),
    Deletion(
        "an alarm is for who still waits", HEADS, "elif what.phase is Phase.WAITING and what.next_at <= now:", "else:"
    ),
    Deletion(
        "who got a place may wait for the next",
        HEADS,
        "            queue = self._placeless.popleft()\n            queue.waits_for_place = False\n",
        "            queue = self._placeless.popleft()\n",
    ),
    Deletion(
        "and so of a tenant",
        HEADS,
        "            queue = tenant.waiting.popleft()\n            queue.waits_for_place = False\n",
        "            queue = tenant.waiting.popleft()\n",
    ),
    Deletion("and the gap of a rate limit", QUEUE, "        self._spaced_at += by\n", ""),
    Deletion("lanes that jumped are loaded again", OWN, "if any(lane.next_seq for lane in lost):", "if False:"),
    Deletion("what was lost without order has no jump", OWN, "if any(lane.next_seq for lane in lost):", "if lost:"),
    Deletion(
        "what was sent is asked for at each start",
        OWN,
        "        self._is_accounted = self._is_checked = False\n",
        "        self._is_checked = False\n",
    ),
    Deletion(
        "and once more after each first load",
        OWN,
        "        self._is_accounted = self._is_checked = False\n",
        "        self._is_accounted = False\n",
    ),
    Deletion(
        "an unchecked load is forgotten",
        OWN,
        "        self._unchecked = None\n        self._news",
        "        self._news",
    ),
    Deletion("what was published is remembered", WORK, "        self.witness.published(grown)\n", ""),
    Deletion("woken to give back", OWN, "return self._look_at if self._leaving else self._due", "return self._due"),
    Deletion("nothing is asked for when none is free", OWN, "elif ours < share and roster.free:", "elif ours < share:"),
    Deletion("repeats of commits are spread by chance", WRITE, "int(wait_ms * (0.5 + roll))", "wait_ms"),
    Deletion("it is known which poll was heard", NEWS, "        self.heard = self._begun\n", ""),
    Deletion("never is no time to wake", STATE, " if at < FOREVER else FOREVER", ""),
    Deletion(
        "an announcement that was stale is read again",
        OUT,
        "                    if lane.again or lane.id in committed.stale:\n"
        "                        self._heads.reload(lane)\n"
        "                    elif isinstance(write, Start):",
        "                    if lane.again:\n"
        "                        self._heads.reload(lane)\n"
        "                    elif isinstance(write, Start):",
    ),
    Deletion(
        "and one of a lane that a person recovered",
        OUT,
        "                    if lane.again or lane.id in committed.stale:\n"
        "                        self._heads.reload(lane)\n"
        "                    elif isinstance(write, Start):",
        "                    if lane.id in committed.stale:\n"
        "                        self._heads.reload(lane)\n"
        "                    elif isinstance(write, Start):",
    ),
    Deletion("what the database lost is not sent", HEADS, "if event is not None and is_lost(event):", "if False:"),
    Deletion(
        "a recovered lane that was put off is read again",
        OUT,
        "        if lane.again:\n"
        "            self._heads.reload(lane)\n"
        "        else:\n"
        "            self._heads.place(now, lane)\n",
        "        self._heads.place(now, lane)\n",
    ),
    Deletion("a 410 holds only what is open", OUT, "case Gone() if queue.is_open:", "case Gone():"),
    Deletion(
        "the next event has no wait",
        LANE,
        "        self.attempts = 0\n        self.next_at = START\n",
        "        self.attempts = 0\n",
    ),
    Deletion(
        "doubt outlives a look", LANE, "row.starts > 0 or (self.unsure and row.head == self.head)", "row.starts > 0"
    ),
    Deletion(
        "a death counts its attempt",
        OUT,
        "                lane.state = after(lane.state, Move.DIE)\n"
        "                lane.attempts = settlement.send.attempt\n",
        "                lane.state = after(lane.state, Move.DIE)\n",
    ),
    Deletion("a head is kept however full the memory is", WINDOW, "if not always and self._bytes", "if self._bytes"),
    Deletion("and asked to be", HEADS, "always=seq == lane.head", "always=False"),
    Deletion(
        "the events in memory have a bound",
        WINDOW,
        "        if not always and self._bytes + size > self._bytes_max:\n            return\n",
        "",
    ),
    Deletion(
        "each of them is counted once",
        WINDOW,
        "        if seq not in lane.bodies:\n            self._bytes += size\n            lane.bodies[seq] = event\n",
        "        self._bytes += size\n        lane.bodies[seq] = event\n",
    ),
    Deletion(
        "what is skipped is not kept",
        OUT,
        "                self._heads.window.drop_head(lane)\n                lane.advance(None)\n",
        "                lane.advance(None)\n",
    ),
    Deletion(
        "nor what is cancelled", OUT, "        self._heads.window.drop(lane)\n        lane.head", "        lane.head"
    ),
    Deletion(
        "an announced head flies only while we may send", HEADS, "has_room = may_send and self", "has_room = self"
    ),
    Deletion(
        "an announcement that ends makes room",
        HEADS,
        "        self._starting -= 1\n        self.turns.push(queue)\n",
        "        self._starting -= 1\n",
    ),
    Deletion("who has acquired renews", OWN, "if self._is_lost and not self._taken:", "if self._is_lost:"),
    Deletion(
        "what is given up is not revived",
        OWN,
        " and self._parting is None:\n            self._then",
        ":\n            self._then",
    ),
    Deletion(
        "who has not joined keeps its name",
        OWN,
        'not (call.verb == "leave" or (call.verb == "account_for" and self._unchecked is None))',
        'call.verb != "leave"',
    ),
    Deletion(
        "a name whose load was void is left",
        OWN,
        "from before these lanes have jumped\n            self._former.append(self._state.name)\n",
        "from before these lanes have jumped\n",
    ),
    Deletion(
        "who owns nothing is in the roster too",
        OWN,
        "        self._is_lost = False\n        self.is_ready = True\n",
        "        self.is_ready = True\n",
    ),
    Deletion(
        "nothing taken is nothing to load",
        OWN,
        "        if not taken:\n            self._rest(boot)\n",
        "",
    ),
    Deletion(
        "another store has its own rules",
        OWN,
        "known = {} if self._news.mark is None else state.engine.queues",
        "known = state.engine.queues",
    ),
    Deletion("the last owner may have died", OWN, "rows, one.unclean))", "rows, False))"),
    Deletion(
        "what is busy is looked at now and then",
        OWN,
        "            self._look_at = Instant(boot + LET_GO_POLL_MS)\n            return",
        "            return",
    ),
    Deletion(
        "a part of the load is not the whole", OWN, "return self.is_ready and not self._taken", "return self.is_ready"
    ),
    Deletion(
        "what waits for a read wakes nobody",
        READ,
        "return self._due if self._items and not self._batch else FOREVER",
        "return self._due if self._items else FOREVER",
    ),
    Deletion(
        "what waits to be asked about is no news",
        READ,
        "frozenset(self._items) | frozenset(self._batch)",
        "frozenset(self._batch)",
    ),
    Deletion(
        "a turn of a breaker is that of its name",
        READ,
        "HealthSeen(result, call.worker, [",
        "HealthSeen(result, self._state.name, [",
    ),
    Deletion("who owns nothing has a share", STATE, "max(1, len(self.epochs))", "len(self.epochs)"),
    Deletion("nor those of a clock that is behind", STATE, "asked - SLACK_MS <=", "asked <="),
    Deletion("the places remembered have a bound", WITNESS, "deque(maxlen=places_max)", "deque()"),
    Deletion("who was quiet in time is not cut off", WORK, " and not is_quiet\n", "\n"),
    Deletion(
        "a failure is one repeat",
        WRITE,
        "        self._again_at = FOREVER\n\n    def failed",
        "\n    def failed",
    ),
    Deletion(
        "what is not repeated is over",
        WRITE,
        "            self._call = None  # the lease",
        "            pass  # the lease",
    ),
    Deletion(
        "what has landed is in flight no more",
        HEADS,
        "        lane.flight = None\n        self.suspects.release(lane)\n        if not",
        "        self.suspects.release(lane)\n        if not",
    ),
    Deletion(
        "what is parked is cancelled with its endpoint",
        ENGINE,
        "(Phase.READY, Phase.WAITING, Phase.STOPPED, Phase.PARKED)",
        "(Phase.READY, Phase.WAITING, Phase.STOPPED)",
    ),
    Deletion(
        "groups go before one alone",
        SUSPECTS,
        "        while self._has_groups() and self.may_go(self._groups[0], now):\n"
        "            yield self._groups.popleft()\n"
        "        while self._alone and",
        "        while self._has_groups() and not self._alone and self.may_go(self._groups[0], now):\n"
        "            yield self._groups.popleft()\n"
        "        while self._alone and",
    ),
    Deletion(
        "an alarm is no other's",
        HEADS,
        "what.phase is Phase.WAITING and what.next_at <= now",
        "what.phase is Phase.WAITING",
    ),
    Deletion(
        "an alarm that was set is known after a jump",
        QUEUE,
        "        self.alarm_at = Instant(self.alarm_at + by)\n",
        "",
    ),
    # --- rules that no test noticed when every mutant was run ---
    Deletion(
        "nothing is decided before who is gone is expired",
        OWN,
        '            self._ask("expire", boot, (gone,))\n            return\n',
        '            self._ask("expire", boot, (gone,))\n',
    ),
    Deletion("no more is taken than is lacked", OWN, "(name, share - ours)", "(name, share)"),
    Deletion("who has its share takes no more", OWN, "elif ours < share and roster.free:", "elif roster.free:"),
    Deletion(
        "nothing is begun while all is given up",
        OWN,
        "if self._call is not None or self._parting is not None:",
        "if self._call is not None:",
    ),
    Deletion("who owns nothing yet has not loaded", OWN, "self.is_ready and not self._taken", "not self._taken"),
    Deletion(
        "what was read at a renewal is believed", OWN, "        if self._kept_at == FOREVER:\n", "        if True:\n"
    ),
    Deletion("an endpoint that was found is not gone", SWEEP, " - {one.id for one in look.found}"),
    Deletion("lanes whose head is unknown are read", WORK, "        self.reloads.add(found.reloads)\n"),
    Deletion("who finds an endpoint ill tells", WORK, "        self.breaker_turns.add(found.health)\n"),
    Deletion(
        "and tells again where that failed",
        WORK,
        '            case "note_health":\n                self.breaker_turns.failed(boot)\n',
    ),
    Deletion(
        "what was published before the first lease is asked for",
        OWN,
        "        self._is_accounted = False\n",
        "        self._is_accounted = True\n",
    ),
    Deletion("who is not stopped is not drained", WORK, "        if self._is_stopping:\n", "        if True:\n"),
]


class Patched(Loader, MetaPathFinder):
    """Imports one module without one of its rules."""

    def __init__(self, deletion: Deletion) -> None:
        self._path = deletion.path
        self._name = f"hooklane.core.{deletion.folder}.{self._path.stem}"
        source = self._path.read_text()
        assert deletion.text in source, f"{deletion.file} does not contain {deletion.text!r}"
        self._source = source.replace(deletion.text, deletion.instead, 1)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, str(self._path), "exec"), module.__dict__)


def _too_long(*_: object) -> None:
    raise TimeoutError("the test does not end")


def _is_plain_test(one: object) -> bool:
    """Whether it is a test that can be called as it is, without parameters or fixtures, and measures no time: on a
    busy machine that would turn red whatever is deleted."""
    if not getattr(one, "__name__", "").startswith("test_") or not callable(one) or one.__name__ in MEASURING:
        return False
    return hasattr(one, "hypothesis") or not inspect.signature(one).parameters


def first_red(deletion: Deletion) -> str:
    """The first test that fails without the rule; only for a process in which no worker was imported yet."""
    sys.meta_path.insert(0, Patched(deletion))
    signal.signal(signal.SIGVTALRM, _too_long)
    for name in TESTS[deletion.folder]:
        module = importlib.import_module(f"tests.{name}" if "." in name else f"tests.units.core.{name}")
        for test in [one for one in vars(module).values() if _is_plain_test(one)]:
            signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S_MAX)
            try:
                test()
            except Exception:
                return f"{name.rpartition('.')[2]}.py::{test.__name__}"
    return ""


def caught_by(number: int) -> str:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.units.core.deletions", str(number)]
    plain = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=scaled_s(300))
    return done.stdout.strip() if done.returncode == 0 else f"!!! {done.stderr[-300:]}"


def main() -> None:
    if len(sys.argv) > 1:
        print(first_red(DELETIONS[int(sys.argv[1])]))
        return
    for number, deletion in enumerate(DELETIONS):
        print(f"| {number + 1} | `{deletion.file}` | {deletion.rule} | `{caught_by(number)}` |", flush=True)


if __name__ == "__main__":
    main()
