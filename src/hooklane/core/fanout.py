"""Which endpoints get an event, and in which lane of each does it stand?"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache

from hooklane.model.endpoint import Endpoint, EndpointState, Order
from hooklane.model.event import Event
from hooklane.model.lane import GLOBAL_KEY, PARTITIONS

_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,128}\Z")


def is_pattern(text: str) -> bool:
    """Whether *text* can be a type filter: the characters of a type, and `*` for any run of them."""
    return bool(_PATTERN.match(text))


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")) + r"\Z")


def matches(patterns: Sequence[str], type_: str) -> bool:
    """Whether a type passes the filter; no patterns let everything pass."""
    return not patterns or any(_compiled(pattern).match(type_) for pattern in patterns)


def route(event: Event, asked: Sequence[str] | None, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """The endpoints that owe a delivery of *event*: those *asked* for by id, else those whose filter it passes.

    A draining endpoint takes nothing new; a cancelling one neither, so nothing needs to be cancelled twice.
    """
    if asked is not None:
        return [endpoint for endpoint in endpoints if endpoint.id in asked]
    return [endpoint for endpoint in endpoints if takes_new(endpoint) and matches(endpoint.types, event.type)]


def takes_new(endpoint: Endpoint) -> bool:
    """Whether new events may be owed to the endpoint; a paused or disabled one holds them."""
    return endpoint.state not in (EndpointState.DRAINING, EndpointState.CANCELLING)


def lane_key(endpoint: Endpoint, event_key: str | None) -> str | None:
    """The key of the lane in which an event stands at *endpoint*, or None where it stands in no line at all."""
    if endpoint.order is Order.GLOBAL:
        return GLOBAL_KEY
    if endpoint.order is Order.NONE:
        return None
    return event_key


def partition_of(endpoint_id: str, key: str) -> int:
    """The partition of a lane: a fixed hash, the same in every process and every version."""
    return zlib.crc32(f"{endpoint_id}\0{key}".encode()) % PARTITIONS
