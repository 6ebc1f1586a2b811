"""An engine on a bench: facts in, effects out, nothing in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hooklane.core.engine import (
    Committed,
    Effects,
    EndpointChanged,
    Engine,
    Fetched,
    HealthSeen,
    Input,
    LeaseSet,
    Loaded,
    Settled,
)
from hooklane.model.attempt import Send, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Timings
from hooklane.model.lane import Grown, LaneRow, LaneState

T0 = Instant(1_750_000_000_000)
TIMINGS = Timings(5.0)
LIMITS = ("in_flight_max_all", "lanes_max", "window_bytes_max")
"""What bounds the whole engine; everything else that a bench is given is a rule of its endpoint."""
TIMEOUT = NoAnswer(Failure.TIMEOUT, TIMINGS, sent=True)


def answer(status: int, **more: Any) -> Answer:
    return Answer(status, TIMINGS, **more)


def event(seq: int, key: str | None = "k", data: bytes = b"{}") -> Event:
    return Event(f"evt_{key}_{seq}", "order.created", key, data, T0)


def endpoint(id: str = "ep", **rules: Any) -> Endpoint:
    return Endpoint(**{"id": id, "url": "https://x.example", "created_at": T0, "backoff_ms": 1_000, **rules})


def row(lane: int = 1, *, pid: int = 0, head: int = 1, tail: int = 3, **more: Any) -> LaneRow:
    state = more.pop("state", LaneState.ACTIVE)
    acked = more.pop("acked", head - 1)
    return LaneRow(lane, pid, more.pop("endpoint_id", "ep"), f"k{lane}", head, tail, state, acked=acked, **more)


def grown(lane: int, seq: int, *, pid: int = 0, fed: bool = True, endpoint_id: str = "ep") -> Grown:
    return Grown(lane, pid, endpoint_id, f"k{lane}", seq, event(seq, f"k{lane}") if fed else None)


class Bench:
    """An engine that owns partition 0 under epoch 1, with one endpoint and a lease without an end."""

    def __init__(self, *rows: LaneRow, unclean: bool = False, epoch: int = 1, **limits: Any) -> None:
        rules = {name: limits.pop(name) for name in list(limits) if name not in LIMITS}
        if "in_flight_max_all" in limits:
            limits["in_flight_max"] = limits.pop("in_flight_max_all")
        self.engine = Engine(**limits)
        self.now = T0
        self.endpoint = endpoint(**rules)
        self.effects = self.step(
            LeaseSet(FOREVER), EndpointChanged(self.endpoint), Loaded(0, epoch, rows, unclean=unclean)
        )

    def step(self, *inputs: Input) -> Effects:
        self.effects = self.engine.step(self.now, inputs)
        return self.effects

    def later(self, ms: int) -> Effects:
        self.now = Instant(self.now + ms)
        return self.step()

    def fetch(self) -> Effects:
        """Read what the last step wanted to have read."""
        wants = self.effects.fetches
        items = [
            (want.lane_id, seq, event(seq, f"k{want.lane_id}"))
            for want in wants
            for seq in range(want.seq, want.seq + want.many)
        ]
        return self.step(Fetched(items, [want.lane_id for want in wants]))

    def share_health(self) -> Effects:
        """The store takes the turns of breakers that the last step wanted to have written."""
        turns = [replace(turn, by="w1") for turn in self.effects.health]
        return self.step(HealthSeen(turns, "w1", [turn.endpoint_id for turn in turns]))

    def answer(self, send: Send, result: Result | int = 200, roll: float = 0.0) -> list[Write]:
        """An attempt ends; what is to be made durable."""
        return self.step(Settled(send, answer(result) if isinstance(result, int) else result, roll)).writes

    def commit(self, *writes: Write, stale: bool = False, fenced: bool = False) -> Effects:
        lanes = frozenset(write.lane_id for write in writes) if stale else frozenset()
        return self.step(Committed(writes, frozenset({0}) if fenced else frozenset(), lanes))

    def settle(self, send: Send, result: Result | int = 200, roll: float = 0.0) -> Effects:
        """An attempt ends, and its outcome becomes durable; what follows from either."""
        writes = self.answer(send, result, roll)
        between = self.effects
        effects = self.commit(*writes)
        effects.sends[:0] = between.sends
        effects.fetches[:0] = between.fetches
        effects.health[:0] = between.health
        return effects
