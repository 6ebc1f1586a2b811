"""The shapes of answers: dead letters, plans, jobs, the audit log and the ledger."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from hooklane.model.endpoint import Order
from hooklane.server.shapes import Shape, Time
from hooklane.server.shapes_of_inbox import HandlingShape, NamedValue, WholeHandling


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
