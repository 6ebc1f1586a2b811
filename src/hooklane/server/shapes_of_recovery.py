"""The shapes of answers: dead letters, the inbox, plans, jobs, the audit log and health."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from hooklane.model.endpoint import EndpointState, Order
from hooklane.server.shapes import Shape, Time


class HandlingShape(Shape, kw_only=True):
    handler: str
    status: str
    attempts: int
    next_at: Time | None
    error: str | None


class WholeHandling(HandlingShape, kw_only=True):
    leased_until: Time | None
    settled_at: Time | None
    key: str | None
    seq: int | None
    prev_seq: int | None
    traceback: str | None


class DeadLetterShape(Shape, kw_only=True):
    """Of a sender (`endpoint`) or of an inbox (`source`, `handlers`)."""

    id: str
    side: str
    event: str
    type: str
    endpoint: str | None
    key: str | None
    seq: int | None
    attempts: int
    reason: str
    died_at: Time
    waiting: int | None
    note: str
    assignee: str | UnsetType = UNSET
    endpoint_name: str | UnsetType = UNSET
    said: str | UnsetType | None = UNSET
    source: str | UnsetType = UNSET
    account: str | UnsetType = UNSET
    handlers: list[HandlingShape] | UnsetType = UNSET


class CauseShape(Shape, kw_only=True):
    """Dead letters of one endpoint that died for one reason: how many events they hold back, on how many keys."""

    endpoint: str
    endpoint_name: str
    reason: str
    letters: int
    keys: int
    holds_back: int
    first_at: Time
    last_at: Time


class Causes(Shape, kw_only=True):
    items: list[CauseShape]
    next: None
    as_of: Time


class NamedValue(Shape, kw_only=True):
    name: str
    value: str


class RowShape(Shape, kw_only=True):
    id: str
    source: str
    account: str
    event_id: str
    type: str
    key: str | None
    seq: int | None
    status: str
    attempts: int
    copies: int
    received_at: Time
    next_at: Time | None
    error: str | None
    handlers: list[HandlingShape]


class HandlerBreaker(Shape, kw_only=True):
    handler: str
    state: str


class SourceShape(Shape, kw_only=True):
    """A source. What only the process of the inbox knows is null where that is another one (`live` false)."""

    source: str
    live: bool
    received_per_s: float
    received: int
    applied: int
    duplicate: int
    stale: int
    failed: int
    dead: int
    owed: int
    rejected: dict[str, int] | None
    handler_p95_ms: float | None
    breakers: list[HandlerBreaker] | None
    retention_s: int | None
    sender_retries_s: int | None
    warning: str | None
    oldest_at: Time | None


class Sources(Shape, kw_only=True):
    items: list[SourceShape]
    next: None
    as_of: Time


class Receipt(Shape, kw_only=True):
    id: str
    received_at: Time
    status: str


class WholeRow(RowShape, kw_only=True):
    handlers: list[WholeHandling]  # type: ignore[assignment]
    variant: str
    reason: str | None
    prev_seq: int | None
    event_time: Time | None
    delivery_id: str | None
    headers: list[NamedValue]
    purged: bool
    payload: Any
    payload_encoding: str | None
    first_receipt: Receipt | None
    stored_seq: int | None
    incoming_seq: int | None


class WholeDeadLetter(DeadLetterShape, kw_only=True):
    """With the payload; of an inbox also with all that is kept of the row."""

    handlers: list[WholeHandling] | UnsetType = UNSET  # type: ignore[assignment]
    data: Any | UnsetType = UNSET
    event_id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    copies: int | UnsetType = UNSET
    received_at: Time | UnsetType = UNSET
    next_at: Time | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET
    variant: str | UnsetType = UNSET
    reason: str | None  # type: ignore[assignment]
    prev_seq: int | UnsetType | None = UNSET
    event_time: Time | UnsetType | None = UNSET
    delivery_id: str | UnsetType | None = UNSET
    headers: list[NamedValue] | UnsetType = UNSET
    purged: bool | UnsetType = UNSET
    payload: Any | UnsetType = UNSET
    payload_encoding: str | UnsetType | None = UNSET


class RecoveryShape(Shape, kw_only=True):
    """What was released: the lane of a sender, or so many handlings of an inbox's row."""

    id: str
    endpoint: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    seq: int | UnsetType | None = UNSET
    released: int | UnsetType | None = UNSET
    side: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    event_id: str | UnsetType = UNSET
    replayed: int | UnsetType = UNSET
    dry_run: bool | UnsetType = UNSET
    skipped: int | UnsetType = UNSET


class RowCount(Shape, kw_only=True):
    source: str
    handler: str | None
    status: str
    rows: int
    oldest_at: Time


class InboxStats(Shape, kw_only=True):
    store: str | None
    statuses: dict[str, int]
    sources: dict[str, dict[str, int]]
    dead: int
    owed: int
    oldest_owed_at: Time | None
    lag_ms: int
    counts: list[RowCount]


class PlanCounts(Shape, kw_only=True):
    members: int
    keys: int
    refused: int


class RefusedMember(Shape, kw_only=True):
    id: str
    why: str


class KeptPlan(Shape, kw_only=True):
    id: str
    op: str
    state: str
    job: str | None
    digest: str
    created_at: Time
    expires_at: Time
    filter: dict[str, Any]
    counts: PlanCounts
    refused: list[RefusedMember]


class KeyOfPlan(Shape, kw_only=True):
    endpoint: str
    key: str | None
    members: int


class ReleasedEvent(Shape, kw_only=True):
    seq: int
    event: str
    type: str
    data_excerpt: str


class Release(Shape, kw_only=True):
    """What is never delivered, and what will be sent instead: where to, in which order, and what the receiver sees."""

    endpoint: str
    endpoint_name: str
    url: str
    order: Order | None
    key: str | None
    skips: int
    skipped: ReleasedEvent | None
    sees: str
    released: list[ReleasedEvent]
    more: int


class NewPlan(KeptPlan, kw_only=True):
    by_key: list[KeyOfPlan]
    releases: list[Release]
    warnings: list[str]


class JobShape(Shape, kw_only=True):
    id: str
    plan: str
    op: str
    state: str
    members: int
    keys: int
    settled: int
    counts: dict[str, int]
    rate: float | None
    note: str | None
    actor: str | None
    stop_at_first_failure: bool
    starts_at: Time | None
    started_at: Time | None
    ended_at: Time | None
    filter: dict[str, Any]


class MemberShape(Shape, kw_only=True):
    n: int
    event: str
    type: str
    endpoint: str
    key: str | None
    seq: int | None
    was: str
    dead_letter: str | None
    progress: str
    result: str | None


class AuditShape(Shape, kw_only=True):
    n: int
    seal: str
    at: Time
    actor: str
    action: str
    subject: str
    note: str


class BrokenLink(Shape, kw_only=True):
    line: int
    why: str


class Chain(Shape, kw_only=True):
    whole: bool
    lines: int
    pruned_to: int | None
    last: str | None
    broken: BrokenLink | None


class Revealed(Shape, kw_only=True):
    id: str
    secrets: list[str]
    url: str
    headers: dict[str, str]


class LedgerLine(Shape, kw_only=True):
    endpoint: str
    accepted: int
    counts: dict[str, int]
    balanced: bool
    faults: list[str]


class Books(Shape, kw_only=True):
    balanced: bool
    items: list[LedgerLine]


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
