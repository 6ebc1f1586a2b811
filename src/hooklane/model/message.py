"""What a receiver gets: the raw request, the verified message in it, and what was answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.model.clock import Instant
from hooklane.model.event import DEFAULT_TENANT


class Verdict(StrEnum):
    """What became of a receipt: the metric label and the header `hooklane-outcome`."""

    STORED = "stored"
    APPLIED = "applied"
    DUPLICATE = "duplicate"
    BUSY = "busy"
    STALE = "stale"
    HELD = "held"
    IGNORED = "ignored"
    CONFLICT = "conflict"
    TOO_OLD = "too_old"
    REJECTED = "rejected"


class Status(StrEnum):
    """The status of an inbox row."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"
    HELD = "held"
    STALE = "stale"
    CONFLICT = "conflict"
    IGNORED = "ignored"
    TOO_OLD = "too_old"


@dataclass(frozen=True, slots=True)
class Request:
    """An inbound request, raw: *headers* in arrival order with duplicates, *body* untouched bytes."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    _values: dict[str, list[str]] | None = field(default=None, init=False, repr=False, compare=False)
    """The headers by name in lower case, once somebody has asked."""

    @classmethod
    def of(cls, method: str, url: str, headers: Mapping[str, str] | Iterable[tuple[str, str]], body: bytes) -> Request:
        """A request from whatever shape of headers a framework has."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return cls(method.upper(), url, tuple((str(name), str(value)) for name, value in pairs), bytes(body))

    def values(self, name: str) -> list[str]:
        """All values of the header *name*, case-insensitively, in order of arrival."""
        return list(self._by_name().get(name.lower(), ()))

    def lone(self, name: str) -> str | None:
        """The value of the header *name* where it is there exactly once."""
        found = self._values or self._by_name()
        values = found.get(name) or found.get(name.lower())
        return values[0] if values is not None and len(values) == 1 else None

    def _by_name(self) -> dict[str, list[str]]:
        found = self._values
        if found is None:
            found = {}
            for name, value in self.headers:
                found.setdefault(name.lower(), []).append(value)
            object.__setattr__(self, "_values", found)  # when it is whole: threads may share a request
        return found


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer; adapters write it to their framework as it is."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One verified event of a source, whatever shape its provider gave it."""

    source: str
    event_id: str
    type: str
    body: bytes = field(repr=False)
    """The raw JSON of this one event: the whole body, or one item of a batch."""
    tenant: str = DEFAULT_TENANT
    key: str | None = None
    seq: int | None = None
    prev_seq: int | None = None
    event_time: Instant | None = None
    """When it happened, if the provider says so inside what is signed."""
    delivery_id: str | None = None
    attempt: int | None = None
    fingerprint: bytes = b""
    """A digest of the body without what the provider changes on every retry."""
    id_signed: bool = True
    """False where the id travels in an unsigned header: then it is no proof, and the digest guards."""
