"""Is this message new, the same again, or another one under the same id?"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from hooklane.model.clock import Instant


class Copy(StrEnum):
    """What a message is that has the identity of one that was stored before."""

    DUPLICATE = "duplicate"
    CONFLICT = "conflict"


def judge_copy(*, first: bytes, second: bytes) -> Copy:
    """Compare fingerprints; without one of them nothing speaks against a duplicate."""
    return Copy.CONFLICT if first and second and first != second else Copy.DUPLICATE


def conflict_variant(fingerprint: bytes) -> str:
    """The variant under which the second of two contradicting messages is kept, once."""
    return f"conflict:{fingerprint.hex()[:32]}"


def state_variant(generation: int) -> str:
    """The variant of a state that comes again: the third turn of an entity is another event than its first."""
    return f"turn:{generation}"


def digest_of(body: bytes) -> bytes:
    """What a tombstone remembers of a message: exactly the bytes that the provider's signature covers."""
    return hashlib.sha256(body).digest()


def is_too_old(event_time: Instant | None, *, now: Instant, age_ms_max: int | None) -> bool:
    """Whether a signed event time lies before the window in which duplicates are recognised."""
    return age_ms_max is not None and event_time is not None and now - event_time > age_ms_max
