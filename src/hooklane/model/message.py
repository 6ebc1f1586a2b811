"""What a receiver gets: the raw request, the verified message in it, and what was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.model.clock import Instant
from hooklane.model.value import value

DEFAULT_ACCOUNT = "default"
"""The provider's account where it names none."""


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


@value(frozen=True, slots=True)
class Request:
    """An inbound request, raw: *headers* in arrival order with duplicates, *body* untouched bytes."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    _lone: dict[str, str | None] | None = field(default=None, init=False, repr=False, compare=False)
    """The headers by name in lower case, once they were asked for; None for those that are there more than once."""

    @classmethod
    def of(cls, method: str, url: str, headers: Mapping[str, str] | Iterable[tuple[str, str]], body: bytes) -> Request:
        """A request from whatever shape of headers a framework has."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return cls(method.upper(), url, tuple((str(name), str(value)) for name, value in pairs), bytes(body))

    def values(self, name: str) -> list[str]:
        """All values of the header *name*, case-insensitively, in order of arrival."""
        low = name.lower()
        return [value for each, value in self.headers if each.lower() == low]

    def lone(self, name: str) -> str | None:
        """The value of the header *name* where it is there exactly once."""
        return self.by_name().get(name.lower())

    def by_name(self) -> Mapping[str, str | None]:
        """The headers by name in lower case; None for those that are there more than once."""
        found = self._lone
        return self._index() if found is None else found

    def _index(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {name.lower(): value for name, value in self.headers}
        if len(found) < len(self.headers):
            several = Counter(name.lower() for name, _ in self.headers)
            found.update((name, None) for name, times in several.items() if times > 1)
        object.__setattr__(self, "_lone", found)  # when it is whole: threads may share a request
        return found


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer; adapters write it to their framework as it is."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@value(frozen=True, slots=True, kw_only=True)
class Message:
    """One verified event of a source, whatever shape its provider gave it."""

    source: str
    event_id: str
    type: str
    body: bytes = field(repr=False)
    """The raw JSON of this one event: the whole body, or one item of a batch."""
    account: str = DEFAULT_ACCOUNT
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
