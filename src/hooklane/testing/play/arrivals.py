"""What reaches a consumer in a trace, in order: for tests and for real receivers, which get the same copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hooklane.testing.play.consumer import BESIDE_MS
from hooklane.testing.play.trace import Step, Trace


@dataclass(frozen=True, slots=True)
class Arrival:
    """One copy of an event as it comes out of the network."""

    key: str
    seq: int
    attempt: int
    type: str
    is_poison: bool
    ack_lost: bool
    """The sender never learns what was answered."""
    t: float

    @property
    def data(self) -> dict[str, Any]:
        """What the event says, as in the simulation."""
        return {"order": self.key, "n": self.seq, **({"poison": True} if self.is_poison else {})}


def arrivals(trace: Trace) -> list[list[Arrival]]:
    """The copies of *trace*; those of one event that meet at the consumer stand together."""
    published = {(one.key, one.seq): one for one in trace.steps if one.kind == "published"}
    unheard = {one.copy for one in trace.steps if one.kind == "ack_lost"}
    groups: list[list[Arrival]] = []
    for one in trace.steps:
        if one.kind != "arrived":
            continue
        arrival = _arrival(one, published[one.key, one.seq], one.copy in unheard)
        last = groups[-1][-1] if groups else None
        if last is not None and (last.key, last.seq) == (arrival.key, arrival.seq) and arrival.t - last.t < BESIDE_MS:
            groups[-1].append(arrival)
        else:
            groups.append([arrival])
    return groups


def _arrival(step: Step, published: Step, ack_lost: bool) -> Arrival:
    assert step.key is not None
    assert step.seq is not None
    return Arrival(
        step.key, step.seq, step.try_ or 1, published.type or "", published.poison, ack_lost=ack_lost, t=step.t
    )
