"""How do the nouns look in JSON? Filled into their shapes; times as RFC 3339, secrets never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

import msgspec

from hooklane.core.signing import public_key
from hooklane.model.clock import Instant, rfc3339
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.exchange import NoAnswer, Result
from hooklane.model.health import BreakerState, Health
from hooklane.server.problem import Problem
from hooklane.server.shapes import DeliveryShape, EndpointShape, EndpointStats, EventShape, KeyShape, Shape, Time
from hooklane.server.shapes_of_recovery import DeadLetterShape, RecoveryShape
from hooklane.store.outbox import Published, Recovery
from hooklane.store.reads import DeadLetter, Delivery

if TYPE_CHECKING:  # it needs the metrics' package, and `hooklane inbox` shows rows without that
    from hooklane.server.endpoint_facts import EndpointFacts

View = dict[str, Any]
NOTE_CHARS_MAX = 10_000
HIDDEN = "***"
"""What is shown in place of a header's value."""


def when(at: Instant | None) -> str | None:
    return None if at is None else rfc3339(at)


def filled(shape: type[Shape], one: Any, **given: object) -> View:
    """The fields of *shape*: as *given*, else as *one* has them under the same name, or with `_id` behind it.

    Times are told as RFC 3339. A field that may be left out is, where neither says it.
    """
    view: View = {}
    for name, attribute, is_time in _fields_of(shape, one.__class__):
        if name in given:
            value = given[name]
        elif attribute is None:
            continue
        else:
            value = getattr(one, attribute)
        view[name] = when(cast(Instant | None, value)) if is_time else value
    return view


@cache
def _fields_of(shape: type[Shape], kind: type[Any]) -> list[tuple[str, str | None, bool]]:
    """For each field: its name, the attribute of *kind* (None: there is none, it may be left out), is it a time."""
    kinds = get_type_hints(shape, include_extras=True)
    has = {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}
    found: list[tuple[str, str | None, bool]] = []
    for field in msgspec.structs.fields(shape):
        attribute = next((one for one in (field.name, f"{field.name}_id") if one in has), None)
        if attribute is None and field.required:
            attribute = field.name  # to be given; where it is not, this fails loudly
        found.append((field.name, attribute, Time in (kinds[field.name], *get_args(kinds[field.name]))))
    return found


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
    return filled(
        EndpointShape,
        one,
        url=masked_url(one.url),
        headers={name: HIDDEN for name, _ in one.headers},
        secrets=[filled(KeyShape, key, public_key=half_to_show(key.secret)) for key in one.keys],
        breaker=breaker(health),
        secret_age_s=max(0, (now - newest) // 1000),
        paused_by=one.paused_by or None,
        tls_expires_at=facts.tls_expires_at,
        stats=filled(EndpointStats, facts),
    )


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
    view = filled(EventShape, one, deliveries=[filled(DeliveryShape, each) for each in deliveries])
    return {**view, "data": msgspec.Raw(one.data)} if with_data else view


def dead_letter(one: DeadLetter, names: Mapping[str, str], said: str | None) -> View:
    """A dead letter; *names* gives the name of its endpoint, *said* what that answered last."""
    return filled(DeadLetterShape, one, side="sender", endpoint_name=names.get(one.endpoint_id, ""), said=said)


def recovery(one: Recovery, dead_letter_id: str) -> View:
    return filled(RecoveryShape, one, id=dead_letter_id, seq=None if one.lane_id < 0 else one.seq)


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
