"""The shapes of answers: the rows of an inbox, their handlings, and its sources."""

from __future__ import annotations

from typing import Any

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
