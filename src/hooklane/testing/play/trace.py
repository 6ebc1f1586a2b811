"""What is asked of the playground, and what it answers: the shapes that the API, the command line and files share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

EVENTS_MAX = 200
KEYS_MAX = 16
RATE_MAX = 200
SEED_MAX = 2**53 - 1
"""The largest whole number that JavaScript keeps."""

Chance = Annotated[float, msgspec.Meta(ge=0, le=1)]
Kind = Literal[
    "published",  # an event has its place in its lane
    "sent",  # a copy leaves the sender
    "copied",  # the network makes a second one of it
    "request_lost",
    "arrived",
    "applied",  # from here to `failed`: what one receiver did with the copy
    "duplicate",
    "stale",
    "busy",
    "failed",
    "crashed",  # the consumer died with the copy in its hands
    "answered",
    "ack_lost",
    "heard",  # the sender has the answer
    "timed_out",
    "acked",  # durable: the next event of the key may go
    "retry",  # durable: the head waits until `until`
    "dead",
    "stalled",  # a worker of the sender stands still
    "woke",
    "worker_crashed",  # a worker of the sender dies, as by kill -9
    "worker_restarted",
]
CrashPoint = Literal["anywhere", "before_work", "before_commit", "before_answer"]
"""Where the consumer dies: with nothing done, with the effect written and nothing after it, or before it answers."""
WorkerCrashPoint = Literal["anywhere", "before_send", "before_answer", "before_commit", "after_commit"]
"""Where a worker of the sender dies: the last two are after the 2xx, before and after that is durable."""
Receiver = Literal["naive", "check_then_mark", "delivered_at", "ours"]
RECEIVERS: tuple[Receiver, ...] = ("naive", "check_then_mark", "delivered_at", "ours")


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How often what goes wrong, and where; chances are per copy."""

    drop_request: Chance = 0.0
    drop_ack: Chance = 0.0
    duplicate: Chance = 0.0
    delay_ms: Annotated[int, msgspec.Meta(ge=0, le=5_000)] = 0
    """Added to each way, from 0 to twice this."""
    crash: Chance = 0.0
    """The consumer dies with a copy in its hands."""
    crash_at: CrashPoint = "anywhere"
    worker_crash: Chance = 0.0
    """A worker of the sender dies, once for an event at most, and is started again; the chance is per event."""
    worker_crash_at: WorkerCrashPoint = "anywhere"
    reorder_ms: Annotated[int, msgspec.Meta(ge=0, le=30_000)] = 0
    """The copy that the network makes arrives up to so much later."""


class Play(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One run that is asked for. Without *events* it is the scenario's own short story."""

    scenario: str = "four-events"
    seed: Annotated[int, msgspec.Meta(ge=0, le=SEED_MAX)] = 1
    events: Annotated[int, msgspec.Meta(ge=1, le=EVENTS_MAX)] | None = None
    keys: Annotated[int, msgspec.Meta(ge=1, le=KEYS_MAX)] | None = None
    rate: Annotated[int, msgspec.Meta(ge=1, le=RATE_MAX)] | None = None
    """Events published a second, in place of the pace of the story, or of 40 a second where there are many."""
    faults: Faults | None = None
    """In place of the scenario's own chances; what its story says of single events stays."""
    receivers: Annotated[tuple[Receiver, ...], msgspec.Meta(min_length=1, max_length=4)] = RECEIVERS


class Meter(msgspec.Struct, frozen=True):
    """What became of the events at one receiver."""

    sent: int
    """Events of which at least one copy left the sender."""
    once: int
    lost: int
    """Acknowledged, and never applied."""
    twice: int
    """Applied more than once."""
    out_of_order: int
    """Times that an event was applied after a later one of its key."""
    stale: int
    """Keys whose state at the end is older than the newest acknowledged event."""


class Tally(msgspec.Struct, frozen=True):
    """A meter so far: what can be known before the end."""

    once: int
    twice: int
    out_of_order: int


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened, *t* milliseconds after the first event was published."""

    t: float
    kind: Kind
    key: str | None = None
    seq: int | None = None
    try_: int | None = msgspec.field(default=None, name="try")
    status: int | None = None
    copy: int | None = None
    """Which copy on the wire: what left, arrived, was answered and heard has one number."""
    until: float | None = None
    """When what is on its way, or waits, is to be there."""
    type: str | None = None
    """Of an event that is published."""
    poison: bool = False
    """Handlers will fail on the event that is published."""
    receiver: Receiver | None = None
    tally: Tally | None = None
    """What *receiver* has applied so far."""


class Ledger(msgspec.Struct, frozen=True):
    """Where the events are at the end, at the sender: nothing is lost there."""

    delivered: int
    dead: int
    waiting: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run: the same request makes the same trace, to the last step."""

    scenario: str
    seed: int
    trace_hash: str
    end_ms: float
    events: int
    steps: Sequence[Step]
    meters: dict[str, Meter]
    ledger: Ledger


def hash_of(steps: Sequence[Step]) -> str:
    """What tells two traces apart, in any process."""
    return hashlib.sha256(msgspec.json.encode(steps)).hexdigest()[:16]
