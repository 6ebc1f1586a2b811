"""What one receiver applied, compared with what it should have."""

from __future__ import annotations

from collections import Counter

from hooklane.testing.play.trace import Meter, Tally

Place = tuple[str, int]
"""Key and seq."""


class Meters:
    """Counts the effects of one receiver as they happen."""

    def __init__(self) -> None:
        self._times: Counter[Place] = Counter()
        self._newest: dict[str, int] = {}
        self._state: dict[str, int] = {}
        self._out_of_order = 0

    def applied(self, key: str, seq: int) -> None:
        """The application's state of *key* is now that of event *seq*."""
        self._times[key, seq] += 1
        self._out_of_order += seq < self._newest.get(key, 0)
        self._newest[key] = max(seq, self._newest.get(key, 0))
        self._state[key] = seq

    def tally(self) -> Tally:
        times = self._times.values()
        return Tally(sum(many == 1 for many in times), sum(many > 1 for many in times), self._out_of_order)

    def total(self, sent: set[Place], acked: set[Place]) -> Meter:
        """The meter of a run in which the sender *sent* and *acked* these events."""
        now = self.tally()
        truth: dict[str, int] = {}
        for key, seq in acked:
            truth[key] = max(seq, truth.get(key, 0))
        return Meter(
            sent=len(sent),
            once=now.once,
            lost=sum(not self._times[place] for place in acked),
            twice=now.twice,
            out_of_order=now.out_of_order,
            stale=sum(self._state.get(key, 0) < seq for key, seq in truth.items()),
        )
