"""Names for things: a prefix, then time and chance in base32, so that ids sort by age."""

from __future__ import annotations

import hashlib
import os

from hooklane.model.clock import Instant
from hooklane.model.event import Event

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no i, l, o, u
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]


def new_id(prefix: str, now: Instant, chance: bytes | None = None) -> str:
    """A fresh id such as `evt_…`: 48 bits of time, 80 of chance (*chance* gives them where a run must repeat)."""
    number = (now << 80) | int.from_bytes(chance or os.urandom(10), "big")
    # Ten bits at a time through a table of pairs: this runs once per event.
    digits = [_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)]
    return f"{prefix}_{''.join(digits)}"


def dead_letter_id(event: Event, endpoint_id: str) -> str:
    """The id of one event at one endpoint as a dead letter: always the same, so that writing it twice is one."""
    digest = hashlib.sha256(f"{event.id}\0{endpoint_id}".encode()).digest()
    return new_id("dlv", event.created_at, chance=digest[:10])
