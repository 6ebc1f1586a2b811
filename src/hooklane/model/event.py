"""What happened at the publisher, kept byte for byte."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.model.clock import Instant

DEFAULT_TENANT = "default"


@dataclass(slots=True, unsafe_hash=True)
class Event:
    """One published event; *data* is the JSON text exactly as it was received.

    It is never changed. (It is made for every publish, and a frozen dataclass takes three times as long to make.)
    """

    id: str
    type: str
    key: str | None
    data: bytes
    created_at: Instant
    tenant: str = DEFAULT_TENANT
    replay_of: str | None = None
    """The id of the skipped event that this one publishes again."""
    trace: str | None = None
    """The W3C trace context (`traceparent`) of its publish, where that was traced."""
