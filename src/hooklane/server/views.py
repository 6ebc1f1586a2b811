"""How do the nouns look in JSON? One function each; times as RFC 3339, secrets never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hooklane.core.signing import public_key
from hooklane.model.clock import Instant, rfc3339
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.exchange import NoAnswer, Result
from hooklane.model.health import BreakerState, Health
from hooklane.server.problem import Problem
from hooklane.store.outbox import Published, Recovery
from hooklane.store.reads import DeadLetter, Delivery, LaneView

if TYPE_CHECKING:  # it needs the metrics' package, and `hooklane inbox` shows rows without that
    from hooklane.server.endpoint_facts import EndpointFacts

View = dict[str, Any]
NOTE_CHARS_MAX = 10_000
HIDDEN = "***"
"""What is shown in place of a header's value."""


def when(at: Instant | None) -> str | None:
    return None if at is None else rfc3339(at)


def published(result: Published) -> View:
    return {
        "id": result.event_id,
        "type": result.type,
        "key": result.key,
        "lanes": [{"endpoint": stamp.endpoint_id, "seq": stamp.seq} for stamp in result.stamps],
        "created_at": rfc3339(result.created_at),
    }


def endpoint(one: Endpoint, health: Health | None, facts: EndpointFacts, now: Instant) -> View:
    """An endpoint without its secrets; of its headers only the names, since a value may be a credential."""
    newest = one.keys[0].since if one.keys and one.keys[0].since is not None else one.created_at
    return {
        "id": one.id,
        "url": masked_url(one.url),
        "name": one.name,
        "state": one.state,
        "suspended": one.suspended,
        "types": list(one.types),
        "order": one.order,
        "on_dead": one.on_dead,
        "payload": one.payload,
        "operational": one.operational,
        "headers": {name: HIDDEN for name, _ in one.headers},
        "rate_limit": one.rate_limit,
        "in_flight_max": one.in_flight_max,
        "timeout_ms": one.timeout_ms,
        "attempts_max": one.attempts_max,
        "backoff_ms": one.backoff_ms,
        "backoff_cap_ms": one.backoff_cap_ms,
        "ca_pem": one.ca_pem,
        "secrets": [{"expires_at": when(key.expires_at), "public_key": half_to_show(key.secret)} for key in one.keys],
        "breaker": breaker(health),
        "created_at": rfc3339(one.created_at),
        "secret_age_s": max(0, (now - newest) // 1000),
        "paused_by": one.paused_by or None,
        "paused_at": when(one.paused_at),
        "tls_expires_at": when(facts.tls_expires_at),
        "stats": {
            "success": facts.success,
            "p95_ms": facts.p95_ms,
            "backlog": facts.backlog,
            "blocked": facts.blocked,
            "rate": facts.rate,
        },
    }


def masked_url(url: str) -> str:
    """*url* without its query, which is where people put tokens."""
    base, mark, _ = url.partition("?")
    return f"{base}?{HIDDEN}" if mark else base


def half_to_show(secret: str) -> str | None:
    """The `whpk_…` that verifies what a `whsk_…` signed; None where the secret is one that both sides hold."""
    return public_key(secret) if secret.startswith("whsk_") else None


def breaker(health: Health | None) -> View:
    """Whether the endpoint is left alone, and until when."""
    if health is None:
        return {"state": BreakerState.CLOSED, "until": None}
    held = health.state in (BreakerState.OPEN, BreakerState.PROBING)
    return {"state": health.state, "until": when(health.until) if held else None}


def event(one: Event, deliveries: Sequence[Delivery], *, with_data: bool) -> View:
    view: View = {
        "id": one.id,
        "type": one.type,
        "key": one.key,
        "created_at": rfc3339(one.created_at),
        "replay_of": one.replay_of,
        "deliveries": [delivery(each) for each in deliveries],
    }
    if with_data:
        view["data"] = msgspec.Raw(one.data)
    return view


def delivery(one: Delivery) -> View:
    return {
        "event": one.event_id,
        "endpoint": one.endpoint_id,
        "key": one.key,
        "seq": one.seq,
        "state": one.state,
        "attempts": one.attempts,
        "next_at": when(one.next_at),
        "reason": one.reason,
        "dead_letter": one.dead_letter_id,
    }


def lane(one: LaneView, names: Mapping[str, str]) -> View:
    """A lane; *names* gives the name of its endpoint."""
    return {
        "endpoint": one.endpoint_id,
        "endpoint_name": names.get(one.endpoint_id, ""),
        "key": one.key,
        "state": one.state,
        "head": one.head,
        "tail": one.tail,
        "waiting": one.waiting,
        "attempts": one.attempts,
        "next_at": when(one.next_at),
        "since": when(one.since),
        "reason": one.reason,
        "dead_letter": one.dead_letter_id,
        "head_event": one.head_event_id,
        "head_type": one.head_type,
    }


def dead_letter(one: DeadLetter, names: Mapping[str, str], said: str | None) -> View:
    """A dead letter; *names* gives the name of its endpoint, *said* what that answered last."""
    return {
        "id": one.id,
        "side": "sender",
        "event": one.event_id,
        "type": one.type,
        "endpoint": one.endpoint_id,
        "key": one.key,
        "seq": one.seq,
        "attempts": one.attempts,
        "reason": one.reason,
        "died_at": rfc3339(one.died_at),
        "waiting": one.waiting,
        "note": one.note,
        "assignee": one.assignee,
        "endpoint_name": names.get(one.endpoint_id, ""),
        "said": said,
    }


def recovery(one: Recovery, dead_letter_id: str) -> View:
    return {
        "id": dead_letter_id,
        "endpoint": one.endpoint_id,
        "key": one.key,
        "seq": None if one.lane_id < 0 else one.seq,
        "released": one.released,
    }


def exchange(result: Result) -> View:
    """The result of a request that was made at once (test, probe)."""
    if isinstance(result, NoAnswer):
        return {"ok": False, "status": None, "failure": result.failure, "took_ms": result.timings.total_ms}
    return {
        "ok": 200 <= result.status < 300,
        "status": result.status,
        "failure": None,
        "took_ms": result.timings.total_ms,
        "outcome": result.outcome,
        "body": result.body[:1024].decode("utf-8", "replace"),
    }


def checked_note(text: str) -> str:
    """What a person wrote to go on record, within bounds."""
    if len(text) > NOTE_CHARS_MAX or "\0" in text:
        raise Problem("invalid_body", f"note must have at most {NOTE_CHARS_MAX:,} characters and no NUL character")
    return text
