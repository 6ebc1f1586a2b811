"""The shapes of answers: events, endpoints, lanes. The API's description is made of them, and tests use them."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hooklane.model.endpoint import EndpointState, OnDead, Operational, Order, Payload
from hooklane.model.health import BreakerState
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.model.tenant import TenantState

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
T = TypeVar("T")


class Shape(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Part of an answer: exactly these fields."""


class ListShape(Shape, Generic[T], kw_only=True):
    """A list; `next` is the cursor of its next page."""

    items: list[T]
    next: str | None


class QuotaShape(Shape, kw_only=True):
    """What a tenant may use; null is without a bound."""

    events_per_s: float | None
    endpoints: int | None
    bytes: int | None


class TenantShape(Shape, kw_only=True):
    id: str
    name: str
    state: TenantState
    quota: QuotaShape
    created_at: Time


class TenantWithLedger(TenantShape, kw_only=True):
    endpoints: int
    stored_bytes: int
    ledger: dict[str, int]


class Stamp(Shape, kw_only=True):
    endpoint: str
    seq: int | None


class PublishedEvent(Shape, kw_only=True):
    id: str
    type: str
    key: str | None
    lanes: list[Stamp]
    created_at: Time


class PublishedBatch(Shape, kw_only=True):
    events: list[PublishedEvent]


class DeliveryShape(Shape, kw_only=True):
    event: str
    endpoint: str
    key: str | None
    seq: int | None
    state: DeliveryState
    attempts: int
    next_at: Time | None
    reason: str | None
    dead_letter: str | None


class EventShape(Shape, kw_only=True):
    id: str
    type: str
    key: str | None
    created_at: Time
    replay_of: str | None
    deliveries: list[DeliveryShape]


class WholeEvent(EventShape, kw_only=True):
    data: Any


class ListedEvent(EventShape, kw_only=True):
    data: Any | UnsetType = UNSET


class AttemptLine(Shape, kw_only=True):
    """One attempt, as in the live stream."""

    id: str
    event: str
    endpoint: str
    key: str | None
    seq: int | None
    attempt: int
    attempts_max: int | None
    started_at: Time
    took_ms: float | None
    outcome: Literal["delivered", "retry", "dead"]
    status: int | None
    failure: str | None
    said: str | None
    next_at: Time | None
    type: str


class AttemptShape(AttemptLine, kw_only=True):
    """With what was sent and answered: `request_body` (its first 4,096 bytes), and of a failure heads and response."""

    detail: dict[str, Any]


class StoryLine(Shape, kw_only=True):
    """Something that happened to an event; what does not apply is null."""

    at: Time
    kind: Literal[
        "published", "waited", "try", "delivered", "dead", "skipped", "cancelled", "replayed", "noted", "receiver"
    ]
    endpoint: str | None
    endpoint_name: str | None
    seq: int | None
    for_seq: int | None
    ms: float | None
    status: int | None
    failure: str | None
    attempt: int | None
    next_at: Time | None
    said: str | None
    actor: str | None
    note: str | None


class Story(Shape, kw_only=True):
    event: str
    items: list[StoryLine]


class WhyDelivery(Shape, kw_only=True):
    endpoint: str
    state: DeliveryState
    why: str


class WhyEvent(Shape, kw_only=True):
    why: str
    deliveries: list[WhyDelivery]
    event: str | UnsetType = UNSET


class Why(Shape, kw_only=True):
    why: str


class KeyShape(Shape, kw_only=True):
    expires_at: Time | None
    public_key: str | None


class Breaker(Shape, kw_only=True):
    state: BreakerState
    until: Time | None


class EndpointStats(Shape, kw_only=True):
    """`success` (share of attempts answered 2xx) and `p95_ms` over an hour, `rate` a second over a minute or two."""

    success: float | None
    p95_ms: float | None
    backlog: int
    blocked: int
    rate: float


class BreakerChange(Shape, kw_only=True):
    at: Time
    state: BreakerState
    until: Time | None
    by: str


class BreakerShape(Breaker, kw_only=True):
    """The breaker and its changes of late, oldest first; `by` is the worker, or who closed it by hand."""

    changes: list[BreakerChange]


class HourOfEndpoint(Shape, kw_only=True):
    """By slot: attempts, and the state of the breaker that held most back; null is not known, or no endpoint yet."""

    endpoint: str
    breaker: list[BreakerState | None]
    delivered: list[int]
    failed: list[int]


class LastHour(Shape, kw_only=True):
    """The slots begin at `from`, one `step_s` after the other; the last one is not over yet."""

    from_: Time = msgspec.field(name="from")
    step_s: int
    as_of: Time
    items: list[HourOfEndpoint]


class EndpointShape(Shape, kw_only=True):
    """An endpoint; of its headers only the names are shown."""

    id: str
    url: str
    name: str
    state: EndpointState
    suspended: bool
    types: list[str]
    order: Order
    on_dead: OnDead
    payload: Payload
    operational: Operational
    headers: dict[str, str]
    rate_limit: float | None
    in_flight_max: int
    timeout_ms: int
    attempts_max: int
    backoff_ms: int
    backoff_cap_ms: int
    ca_pem: str | None
    secrets: list[KeyShape]
    breaker: Breaker
    created_at: Time
    secret_age_s: int
    paused_by: str | None
    paused_at: Time | None
    tls_expires_at: Time | None
    stats: EndpointStats


class EndpointWithSecret(EndpointShape, kw_only=True):
    """What the receiver verifies with: a shared secret, or the public half of a key pair."""

    secret: str | None
    public_key: str | None


class EndpointWithLedger(EndpointShape, kw_only=True):
    """The ledger is as of `as_of`."""

    ledger: dict[str, int]
    as_of: Time


class Exchange(Shape, kw_only=True):
    ok: bool
    status: int | None
    failure: str | None
    took_ms: float
    outcome: str | UnsetType | None = UNSET
    body: str | UnsetType = UNSET
    endpoint: str


class Tested(Exchange, kw_only=True):
    event: str


class Probed(Exchange, kw_only=True):
    reachable: bool


class LineDelivery(DeliveryShape, kw_only=True):
    """A delivery as it stands in the line of its lane."""

    type: str | None


class LaneShape(Shape, kw_only=True):
    endpoint: str
    endpoint_name: str
    key: str | None
    state: LaneState
    head: int
    tail: int
    waiting: int
    attempts: int
    next_at: Time | None
    since: Time | None
    reason: str | None
    dead_letter: str | None
    head_event: str | None
    head_type: str | None
    attempts_max: int | None
    breaker: BreakerState | None
    in_flight: bool
    settled: list[tuple[int, DeliveryState]]
    head_said: str | None
    deliveries: list[LineDelivery] | UnsetType = UNSET


class Board(ListShape[LaneShape], kw_only=True):
    """Lanes, and how many there are in each state (of the endpoint, where one is named; whatever `q` says)."""

    counts: dict[str, int]
    quiet: int
    as_of: Time


class ForecastTry(Shape, kw_only=True):
    """A coming attempt, and between which times it will be made."""

    try_: int = msgspec.field(name="try")
    from_: Time = msgspec.field(name="from")
    to: Time


class Between(Shape, kw_only=True):
    from_: Time = msgspec.field(name="from")
    to: Time


class Consumer(Shape, kw_only=True):
    """What the receiver has said about the newest events of the lane."""

    last_applied: int | None
    duplicates: int
    outcome: str | None


class WholeLane(LaneShape, kw_only=True):
    why: str
    forecast: list[ForecastTry]
    dies_between: Between | None
    consumer: Consumer
