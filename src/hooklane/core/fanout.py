"""Which endpoints get an event, and in which lane of each does it stand?"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache

from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint, EndpointState, Order
from hooklane.model.event import Event
from hooklane.model.lane import GLOBAL_KEY, PARTITIONS, Place

_DELETED = (EndpointState.DRAINING, EndpointState.CANCELLING)
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


def places(event: Event, asked: Sequence[str] | None, endpoints: Sequence[Endpoint]) -> list[Place]:
    """Where *event* stands: at the endpoints *asked* for by id, else at those whose filter it passes.

    A deleted endpoint takes nothing new. A paused or disabled one does, and holds it.
    """
    takers = [endpoint for endpoint in endpoints if endpoint.state not in _DELETED]
    if asked is None:
        chosen = [endpoint for endpoint in takers if matches(endpoint.types, event.type)]
    else:
        chosen = [endpoint for endpoint in takers if endpoint.id in asked]
        if len(chosen) != len(set(asked)):
            unknown = sorted(set(asked) - {endpoint.id for endpoint in chosen})
            raise InvalidEvent("unknown_endpoint", f"no endpoint with id {', '.join(unknown)}")
    return [_place(event, endpoint) for endpoint in chosen]


def _place(event: Event, endpoint: Endpoint) -> Place:
    key = lane_key(endpoint, event.key)
    return Place(endpoint.id, key, partition_of(endpoint.id, event.id if key is None else key))


def lane_key(endpoint: Endpoint, event_key: str | None) -> str | None:
    """The key of the lane in which an event stands at *endpoint*, or None where it stands in no line at all."""
    match endpoint.order:
        case Order.GLOBAL:
            return GLOBAL_KEY
        case Order.NONE:
            return None
        case Order.KEY:
            return event_key


def partition_of(endpoint_id: str, key: str) -> int:
    """The partition of a lane: a fixed hash, the same in every process and every version."""
    return zlib.crc32(f"{endpoint_id}\0{key}".encode()) % PARTITIONS
