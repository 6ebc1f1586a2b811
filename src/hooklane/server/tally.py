"""What has happened to attempts, in numbers: counted in one process and added up in another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hooklane.core.figures import SECONDS
from hooklane.model.attempt import Delivered, Settlement, outcome_word
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.exchange import Answer
from hooklane.model.message import Verdict
from hooklane.model.redelivery import is_redelivery
from hooklane.telemetry.deliveries import Fenced, Happening, Lost, Missed, Recorded

REASONS_MAX = 50
"""Reasons told apart of one endpoint; what fails for yet another one is counted as `other`."""
_VERDICTS = frozenset(str(verdict) for verdict in Verdict)
"""What a receiver may say that it did; any other word is not counted, or a stranger could fill the memory."""


class Spread:
    """How many took how long: one count for each bound of `SECONDS`, and one for what took longer."""

    __slots__ = ("counts", "total_s")

    def __init__(self, counts: Sequence[int] | None = None, total_s: float = 0.0) -> None:
        self.counts = [0] * (len(SECONDS) + 1) if counts is None else list(counts)
        self.total_s = total_s

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total_s += seconds

    def absorb(self, other: Spread) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total_s += other.total_s


class EndpointTally:
    """What has happened at one endpoint."""

    __slots__ = ("attempt", "delivery", "first", "outcomes", "reasons", "said", "tenant")

    def __init__(self, tenant: str = DEFAULT_TENANT) -> None:
        self.tenant = tenant
        self.outcomes: dict[str, int] = {}
        self.first = 0
        """Delivered by the first attempt."""
        self.attempt = Spread()
        self.delivery = Spread()
        self.reasons: dict[str, int] = {}
        """Why attempts failed."""
        self.said: dict[str, int] = {}
        """What the receiver says that it did (`hooklane-outcome`)."""

    def settled(self, one: Settlement) -> None:
        outcome, result, send = one.outcome, one.result, one.send
        word = outcome_word(outcome)
        self.outcomes[word] = self.outcomes.get(word, 0) + 1
        if result is not None:
            self.attempt.add(result.timings.total_ms / 1000)
            if isinstance(result, Answer) and result.outcome in _VERDICTS:
                self.said[result.outcome] = self.said.get(result.outcome, 0) + 1
        if isinstance(outcome, Delivered):
            # A redelivery says nothing about how long its event took to arrive.
            if not is_redelivery(send.lane_id):
                self.first += send.attempt == 1
                self.delivery.add(max(0, one.at - send.event.created_at) / 1000)
        else:
            reason = outcome.reason.partition(":")[0]
            if reason not in self.reasons and len(self.reasons) >= REASONS_MAX:
                reason = "other"
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def absorb(self, other: EndpointTally) -> None:
        self.tenant = other.tenant
        for mine, theirs in (
            (self.outcomes, other.outcomes),
            (self.reasons, other.reasons),
            (self.said, other.said),
        ):
            for word, many in theirs.items():
                mine[word] = mine.get(word, 0) + many
        self.first += other.first
        self.attempt.absorb(other.attempt)
        self.delivery.absorb(other.delivery)


class Tally:
    """The counts of a relay since this tally was begun, endpoint by endpoint."""

    __slots__ = ("endpoints", "fenced", "lost", "missed")

    def __init__(self) -> None:
        self.endpoints: dict[str, EndpointTally] = {}
        self.fenced = 0
        self.missed = 0
        self.lost = 0

    @property
    def attempts(self) -> dict[str, dict[str, int]]:
        """Of each endpoint, by outcome."""
        return {endpoint_id: one.outcomes for endpoint_id, one in self.endpoints.items()}

    @property
    def delivery(self) -> Spread:
        """From publish to ack, over all endpoints."""
        return summed(one.delivery for one in self.endpoints.values())

    @property
    def attempt(self) -> Spread:
        """One attempt, over all endpoints."""
        return summed(one.attempt for one in self.endpoints.values())

    def listen(self, happening: Happening) -> None:
        """The relay's listener."""
        match happening:
            case Recorded(settlements=settlements):
                endpoints = self.endpoints
                for one in settlements:
                    endpoint = one.send.endpoint
                    counted = endpoints.get(endpoint.id)
                    if counted is None:
                        counted = endpoints[endpoint.id] = EndpointTally(endpoint.tenant)
                    counted.settled(one)
            case Fenced(pids=pids):
                self.fenced += len(pids)
            case Missed(many=many):
                self.missed += many
            case Lost(many=many):
                self.lost += many
            case _:
                pass  # queued and sent events are counted when they end

    def part(self, endpoints: Iterable[str]) -> Tally:
        """What was counted of *endpoints*, which is not here any more then."""
        part = Tally()
        part.endpoints = {one: self.endpoints.pop(one) for one in endpoints if one in self.endpoints}
        return part

    def absorb(self, other: Tally) -> None:
        """Add what was counted elsewhere."""
        for endpoint_id, counted in other.endpoints.items():
            self.endpoints.setdefault(endpoint_id, EndpointTally(counted.tenant)).absorb(counted)
        self.fenced += other.fenced
        self.missed += other.missed
        self.lost += other.lost

    def as_value(self) -> dict[str, Any]:
        """For JSON; `tally_of` reads it."""
        return {
            "endpoints": {
                endpoint_id: {
                    "tenant": one.tenant,
                    "outcomes": one.outcomes,
                    "first": one.first,
                    "attempt": [one.attempt.counts, one.attempt.total_s],
                    "delivery": [one.delivery.counts, one.delivery.total_s],
                    "reasons": one.reasons,
                    "said": one.said,
                }
                for endpoint_id, one in self.endpoints.items()
            },
            "fenced": self.fenced,
            "missed": self.missed,
            "lost": self.lost,
        }


def summed(spreads: Iterable[Spread]) -> Spread:
    total = Spread()
    for spread in spreads:
        total.absorb(spread)
    return total


def tally_of(value: Mapping[str, Any]) -> Tally:
    """What `as_value` wrote."""
    tally = Tally()
    for endpoint_id, told in value["endpoints"].items():
        one = tally.endpoints[endpoint_id] = EndpointTally(told["tenant"])
        one.outcomes, one.reasons, one.said, one.first = told["outcomes"], told["reasons"], told["said"], told["first"]
        one.attempt, one.delivery = Spread(*told["attempt"]), Spread(*told["delivery"])
    tally.fenced, tally.missed, tally.lost = value["fenced"], value["missed"], value["lost"]
    return tally
