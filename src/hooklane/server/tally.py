"""What has happened to attempts, in numbers: counted in one process and added up in another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from hooklane.model.attempt import Dead, Delivered, Gone, Retry, Settlement
from hooklane.model.redelivery import is_redelivery
from hooklane.telemetry.deliveries import Fenced, Happening, Missed, Recorded

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400)
_WORDS = {Delivered: "delivered", Retry: "retry", Dead: "dead", Gone: "retry"}


class Spread:
    """How many took how long: one count for each bound of `SECONDS`, and one for what took longer."""

    __slots__ = ("counts", "total_s")

    def __init__(self, counts: Sequence[int] | None = None, total_s: float = 0.0) -> None:
        self.counts = [0] * (len(SECONDS) + 1) if counts is None else list(counts)
        self.total_s = total_s

    def add(self, seconds: Sequence[float]) -> None:
        counts = self.counts
        for value in seconds:
            counts[bisect_left(SECONDS, value)] += 1
        self.total_s += sum(seconds)

    def absorb(self, other: Spread) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total_s += other.total_s


class Tally:
    """The counts of a relay since this tally was begun."""

    __slots__ = ("attempt", "attempts", "delivery", "fenced", "missed")

    def __init__(self) -> None:
        self.attempts: dict[str, dict[str, int]] = {}
        """Of each endpoint, by outcome."""
        self.delivery = Spread()
        self.attempt = Spread()
        self.fenced = 0
        self.missed = 0

    def listen(self, happening: Happening) -> None:
        """The relay's listener."""
        match happening:
            case Recorded(settlements=settlements):
                self._settled(settlements)
            case Fenced(pids=pids):
                self.fenced += len(pids)
            case Missed(many=many):
                self.missed += many
            case _:
                pass  # queued and sent events are counted when they end

    def absorb(self, other: Tally) -> None:
        """Add what was counted elsewhere."""
        for endpoint_id, outcomes in other.attempts.items():
            mine = self.attempts.setdefault(endpoint_id, {})
            for word, many in outcomes.items():
                mine[word] = mine.get(word, 0) + many
        self.delivery.absorb(other.delivery)
        self.attempt.absorb(other.attempt)
        self.fenced += other.fenced
        self.missed += other.missed

    def as_value(self) -> dict[str, Any]:
        """For JSON; `tally_of` reads it."""
        return {
            "attempts": self.attempts,
            "delivery": [self.delivery.counts, self.delivery.total_s],
            "attempt": [self.attempt.counts, self.attempt.total_s],
            "fenced": self.fenced,
            "missed": self.missed,
        }

    def _settled(self, settlements: Sequence[Settlement]) -> None:
        self.delivery.add(
            [
                max(0, settlement.at - settlement.send.event.created_at) / 1000
                for settlement in settlements
                # A redelivery says nothing about how long its event took to arrive.
                if isinstance(settlement.outcome, Delivered) and not is_redelivery(settlement.send.lane_id)
            ]
        )
        self.attempt.add([one.result.timings.total_ms / 1000 for one in settlements if one.result is not None])
        attempts = self.attempts
        for one in settlements:
            endpoint_id, word = one.send.endpoint.id, _WORDS[type(one.outcome)]
            outcomes = attempts.get(endpoint_id)
            if outcomes is None:
                outcomes = attempts[endpoint_id] = {}
            outcomes[word] = outcomes.get(word, 0) + 1


def tally_of(value: Mapping[str, Any]) -> Tally:
    """What `as_value` wrote."""
    tally = Tally()
    tally.attempts = value["attempts"]
    tally.delivery, tally.attempt = Spread(*value["delivery"]), Spread(*value["attempt"])
    tally.fenced, tally.missed = value["fenced"], value["missed"]
    return tally
