"""Names for things: a prefix, then time and chance in base32, so that ids sort by age."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from functools import lru_cache
from typing import Final

from hooklane.model.clock import Instant

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no i, l, o, u
_PAIRS: Final = [a + b for a in _ALPHABET for b in _ALPHABET]


_chances: deque[str] = deque()
os.register_at_fork(after_in_child=_chances.clear)  # or parent and child would hand out the same ids


def _draw() -> str:
    """Chance from the system's source, which is asked for much at once: a call for each event would show."""
    try:
        return _chances.pop()  # atomic, so that no two threads get the same
    except IndexError:
        block = os.urandom(10 * 256)
        _chances.extend([_spelled(block[at : at + 10]) for at in range(0, len(block), 10)])
        return _spelled(os.urandom(10))


def _spelled(chance: bytes) -> str:
    """Ten bytes as sixteen letters, ten bits at a time through a table of pairs; in halves, for short numbers."""
    high, low = int.from_bytes(chance[:5], "big"), int.from_bytes(chance[5:], "big")
    return (
        f"{_PAIRS[high >> 30]}{_PAIRS[high >> 20 & 1023]}{_PAIRS[high >> 10 & 1023]}{_PAIRS[high & 1023]}"
        f"{_PAIRS[low >> 30]}{_PAIRS[low >> 20 & 1023]}{_PAIRS[low >> 10 & 1023]}{_PAIRS[low & 1023]}"
    )


@lru_cache(maxsize=64)  # the events of a millisecond share it
def _time(prefix: str, now: Instant) -> str:
    return f"{prefix}_{''.join([_PAIRS[now >> shift & 1023] for shift in range(40, -1, -10)])}"


def new_id(prefix: str, now: Instant, chance: bytes | None = None) -> str:
    """A fresh id such as `evt_…`: 48 bits of time, 80 of chance (*chance* gives them where a run must repeat)."""
    return _time(prefix, now) + (_draw() if chance is None else _spelled(chance))


def dead_letter_id(event_id: str, created_at: Instant, endpoint_id: str) -> str:
    """The id of an event's dead letter at one endpoint: the same however often, and in whichever store, it dies."""
    return new_id("dlv", created_at, chance=hashlib.sha256(f"{event_id}\0{endpoint_id}".encode()).digest()[:10])


def attempt_id(lane_id: int, seq: int, attempt: int, started_at: Instant) -> str:
    """The id of one attempt: made from what it is, so that the log need not keep it."""
    return new_id("att", started_at, chance=hashlib.sha256(f"{lane_id}.{seq}.{attempt}".encode()).digest()[:10])
