"""What if a poll has missed something? All that is owed is read again, one partition at a time, and compared.

Each partition in turn, whatever the polls say, in at most a hundredth of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hooklane.core.engine import EndpointChanged, EndpointsGone, Swept
from hooklane.core.worker.effects import Missed
from hooklane.core.worker.state import WorkerState
from hooklane.model.clock import START, Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import LaneId, LaneRow

PART = 0.01
"""How much of the time may be spent on it."""
REST_MS_MIN = 500
"""From one partition to the next at least: a worker alone comes round in about two minutes."""


POLLS = 3
"""So many polls end before a look is believed: the last two of them began after it, so they have told all that it saw
and the first of them has had time to be acted upon."""


@dataclass(slots=True)
class Look:
    """What the store held at some time, and what we knew before; *polls* are still to end until it is believed."""

    worker: str
    pid: int
    epoch: int
    known: Mapping[str, Endpoint]
    began_at: Instant
    found: Sequence[Endpoint] | None = None
    """All endpoints, where they were read too."""
    rows: Sequence[LaneRow] = ()
    polls: int = POLLS


class Rounds:
    """Goes round the owned partitions, one at a time, with rests between."""

    def __init__(self, rest_ms_min: int = REST_MS_MIN, part: float = PART) -> None:
        self._rest_ms_min = rest_ms_min
        self._part = part
        self._last = -1
        self._due: Instant = START

    def next(self, now: Instant, owned: Collection[int]) -> int | None:
        """The partition to look at now; None while it is not time, or none is ours."""
        if now < self._due or not owned:
            return None
        self._last = min((pid for pid in owned if pid > self._last), default=min(owned))
        return self._last

    def looked(self, now: Instant, took_ms: float) -> None:
        """A look has ended, well or not; after a long one the rest is longer."""
        self._due = Instant(now + max(self._rest_ms_min, int(took_ms * (1 / self._part - 1))))


def unnoticed(
    found: Iterable[Endpoint], before: Mapping[str, Endpoint], known: Mapping[str, Endpoint]
) -> list[Endpoint]:
    """Which endpoints changed without any news of it? *found* was read after we knew *before*; now we know *known*.

    One that we have heard of since may be newer than what was read, so it is left as it is.
    """
    return [one for one in found if known.get(one.id) is before.get(one.id) and known.get(one.id) != one]


class Sweeping:
    """Looks for what no poll has told, while everything is well a hundredth of the time."""

    def __init__(self, state: WorkerState, rounds: Rounds) -> None:
        self._state = state
        self._rounds = rounds
        self._look: Look | None = None
        """The look that is under way."""
        self._looks: list[Look] = []

    def polled(self, boot: Instant, asked: Collection[LaneId]) -> None:
        """A poll has ended, and its news were told. Of the lanes in *asked* the store is being asked already."""
        if self._look is not None:
            return
        self._believe(asked)
        state = self._state
        pid = self._rounds.next(boot, state.epochs)
        if pid is None:
            return
        look = self._look = Look(state.name, pid, state.epochs[pid], self._endpoints(), boot)
        if pid == min(state.epochs):
            state.ask("endpoints", boot, ())
        else:
            self._ask_owed(look, boot)

    def _ask_owed(self, look: Look, boot: Instant) -> None:
        self._state.ask("owed", boot, (look.worker, {look.pid: look.epoch}))

    def endpoints_read(self, found: Sequence[Endpoint], boot: Instant) -> None:
        assert self._look is not None
        self._look.found = found
        self._ask_owed(self._look, boot)

    def owed_read(self, owed: Mapping[int, Sequence[LaneRow]], boot: Instant) -> None:
        look = self._look
        assert look is not None
        if look.pid in owed:
            look.rows = owed[look.pid]
            self._looks.append(look)
        self.ended(boot)

    def ended(self, boot: Instant) -> None:
        """The look is over, well or not; if not, there will be another."""
        assert self._look is not None
        self._rounds.looked(boot, boot - self._look.began_at)
        self._look = None

    def _believe(self, asked: Collection[LaneId]) -> None:
        """Tell of the looks that had time to be overtaken by news; what is still news then, polls have missed. Not so
        what is *asked* about: a poll has told of it, and an answer that is long on its way tells more than a look."""
        for look in self._looks:
            look.polls -= 1
        ripe = [look for look in self._looks if look.polls <= 0]
        self._looks = [look for look in self._looks if look.polls > 0]
        for look in ripe:
            if look.worker != self._state.name:
                continue  # of a time that is over
            rows = [row for row in look.rows if row.id not in asked]
            self._state.inputs.append(Swept(look.pid, look.epoch, rows))
            if look.found is None:
                continue
            known = self._endpoints()
            changed = unnoticed(look.found, look.known, known)
            if gone := look.known.keys() - {one.id for one in look.found}:
                self._state.inputs.append(EndpointsGone(gone))
            if changed:
                self._state.inputs.extend(EndpointChanged(one) for one in changed)
                self._state.notes.append(Missed(len(changed)))

    def _endpoints(self) -> dict[str, Endpoint]:
        return {endpoint_id: queue.endpoint for endpoint_id, queue in self._state.engine.queues.items()}
