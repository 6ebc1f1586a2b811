"""What has happened at the receiver, as frozen values; exporters choose levels, names and words.

Bodies, secrets and signatures are in none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hooklane.model.message import Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message of a verified request was answered."""

    source: str
    account: str
    event_id: str
    type: str
    verdict: Verdict
    took_ms: float
    delivery_id: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request did not get as far as a message; *reason* is of a closed set."""

    source: str
    reason: str
    status: int
    error: str | None = None
    """What the store said, where that is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """A handler ended, well or not, and that was recorded."""

    source: str
    account: str
    event_id: str
    type: str
    handler: str
    attempt: int
    status: Status
    took_ms: float
    lag_ms: float
    """From receipt to now."""
    error: str | None = None
    raised_at: str | None = None
    """The file and line that raised it."""
    retry_in_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTakenOver:
    """A handling was claimed whose former owner's lease had run out."""

    source: str
    event_id: str
    handler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRejected:
    """A handler's work was rolled back, because another worker had taken its claim over."""

    source: str
    event_id: str
    handler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicted:
    """Another body arrived under a known id: it was kept apart and not applied. A person should look."""

    source: str
    account: str
    event_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerTurned:
    """The breaker of a handler changed its state."""

    source: str
    handler: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GapClosed:
    """A predecessor never came, and its successors go on (*by* skip or resync)."""

    source: str
    handler: str
    key: str
    seq: int
    prev_seq: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GapStopped:
    """A predecessor has not come within `gap_timeout`, and its key waits for a person: *seq* was applied last, and
    *prev_seq* is missing. Told once for each gap by each process."""

    source: str
    handler: str
    key: str
    seq: int
    prev_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHookFailed:
    """A function given to `event.on_commit`, or to Django's, raised; the event is committed and not run again."""

    source: str
    event_id: str
    handler: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Old rows, payloads and tombstones went; *more* is left than one call takes."""

    rows: int
    payloads: int
    tombstones: int
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTroubled:
    """The worker met an error outside any handler (as a rule: the store is away) and goes on after a pause. With a
    *key*: the resync of that key raised; it is tried again, and told again when it raises another error."""

    error: str
    source: str | None = None
    handler: str | None = None
    key: str | None = None


InboxEvent = (
    Received
    | Refused
    | Handled
    | LeaseTakenOver
    | FenceRejected
    | Conflicted
    | BreakerTurned
    | GapClosed
    | GapStopped
    | CommitHookFailed
    | Pruned
    | WorkerTroubled
)

Emit = Callable[[InboxEvent], None]


def nowhere(event: InboxEvent) -> None:
    """The sink that drops everything."""
