"""Is this message new, the same again, or another one under the same id?"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from hooklane.model.clock import Instant
from hooklane.model.message import Message

EVENT_ID_BYTES_MAX = 512


class Copy(StrEnum):
    """What a message is that has the identity of one that was stored before."""

    DUPLICATE = "duplicate"
    CONFLICT = "conflict"


class Pattern(Protocol):
    def __call__(self, type: str) -> bool: ...


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


def storable(message: Message) -> Message:
    """*message* with names that every store can hold. What cannot be stored as it is gets a name derived from it."""
    return replace(
        message,
        event_id=_name(message.event_id) or f"derived:{digest_of(message.body).hex()}",
        type=_name(message.type) or "unknown",
        key=_name(message.key),
        tenant=_name(message.tenant) or "default",
        delivery_id=_name(message.delivery_id),
        seq=_int64(message.seq),
        prev_seq=_int64(message.prev_seq),
    )


def derived_id(message: Message) -> str:
    """An id for a message whose provider gives none: the same content is the same event."""
    return f"derived:{(message.fingerprint or digest_of(message.body)).hex()}"


def is_storable(texts: Sequence[str | None]) -> bool:
    """Whether every store can hold these names as they are."""
    return all(_name(text) == text for text in texts)


def _name(text: str | None) -> str | None:
    if text is None or (len(text) <= 128 and text.isascii() and text.isprintable()):
        return text
    # NUL has no place in PostgreSQL, a lone surrogate in no UTF-8, and an index entry has a limit.
    clean = text.replace("\0", "\\0").encode("utf-8", "backslashreplace")
    if len(clean) > EVENT_ID_BYTES_MAX:
        return f"digest:{hashlib.sha256(clean).hexdigest()}"
    return clean.decode()


def _int64(number: int | None) -> int | None:
    return number if number is None or -(2**63) <= number < 2**63 else None
