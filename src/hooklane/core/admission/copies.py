"""Is this message new, the same again, or another one under the same id?"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from hooklane.model.clock import Instant


class Copy(StrEnum):
    """What a message is that has the identity of one that was stored before."""

    DUPLICATE = "duplicate"
    CONFLICT = "conflict"


def judge_copy(*, first: bytes, second: bytes, first_topic: str = "", second_topic: str = "") -> Copy:
    """Compare fingerprints, and topics where given; without one of a pair nothing speaks against a duplicate."""
    differ = (first and second and first != second) or (first_topic and second_topic and first_topic != second_topic)
    return Copy.CONFLICT if differ else Copy.DUPLICATE


def conflict_variant(fingerprint: bytes, topic: str = "") -> str:
    """The variant under which the second of two contradicting messages is kept, once."""
    return f"conflict:{(digest_of(fingerprint, topic) if topic else fingerprint).hex()[:32]}"


def state_variant(generation: int, entity: str) -> str:
    """The variant of an entity's state: its third turn is another event than its first, and other entities may be in
    the same state."""
    return f"turn:{generation}:{hashlib.sha256(entity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def digest_of(proof: bytes, topic: str = "") -> bytes:
    """What a tombstone remembers of a message: exactly the bytes that the provider's signature covers, and its topic,
    because providers that name the topic beside the body send equal bodies for different happenings."""
    told = topic.encode("utf-8", "surrogatepass")
    return hashlib.sha256(b"%d:%b%b" % (len(told), told, proof)).digest()


def is_too_old(event_time: Instant | None, *, now: Instant, age_ms_max: int | None) -> bool:
    """Whether a signed event time lies before the window in which duplicates are recognised."""
    return age_ms_max is not None and event_time is not None and now - event_time > age_ms_max
