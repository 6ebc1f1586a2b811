"""May this endpoint be saved? The rules for everything but its URL, which the egress guard judges."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hooklane.core.fanout import STARS_MAX, is_pattern
from hooklane.core.signing import Signer
from hooklane.errors import ConfigError
from hooklane.model.endpoint import Endpoint, Operational, Order
from hooklane.model.event import DEFAULT_TENANT

NAME_CHARS_MAX = 200
PATTERNS_MAX = 100
HEADERS_MAX = 50
HEADER_CHARS_MAX = 4_096

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}\Z")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?\Z")
# fmt: off
_RESERVED = frozenset({
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
    "idempotency-key", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "user-agent", "x-attempt", "x-key", "x-prev-seq", "x-replay-of", "x-seq",
})
# fmt: on

# What each number may be: a limit that is off by three zeros should be told, not obeyed.
BOUNDS = {
    "in_flight_max": (1, 10_000),
    "timeout_ms": (10, 120_000),
    "attempts_max": (1, 1_000),
    "backoff_ms": (1, 86_400_000),
    "backoff_cap_ms": (1, 7 * 86_400_000),
}
RATE_MIN, RATE_MAX = 0.001, 1_000_000.0
"""Deliveries a second: from one in a quarter of an hour. Less is a pause, and further down 1 / rate has no end."""


def faults_of(endpoint: Endpoint) -> list[tuple[str, str]]:
    """Everything that is wrong with *endpoint*: the field, and what was expected."""
    return [*_faults(endpoint), *_operational_faults(endpoint)]


def _operational_faults(endpoint: Endpoint) -> Iterator[tuple[str, str]]:
    if endpoint.operational is not Operational.NONE and endpoint.order is not Order.NONE:
        yield "order", "none, where operational is set: an operational event must never wait for another"
    if endpoint.operational is Operational.ALL and endpoint.tenant != DEFAULT_TENANT:
        yield "operational", f"all only in the tenant {DEFAULT_TENANT}; tenant or none in another"


def within_bounds(endpoint: Endpoint) -> Endpoint:
    """*endpoint* with every number within its bounds: the row of an older version may hold what is refused today.

    One endpoint's nonsense must not stop the deliveries to all others, at every start anew.
    """
    changed: dict[str, Any] = {}
    for field, (least, most) in BOUNDS.items():
        value = getattr(endpoint, field)
        if not (isinstance(value, int) and least <= value <= most):
            changed[field] = int(_clamped(value, least, most))
    backoff_ms = changed.get("backoff_ms", endpoint.backoff_ms)
    if changed.get("backoff_cap_ms", endpoint.backoff_cap_ms) < backoff_ms:
        changed["backoff_cap_ms"] = backoff_ms
    rate = endpoint.rate_limit
    if rate is not None and not RATE_MIN <= rate <= RATE_MAX:
        changed["rate_limit"] = _clamped(rate, RATE_MIN, RATE_MAX)
    return replace(endpoint, **changed) if changed else endpoint


def _clamped(value: float, least: float, most: float) -> float:
    return min(max(value, least), most) if value == value else least  # NaN is not even itself


def _faults(endpoint: Endpoint) -> Iterator[tuple[str, str]]:
    if len(endpoint.name) > NAME_CHARS_MAX or _CONTROL.search(endpoint.name):
        yield "name", f"at most {NAME_CHARS_MAX} characters, no control characters"
    if len(endpoint.types) > PATTERNS_MAX:
        yield "types", f"at most {PATTERNS_MAX} patterns, got {len(endpoint.types)}"
    for pattern in endpoint.types:
        if not is_pattern(pattern):
            yield "types", f"a pattern is 1-128 of A-Z a-z 0-9 _ . - with at most {STARS_MAX} *, got {pattern[:140]!r}"
    for field, (least, most) in BOUNDS.items():
        value = getattr(endpoint, field)
        if not least <= value <= most:
            yield field, f"a whole number from {least} to {most}, got {value}"
    if endpoint.backoff_cap_ms < endpoint.backoff_ms:
        yield "backoff_cap_ms", f"at least backoff_ms ({endpoint.backoff_ms}), got {endpoint.backoff_cap_ms}"
    if endpoint.rate_limit is not None and not RATE_MIN <= endpoint.rate_limit <= RATE_MAX:
        yield "rate_limit", f"deliveries a second, from {RATE_MIN} to {RATE_MAX:.0f}, got {endpoint.rate_limit}"
    yield from _header_faults(endpoint.headers)
    try:
        Signer(endpoint.keys)
    except ConfigError as error:
        yield "secret", str(error)


def _header_faults(headers: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, str]]:
    if len(headers) > HEADERS_MAX:
        yield "headers", f"at most {HEADERS_MAX} headers, got {len(headers)}"
    seen: set[str] = set()
    for name, value in headers:
        shown = name[:60]
        lower = name.lower()
        if not _HEADER_NAME.match(name):
            yield "headers", f"{shown!r} is not a header name"
        elif lower in _RESERVED or lower.startswith(("webhook-", "hooklane-")):
            yield "headers", f"{shown} is reserved: hooklane or HTTP sets it"
        elif lower in seen:
            yield "headers", f"{shown} is there twice"
        seen.add(lower)
        if len(value) > HEADER_CHARS_MAX or not _HEADER_VALUE.match(value):
            yield "headers", f"the value of {shown!r} must be printable ASCII of at most {HEADER_CHARS_MAX} characters"
