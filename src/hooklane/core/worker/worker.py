"""What does a worker do next? Ownership, news, writing, reading, sending and sweeping around one engine.

The shell tells what has happened (`answered`, `failed`, `fed`, `wake`, `nudge`, `stop`, and attempts that ended by
`inputs`), then asks for a `turn`: everything that is to be done by now. Time and chance are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hooklane.core.engine import Draining, EndpointChanged, Engine, HealthSeen, Input
from hooklane.core.worker.effects import Call, Effects, Missed
from hooklane.core.worker.news import News
from hooklane.core.worker.ownership import Ownership
from hooklane.core.worker.reading import BreakerTurns, Fetches, Reloads
from hooklane.core.worker.sending import Sending
from hooklane.core.worker.state import WorkerState
from hooklane.core.worker.sweeping import Rounds, Sweeping
from hooklane.core.worker.witness import Witness
from hooklane.core.worker.writing import Writing
from hooklane.model.attempt import Send, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.lane import Grown, LaneId
from hooklane.model.owning import CommitReport, Span
from hooklane.model.owning import News as Told

LEASE_MS = 8_000
"""How long the partitions of a worker that has died on another host stay without an owner, at the most."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker is made of, so that one part can be exchanged for a wrong one."""

    ownership: type[Ownership] = Ownership
    news: type[News] = News
    writing: type[Writing] = Writing
    sending: type[Sending] = Sending
    sweeping: type[Sweeping] = Sweeping
    witness: type[Witness] = Witness


class Worker:
    """One worker of the sender: it owns partitions for a while and delivers what is owed there."""

    def __init__(
        self,
        engine: Engine,
        new_name: Callable[[], str],
        *,
        skew_ms: int,
        is_gone: Callable[[str], bool] = lambda _: False,
        lease_ms: int = LEASE_MS,
        poll_ms: int = 250,
        grace_ms: int = 10_000,
        rounds: Rounds | None = None,
        parts: Parts | None = None,
    ) -> None:
        """*new_name* makes a name that no worker has had; *is_gone* says whether a name's worker is surely gone."""
        parts = parts or Parts()
        state = self.state = WorkerState(engine, new_name, skew_ms)
        self.engine = engine
        self.inputs: list[Input] = state.inputs
        """What the engine will be told in the next turn; attempts that ended are put here as they are."""
        self.news = parts.news(state, poll_ms)
        self.writing = parts.writing(state)
        self.witness = parts.witness()
        self.sending = parts.sending(state, self.witness)
        self.ownership = parts.ownership(state, self.news, self.writing, self.sending, self.witness, lease_ms, is_gone)
        self.sweeping = parts.sweeping(state, rounds or Rounds())
        self.fetches = Fetches(state)
        self.reloads = Reloads(state)
        self.breaker_turns = BreakerTurns(state)
        self._grace_ms = grace_ms
        self._grace_until: Instant = FOREVER
        self._is_stopping = False
        self.is_cut_off = False
        """What was in flight when the worker was stopped has had its grace: its outcome stays unknown."""
        self._recorded: list[tuple[Sequence[Write], CommitReport]] = []

    @property
    def name(self) -> str:
        """Under which it is in the roster now; none is used twice."""
        return self.state.name

    @property
    def epochs(self) -> dict[int, int]:
        return self.state.epochs

    @property
    def is_ready(self) -> bool:
        """Whether partitions were owned and loaded once. A call that fails before that ends the process."""
        return self.ownership.is_ready

    @property
    def has_loaded(self) -> bool:
        """Whether all partitions that it took are loaded."""
        return self.ownership.has_loaded

    # --- what has happened ---

    def answered(self, call: Call, result: Any, boot: Instant) -> None:
        """The store has answered *call*."""
        match call.verb:
            case "commit":
                if self.writing.answered(call, result):
                    self._recorded.append((call.args[2], result))
            case "fetch":
                self.fetches.answered(call, result)
            case "reload":
                if self.ownership.is_right(call):
                    self.reloads.answered(call, result)
                else:
                    self.reloads.failed(boot)
            case "note_health":
                self.breaker_turns.answered(call, result)
            case "poll":
                self._polled(call, result, boot)
            case "endpoints":
                self.sweeping.endpoints_read(result, boot)
            case "owed":
                self.sweeping.owed_read(result, boot)
            case _:
                self.ownership.answered(call, result, boot)

    def failed(self, call: Call, boot: Instant, roll: float) -> None:
        """What became of *call* is unknown; *roll* in [0, 1) is the chance for the wait before it is repeated."""
        match call.verb:
            case "commit":
                self.writing.failed(call, boot, roll)
            case "fetch":
                self.fetches.failed(boot)
            case "reload":
                self.reloads.failed(boot)
            case "note_health":
                self.breaker_turns.failed(boot)
            case "poll":
                self.news.ended(boot)
            case "endpoints" | "owed":
                self.sweeping.ended(boot)
            case _:
                self.ownership.failed(call, boot)

    def _polled(self, call: Call, told: Told, boot: Instant) -> None:
        if not self.news.answered(call, told, boot):
            if call.worker == self.state.name:
                self.ownership.mark_lost(boot)
            return
        self.ownership.set_time(told.now, call.asked_at, boot)
        inputs = self.state.inputs
        inputs.extend(EndpointChanged(endpoint) for endpoint in told.endpoints)
        inputs.extend(told.grown)
        inputs.append(HealthSeen(told.health))
        self.reloads.add(told.recovered)
        self.sweeping.polled(boot, self.reloads.asked)

    def fed(self, grown: Sequence[Grown], span: Span | None) -> None:
        """News of this process's own publishes, straight after their commit."""
        self.state.inputs.extend(grown)
        self.witness.published(grown)
        self.news.fed(span)

    def wake(self, lane_ids: Sequence[LaneId]) -> None:
        """Lanes were recovered: look at them again."""
        self.reloads.add(lane_ids)

    def nudge(self) -> int:
        return self.news.nudge()

    def stop(self, boot: Instant) -> None:
        """Send nothing more; what is in flight may end and become durable, for a while."""
        self._is_stopping = True
        self._grace_until = Instant(boot + self._grace_ms)
        self.state.inputs.append(Draining())

    # --- what is to be done ---

    def turn(self, boot: Instant) -> Effects:
        """Everything that is to be done by now."""
        state = self.state
        self.ownership.go_on(boot)
        self.news.go_on(boot)
        found = self.engine.step(state.now(boot), state.inputs)
        state.inputs.clear()
        self.writing.add(found.writes)
        self.sending.add(found.sends)
        self.fetches.add(found.fetches)
        self.reloads.add(found.reloads)
        self.breaker_turns.add(found.health)
        if found.missed:
            state.notes.append(Missed(found.missed))
        self.writing.go_on(boot, at_once=self._is_stopping or self.ownership.waits_for_outcomes)
        self.fetches.go_on(boot)
        self.reloads.go_on(boot)
        self.breaker_turns.go_on(boot)
        effects = Effects(state.calls, self.sending.go_on(boot), state.notes, self._recorded)
        state.calls, state.notes, self._recorded = [], [], []
        effects.has_more = bool(effects.sends) and self.sending.has_more
        effects.wake_at = min(
            state.boot_at(found.wake_at),
            self.ownership.wake_at(),
            self.news.wake_at(),
            self.writing.wake_at(),
            self.fetches.wake_at(),
            self.reloads.wake_at(),
            self.breaker_turns.wake_at(),
            self._grace_until,
        )
        if self._is_stopping:
            self._drain(effects, boot)
        return effects

    def next_sends(self, boot: Instant) -> list[Send]:
        """The next few deliveries, where a turn has said that there are more; `has_more` says it again."""
        return self.sending.next(boot)

    def _drain(self, effects: Effects, boot: Instant) -> None:
        is_quiet = self.engine.in_flight == 0 and self.writing.is_idle
        self.is_cut_off = boot >= self._grace_until and not is_quiet
        effects.is_drained = is_quiet or self.is_cut_off
