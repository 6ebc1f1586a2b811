"""What kinds of events there are: a description for people, and optionally the schema that their data keeps."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.model.clock import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """A type of events of one tenant. With *enforce*, a publish over HTTP that breaks *schema* is refused."""

    tenant: str
    type: str
    created_at: Instant
    changed_at: Instant
    description: str = ""
    schema: bytes | None = None
    """JSON Schema 2020-12, as JSON."""
    enforce: bool = False
