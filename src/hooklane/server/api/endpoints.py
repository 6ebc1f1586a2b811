"""Endpoints: create, look at, change, pause and resume, rotate the secret, delete."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from hooklane.core.endpoint import BOUNDS, NAME_CHARS_MAX, PATTERNS_MAX, RATE_MAX, RATE_MIN, faults_of
from hooklane.core.signing import SECRET_BYTES, Scheme, new_key
from hooklane.model.audit import Act
from hooklane.model.clock import Instant, rfc3339
from hooklane.model.endpoint import Endpoint, EndpointState, OnDead, Operational, Order, Payload, SigningKey
from hooklane.model.ids import new_id
from hooklane.model.lane import DeliveryState
from hooklane.model.size import counted
from hooklane.sender.egress import UrlNotAllowed
from hooklane.sender.transport.tls import own_context
from hooklane.server import views
from hooklane.server.call import Call, Param, Response, Routes, answer
from hooklane.server.endpoint_facts import EndpointFacts
from hooklane.server.hidden_values import hidden_faults, must_stay, with_hidden, with_hidden_query
from hooklane.server.problem import Problem
from hooklane.server.schema_words import Words, one_of, text_of, told
from hooklane.server.services import Services
from hooklane.server.shapes import EndpointShape, EndpointWithLedger, EndpointWithSecret, ListShape

OVERLAP_S_DEFAULT = 24 * 3_600
OVERLAP_S_MAX = 7 * 24 * 3_600
KEYS_MAX = 10
"""Each key that lives signs every delivery: a header must not grow with every rotation."""
CA_CHARS_MAX = 65_536
TRIES = 5
QUOTA_RETRY_S = 60

_RATE = {"minimum": RATE_MIN, "maximum": RATE_MAX}
_PATTERN = {"pattern": "^[A-Za-z0-9_.*-]{1,128}$"}


def _within(field: str) -> Words:
    least, most = BOUNDS[field]
    return {"minimum": least, "maximum": most}


class EndpointChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What can be set on an endpoint; what is left out stays as it is."""

    url: str | UnsetType = UNSET
    name: Annotated[str, told(text_of(NAME_CHARS_MAX))] | UnsetType = UNSET
    types: Annotated[list[Annotated[str, told(_PATTERN)]], told({"maxItems": PATTERNS_MAX})] | UnsetType = UNSET
    order: Order | UnsetType = UNSET
    on_dead: OnDead | UnsetType = UNSET
    secret: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    rate_limit: Annotated[float, told(_RATE)] | UnsetType | None = UNSET
    in_flight_max: Annotated[int, told(_within("in_flight_max"))] | UnsetType = UNSET
    timeout_ms: Annotated[int, told(_within("timeout_ms"))] | UnsetType = UNSET
    attempts_max: Annotated[int, told(_within("attempts_max"))] | UnsetType = UNSET
    backoff_ms: Annotated[int, told(_within("backoff_ms"))] | UnsetType = UNSET
    backoff_cap_ms: Annotated[int, told(_within("backoff_cap_ms"))] | UnsetType = UNSET
    payload: Payload | UnsetType = UNSET
    operational: Operational | UnsetType = UNSET
    ca_pem: str | UnsetType | None = UNSET


class NewEndpoint(EndpointChange, kw_only=True, forbid_unknown_fields=True):
    """A receiver of events."""

    url: str
    signature: Scheme = Scheme.V1


class Rotation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new secret, and how long the old one goes on signing beside it."""

    secret: str | None = None
    signature: Scheme = Scheme.V1
    overlap_s: Annotated[int, told({"minimum": 0, "maximum": OVERLAP_S_MAX})] = OVERLAP_S_DEFAULT


class Resumption(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How fast: `rate` becomes the endpoint's `rate_limit`, and null lifts it; without it the limit stays as it is."""

    rate: Annotated[float, told(_RATE)] | UnsetType | None = UNSET


routes = Routes("endpoints", "/api/v1/endpoints")


@routes.post(
    "",
    "Create an endpoint. Its secret is shown in this answer only.",
    status=201,
    takes=NewEndpoint,
    answers=EndpointWithSecret,
    tells_secret=True,
)
async def create(call: Call) -> Response:
    services = call.services
    body = call.read(NewEndpoint)
    now = services.now()
    secret = body.secret if isinstance(body.secret, str) else new_key(body.signature, services.chance(SECRET_BYTES))
    blank = Endpoint(id=new_id("ep", now), url=body.url, created_at=now, tenant=call.tenant)
    endpoint = replace(blank, keys=(SigningKey(secret, since=now),), **_set_fields(body))
    if endpoint.operational is not Operational.NONE and body.order is UNSET:
        endpoint = replace(endpoint, order=Order.NONE)
    if endpoint.operational is Operational.ALL and call.caller.tenant is not None:
        raise Problem("for_all_tenants")
    if isinstance(body.backoff_ms, int) and not isinstance(body.backoff_cap_ms, int):
        endpoint = replace(endpoint, backoff_cap_ms=max(endpoint.backoff_cap_ms, body.backoff_ms))
    _check(call, endpoint)
    async with services.creating:
        await _check_quota(call)
        if not await services.store.save_endpoint(endpoint, expect=None, act=_act(call, None, endpoint)):
            raise Problem("changed", "the tenant is being deleted, or an endpoint with this id exists already")
    services.endpoints_changed()
    view = {**await _view(call, endpoint), **_given_away(secret)}
    return answer(view, 201, headers=[("location", f"/api/v1/endpoints/{endpoint.id}")])


async def _check_quota(call: Call) -> None:
    """Refuse an endpoint beyond the tenant's quota. Two servers may each let one more in at one moment: so be it."""
    tenant = call.services.tenants.get(call.tenant)
    most = None if tenant is None else tenant.quota.endpoints
    if tenant is None or most is None:
        return
    alive = [one for one in await call.services.store.endpoints(call.tenant) if not one.state.is_deleted]
    if len(alive) >= most:
        call.services.publish_limits.tell_reached(tenant, "endpoints")
        raise Problem(
            "quota_exceeded",
            f"the quota of this tenant is {counted(most, 'endpoint')}: delete one, or ask for more",
            retry_after_s=QUOTA_RETRY_S,
        )


@routes.get("", "All endpoints, oldest first.", answers=ListShape[EndpointShape])
async def listing(call: Call) -> Response:
    return answer({"items": await endpoint_views(call.services, call.tenant), "next": None})


@routes.get("/{id}", "An endpoint and its ledger.", answers=EndpointWithLedger)
async def show(call: Call) -> Response:
    endpoint = await find(call)
    counted = await call.services.totals.of(call.tenant)
    standing = counted.standing.get(endpoint.id)
    ledger = {str(state): standing.ledger.get(state, 0) if standing else 0 for state in DeliveryState}
    ledger["accepted"] = standing.accepted if standing else 0
    return answer({**await _view(call, endpoint), "ledger": ledger, "as_of": rfc3339(counted.as_of)})


@routes.patch(
    "/{id}",
    "Change an endpoint from the next attempt on; `order`, `payload` and `operational` never change.",
    takes=EndpointChange,
    answers=EndpointShape,
)
async def change(call: Call) -> Response:
    body = call.read(EndpointChange)
    present = await find(call)
    for field in ("order", "payload", "operational"):
        if getattr(body, field) not in (UNSET, getattr(present, field)):
            raise Problem(
                "immutable_field",
                f"{field} cannot be changed after the endpoint was created; create another endpoint",
                errors=[{"field": field}],
            )
    fields = _set_fields(body)
    if isinstance(body.secret, str):
        fields["keys"] = (SigningKey(body.secret, since=call.services.now()),)
    if isinstance(body.url, str) and body.url != views.masked_url(present.url):  # as it was shown: it stays
        fields["url"] = body.url

    def changed(old: Endpoint) -> Endpoint:
        given = fields.get("headers", tuple((name, views.HIDDEN) for name, _ in old.headers))
        url = with_hidden_query(fields.get("url", old.url), old)
        if hidden := [name for name, value in given if value == views.HIDDEN]:
            must_stay(call, url, old, hidden)
        return replace(old, **{**fields, "url": url, "headers": with_hidden(given, old)})

    return answer(await _view(call, await _update(call, changed)))


@routes.post("/{id}/pause", "Send nothing to it; all is kept.", answers=EndpointShape)
async def pause(call: Call) -> Response:
    def paused(old: Endpoint) -> Endpoint:
        if old.state is EndpointState.PAUSED:
            return old
        return replace(old, state=EndpointState.PAUSED, paused_by=call.actor, paused_at=call.services.now())

    return answer(await _view(call, await _update(call, paused)))


@routes.post(
    "/{id}/resume",
    "Send to it again, also after it answered 410; with `rate` no faster than so many a second.",
    takes=Resumption,
    answers=EndpointShape,
)
async def resume(call: Call) -> Response:
    """Send to it again; with a rate, so that what has piled up does not come all at once."""
    body = call.read(Resumption) if call.body else Resumption()

    def resumed(old: Endpoint) -> Endpoint:
        rate = old.rate_limit if isinstance(body.rate, UnsetType) else body.rate
        return replace(old, state=EndpointState.ACTIVE, paused_by="", paused_at=None, rate_limit=rate)

    return answer(await _view(call, await _update(call, resumed)))


@routes.post(
    "/{id}/rotate",
    "Sign with a new secret; the old one goes on beside it for the overlap. At most ten sign: the oldest gives way.",
    takes=Rotation,
    answers=EndpointWithSecret,
    tells_secret=True,
)
async def rotate(call: Call) -> Response:
    """A new secret signs first; the old ones go on beside it until the overlap ends, so no delivery fails to verify."""
    services = call.services
    body = call.read(Rotation)
    if not 0 <= body.overlap_s <= OVERLAP_S_MAX:
        raise Problem("invalid_endpoint", f"overlap_s must be from 0 to {OVERLAP_S_MAX}, got {body.overlap_s}")
    secret = body.secret or new_key(body.signature, services.chance(SECRET_BYTES))
    now = services.now()
    until = Instant(now + body.overlap_s * 1000)

    def rotated(old: Endpoint) -> Endpoint:
        ending = [
            replace(key, expires_at=until if key.expires_at is None else min(until, key.expires_at))
            for key in old.keys
            if key.secret != secret
        ]
        alive = [key for key in ending if key.expires_at is not None and key.expires_at > now]
        return replace(old, keys=(SigningKey(secret, since=now), *alive[: KEYS_MAX - 1]))

    endpoint = await _update(call, rotated)
    return answer({**await _view(call, endpoint), **_given_away(secret)})


@routes.delete(
    "/{id}",
    "Delete an endpoint; what it is owed is delivered first, or cancelled.",
    status=204,
    query=(Param("backlog", "drain (default) or cancel", one_of(("drain", "cancel"))),),
)
async def delete(call: Call) -> Response:
    """A tombstone: what is owed is still delivered (`drain`) or cancelled (`cancel`), and nothing new is taken."""
    backlog = call.word("backlog", ("drain", "cancel"), "drain")
    state = EndpointState.CANCELLING if backlog == "cancel" else EndpointState.DRAINING
    await _update(call, lambda old: replace(old, state=old.state.to(state)), deleting=True)
    return Response(204)


async def find(call: Call) -> Endpoint:
    endpoint = await call.services.store.endpoint(call.tenant, call.params["id"])
    if endpoint is None:
        raise Problem("not_found", "there is no endpoint with this id")
    return endpoint


async def _view(call: Call, endpoint: Endpoint) -> views.View:
    services = call.services
    health = await services.store.health(call.tenant)
    facts = (await services.facts.of(call.tenant)).get(endpoint.id, EndpointFacts())
    return views.endpoint(endpoint, health.get(endpoint.id), facts, services.now())


async def endpoint_views(services: Services, tenant: str) -> list[views.View]:
    """All endpoints as the list shows them."""
    health, facts = await services.store.health(tenant), await services.facts.of(tenant)
    return [
        views.endpoint(one, health.get(one.id), facts.get(one.id, EndpointFacts()), services.now())
        for one in await services.store.endpoints(tenant)
    ]


def _given_away(secret: str) -> views.View:
    """What the receiver needs to verify, shown this once; the private half of a key pair never leaves."""
    half = views.half_to_show(secret)
    return {"secret": secret if half is None else None, "public_key": half}


async def _update(call: Call, changed: Callable[[Endpoint], Endpoint], *, deleting: bool = False) -> Endpoint:
    """Save what *changed* makes of the endpoint as it is now; what another request changed in between is not undone."""
    for _ in range(TRIES):
        old = await find(call)
        if old.state.is_deleted and not deleting:
            raise Problem("wrong_state", "the endpoint is being deleted and cannot be changed any more")
        new = changed(old)
        if new == old:
            return old
        if not deleting:
            _check(call, new, old)
        if await call.services.store.save_endpoint(new, expect=old, act=_act(call, old, new)):
            call.services.endpoints_changed()
            await call.services.heard()
            return new
    raise Problem(
        "changed", "other requests keep changing this endpoint; nothing was changed by this one, so send it again"
    )


def _act(call: Call, old: Endpoint | None, new: Endpoint) -> Act:
    """What was done to an endpoint. Of what changed only the names: a value may be a secret."""
    if old is None:
        return call.act("endpoint.created", new.id, new.url.partition("?")[0])
    changed = [field.name for field in fields(Endpoint) if getattr(old, field.name) != getattr(new, field.name)]
    if new.state is not old.state:
        verbs = {
            EndpointState.ACTIVE: "resumed",
            EndpointState.PAUSED: "paused",
            EndpointState.DRAINING: "deleted",
            EndpointState.CANCELLING: "deleted",
        }
        note = {EndpointState.DRAINING: "backlog=drain", EndpointState.CANCELLING: "backlog=cancel"}
        return call.act(f"endpoint.{verbs.get(new.state, new.state)}", new.id, note.get(new.state, ""))
    if changed == ["keys"]:
        return call.act("endpoint.rotated", new.id)
    return call.act("endpoint.changed", new.id, ", ".join(changed))


def _check(call: Call, endpoint: Endpoint, old: Endpoint | None = None) -> None:
    """The one place where an endpoint's settings are judged, whichever way they came.

    Only what differs from *old*: an endpoint that was saved before a rule became stricter can still be paused.
    """
    try:
        if old is None or endpoint.url != old.url:
            call.services.guard.check(endpoint.url)
    except UrlNotAllowed as error:
        raise Problem("url_not_allowed", str(error), errors=[{"field": "url", "detail": str(error)}]) from None
    known = [] if old is None else _all_faults(old)
    if faults := [fault for fault in _all_faults(endpoint) if fault not in known]:
        errors = [{"field": field, "detail": detail} for field, detail in faults]
        raise Problem("invalid_endpoint", "; ".join(f"{field}: {detail}" for field, detail in faults), errors=errors)


def _all_faults(endpoint: Endpoint) -> list[tuple[str, str]]:
    return [*faults_of(endpoint), *hidden_faults(endpoint), *_ca_faults(endpoint.ca_pem)]


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
