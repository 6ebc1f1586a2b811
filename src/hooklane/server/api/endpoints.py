"""Endpoints: create, look at, change, pause and resume, rotate the secret, delete."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from hooklane.core.endpoint import faults_of
from hooklane.core.signing import SECRET_BYTES, Scheme, new_key
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, EndpointState, OnDead, Order, Payload, SigningKey
from hooklane.model.ids import new_id
from hooklane.sender.egress import UrlNotAllowed
from hooklane.sender.transport.tls import own_context
from hooklane.server import views
from hooklane.server.acts import endpoint_act
from hooklane.server.call import Call, Param, Response, Route, answer
from hooklane.server.problem import Problem

OVERLAP_S_DEFAULT = 24 * 3_600
OVERLAP_S_MAX = 7 * 24 * 3_600
CA_CHARS_MAX = 65_536
TRIES = 5

_DELETED = (EndpointState.DRAINING, EndpointState.CANCELLING)


class EndpointChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What can be set on an endpoint; what is left out stays as it is."""

    url: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    types: list[str] | UnsetType = UNSET
    order: Order | UnsetType = UNSET
    on_dead: OnDead | UnsetType = UNSET
    secret: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    rate_limit: float | UnsetType | None = UNSET
    in_flight_max: int | UnsetType = UNSET
    timeout_ms: int | UnsetType = UNSET
    attempts_max: int | UnsetType = UNSET
    backoff_ms: int | UnsetType = UNSET
    backoff_cap_ms: int | UnsetType = UNSET
    payload: Payload | UnsetType = UNSET
    ca_pem: str | UnsetType | None = UNSET


class NewEndpoint(EndpointChange, kw_only=True, forbid_unknown_fields=True):
    """A receiver of events."""

    url: str
    signature: Scheme = Scheme.V1


class Rotation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new secret, and how long the old one goes on signing beside it."""

    secret: str | None = None
    signature: Scheme = Scheme.V1
    overlap_s: int = OVERLAP_S_DEFAULT


async def create(call: Call) -> Response:
    gateway = call.gateway
    body = call.read(NewEndpoint)
    now = gateway.now()
    secret = body.secret if isinstance(body.secret, str) else new_key(body.signature, gateway.chance(SECRET_BYTES))
    blank = Endpoint(id=new_id("ep", now), url=body.url, created_at=now, tenant=call.tenant)
    endpoint = replace(blank, keys=(SigningKey(secret),), **_set_fields(body))
    if isinstance(body.backoff_ms, int) and not isinstance(body.backoff_cap_ms, int):
        endpoint = replace(endpoint, backoff_cap_ms=max(endpoint.backoff_cap_ms, body.backoff_ms))
    _check(call, endpoint)
    if not await gateway.store.save_endpoint(endpoint, expect=None, act=endpoint_act(call, None, endpoint)):
        raise Problem("changed", "an endpoint with this id exists")
    gateway.endpoints_changed()
    view = {**views.endpoint(endpoint), **_given_away(secret)}
    return answer(view, 201, headers=[("location", f"/api/v1/endpoints/{endpoint.id}")])


async def listing(call: Call) -> Response:
    endpoints = await call.gateway.store.endpoints(call.tenant)
    health = await call.gateway.store.health(call.tenant)
    return answer({"items": [views.endpoint(one, health.get(one.id)) for one in endpoints], "next": None})


async def show(call: Call) -> Response:
    endpoint = await find(call)
    ledger = await call.gateway.store.ledger(call.tenant, endpoint.id)
    return answer({**await _view(call, endpoint), "ledger": {str(state): count for state, count in ledger.items()}})


async def change(call: Call) -> Response:
    body = call.read(EndpointChange)
    for field in ("order", "payload"):
        if getattr(body, field) is not UNSET:
            raise Problem(
                "immutable_field", f"{field} cannot be changed; create another endpoint", errors=[{"field": field}]
            )
    fields = _set_fields(body)
    if isinstance(body.secret, str):
        fields["keys"] = (SigningKey(body.secret),)
    if isinstance(body.url, str):
        fields["url"] = body.url
    endpoint = await _update(call, lambda old: replace(old, **fields))
    return answer(await _view(call, endpoint))


async def pause(call: Call) -> Response:
    return answer(await _view(call, await _update(call, lambda old: replace(old, state=EndpointState.PAUSED))))


async def resume(call: Call) -> Response:
    return answer(await _view(call, await _update(call, lambda old: replace(old, state=EndpointState.ACTIVE))))


async def rotate(call: Call) -> Response:
    """A new secret signs first; the old ones go on beside it until the overlap ends, so no delivery fails to verify."""
    gateway = call.gateway
    body = call.read(Rotation)
    if not 0 <= body.overlap_s <= OVERLAP_S_MAX:
        raise Problem("invalid_endpoint", f"overlap_s must be from 0 to {OVERLAP_S_MAX}, got {body.overlap_s}")
    secret = body.secret or new_key(body.signature, gateway.chance(SECRET_BYTES))
    now = gateway.now()
    until = Instant(now + body.overlap_s * 1000)

    def rotated(old: Endpoint) -> Endpoint:
        ending = [
            SigningKey(key.secret, until if key.expires_at is None else min(until, key.expires_at))
            for key in old.keys
            if key.secret != secret
        ]
        alive = [key for key in ending if key.expires_at is not None and key.expires_at > now]
        return replace(old, keys=(SigningKey(secret), *alive))

    endpoint = await _update(call, rotated)
    return answer({**await _view(call, endpoint), **_given_away(secret)})


async def delete(call: Call) -> Response:
    """A tombstone: what is owed is still delivered (`drain`) or cancelled (`cancel`), and nothing new is taken."""
    backlog = call.query.get("backlog", "drain")
    if backlog not in ("drain", "cancel"):
        raise Problem("invalid_parameter", f"backlog must be drain or cancel, got {backlog[:40]!r}")
    state = EndpointState.CANCELLING if backlog == "cancel" else EndpointState.DRAINING
    await _update(call, lambda old: replace(old, state=state), deleting=True)
    return Response(204)


async def find(call: Call) -> Endpoint:
    endpoint = await call.gateway.store.endpoint(call.tenant, call.params["id"])
    if endpoint is None:
        raise Problem("not_found")
    return endpoint


async def _view(call: Call, endpoint: Endpoint) -> views.View:
    health = await call.gateway.store.health(call.tenant)
    return views.endpoint(endpoint, health.get(endpoint.id))


def _given_away(secret: str) -> views.View:
    """What the receiver needs to verify, shown this once; the private half of a key pair never leaves."""
    half = views.half_to_show(secret)
    return {"secret": secret if half is None else None, "public_key": half}


async def _update(call: Call, changed: Callable[[Endpoint], Endpoint], *, deleting: bool = False) -> Endpoint:
    """Save what *changed* makes of the endpoint as it is now; somebody else's change in between is not undone."""
    for _ in range(TRIES):
        old = await find(call)
        if old.state in _DELETED and not deleting:
            raise Problem("wrong_state", "the endpoint is being deleted")
        new = changed(old)
        if new == old:
            return old
        if not deleting:
            _check(call, new)
        if await call.gateway.store.save_endpoint(new, expect=old, act=endpoint_act(call, old, new)):
            call.gateway.endpoints_changed()
            return new
    raise Problem("changed", "the endpoint keeps changing; try again")


def _check(call: Call, endpoint: Endpoint) -> None:
    """The one place where an endpoint's settings are judged, whichever way they came."""
    try:
        call.gateway.guard.check(endpoint.url)
    except UrlNotAllowed as error:
        raise Problem("url_not_allowed", str(error), errors=[{"field": "url", "detail": str(error)}]) from None
    if faults := [*faults_of(endpoint), *_ca_faults(endpoint.ca_pem)]:
        errors = [{"field": field, "detail": detail} for field, detail in faults]
        raise Problem("invalid_endpoint", "; ".join(f"{field}: {detail}" for field, detail in faults), errors=errors)


def _ca_faults(ca_pem: str | None) -> list[tuple[str, str]]:
    if ca_pem is None:
        return []
    try:
        if len(ca_pem) > CA_CHARS_MAX:
            raise ssl.SSLError("too long")
        own_context(ca_pem)
    except ssl.SSLError:
        return [("ca_pem", f"one certificate or more in PEM, at most {CA_CHARS_MAX} characters; null for the system's")]
    return []


def _set_fields(body: EndpointChange) -> dict[str, Any]:
    """The plain fields that the body sets, as the endpoint holds them."""
    fields: dict[str, Any] = {}
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if value is UNSET or name in ("url", "secret", "signature"):
            continue
        if name == "types":
            value = tuple(dict.fromkeys(value))
        elif name == "headers":
            value = tuple(value.items())
        fields[name] = value
    return fields


def _action(name: str, run: Any, summary: str, takes: type[msgspec.Struct] | None = None) -> Route:
    return Route(
        method="POST", path=f"/api/v1/endpoints/{{id}}/{name}", run=run, summary=summary, tag="endpoints", takes=takes
    )


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/endpoints",
        run=create,
        status=201,
        takes=NewEndpoint,
        summary="Create an endpoint. Its secret is shown in this answer only.",
        tag="endpoints",
    ),
    Route(method="GET", path="/api/v1/endpoints", run=listing, summary="All endpoints, oldest first.", tag="endpoints"),
    Route(
        method="GET", path="/api/v1/endpoints/{id}", run=show, summary="An endpoint and its ledger.", tag="endpoints"
    ),
    Route(
        method="PATCH",
        path="/api/v1/endpoints/{id}",
        run=change,
        takes=EndpointChange,
        summary="Change an endpoint from the next attempt on; `order` and `payload` never change.",
        tag="endpoints",
    ),
    Route(
        method="DELETE",
        path="/api/v1/endpoints/{id}",
        run=delete,
        status=204,
        query=(Param("backlog", "drain (default) or cancel"),),
        summary="Delete an endpoint; what it is owed is delivered first, or cancelled.",
        tag="endpoints",
    ),
    _action("pause", pause, "Send nothing to it; all is kept."),
    _action("resume", resume, "Send to it again, also after it answered 410."),
    _action("rotate", rotate, "Sign with a new secret; the old one goes on beside it for the overlap.", Rotation),
)
