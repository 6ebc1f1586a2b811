"""The shapes of answers: the overview, figures over time, and health."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from hooklane.model.endpoint import EndpointState
from hooklane.server.shapes import Shape, Time


class EndpointName(Shape, kw_only=True):
    id: str
    name: str
    state: EndpointState


class Rates(Shape, kw_only=True):
    """Events a second over the last minute."""

    in_: float = msgspec.field(name="in")
    delivered: float


class Quantiles(Shape, kw_only=True):
    """Milliseconds; null where nothing was counted."""

    p50: float | None
    p95: float | None
    p99: float | None


class TopReason(Shape, kw_only=True):
    endpoint: str
    endpoint_name: str
    reason: str
    count: int


class OldestLane(Shape, kw_only=True):
    """The lane that is blocked, or else retrying, for the longest time."""

    endpoint: str
    endpoint_name: str
    key: str
    state: str
    head: int
    since: Time | None
    reason: str | None
    said: str | None
    """What the endpoint answered to the last attempt of its head."""
    waiting: int


class WorkerShape(Shape, kw_only=True):
    id: str
    partitions: int


class Mark(Shape, kw_only=True):
    """Something that was done at a time, for the axis of a chart."""

    at: Time
    kind: str
    subject: str
    text: str


class OneSeries(Shape, kw_only=True):
    m: str
    by: str
    values: list[float | None]


class SeriesShape(Shape, kw_only=True):
    """Each series has a value for each slot, from `from` on; null where nothing was measured."""

    from_: Time = msgspec.field(name="from")
    step_s: int
    as_of: Time
    series: list[OneSeries]
    marks: list[Mark]


class Overview(Shape, kw_only=True):
    ledger: dict[str, int]
    lanes: dict[str, int]
    oldest_pending_at: Time | None
    store_bytes: int
    endpoints: list[EndpointName]
    verdict: str
    features: list[str]
    waiting_behind_blocked: int
    as_of: Time
    range: str
    rates: Rates
    published: int
    delivered: int
    first_try: float | None
    eventual: float | None
    attempt_ms: Quantiles
    delivery_ms: Quantiles
    duplicates: int
    stale: int
    top_reasons: list[TopReason]
    oldest: OldestLane | None
    workers: list[WorkerShape]


class Health(Shape, kw_only=True):
    """`ok`, `ready` or `unavailable`; where it is unavailable, what of it."""

    status: str
    store: str | UnsetType = UNSET
    relay: str | UnsetType = UNSET
