"""API keys: made, listed, revoked. The key itself is shown once; the store keeps its digest."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hooklane.core.api_key import CHANCE_BYTES, NAME_CHARS_MAX, digest_of, key_of
from hooklane.model.api_key import ApiKey, Scope
from hooklane.model.ids import new_id
from hooklane.server import views
from hooklane.server.call import Call, Response, Routes, answer, instant_of
from hooklane.server.caller import tenant_of_call
from hooklane.server.problem import Problem
from hooklane.server.schema_words import TENANT, TIME, text_of, told
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_access import ApiKeyShape, NewApiKeyShape

KEYS_MAX, KEYS_OF_TENANT_MAX = 10_000, 100
"""Every process that answers calls keeps all keys in memory; one tenant cannot use up the room of all."""
NO_KEY = "there is no key with this id"


class NewKey(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A key: a name for people, what it may do, and whose data it reaches (all tenants', unless it names one)."""

    name: Annotated[str, told(text_of(NAME_CHARS_MAX, least=1))]
    scopes: Annotated[list[Scope], told({"minItems": 1})]
    tenant: Annotated[str, told(TENANT)] | None = None
    expires_at: Annotated[str, told(TIME)] | None = None


routes = Routes("keys", "/api/v1/keys")


@routes.post(
    "", "Make an API key; it is shown this once.", status=201, takes=NewKey, tells_secret=True, answers=NewApiKeyShape
)
async def create(call: Call) -> Response:
    services, body = call.services, call.read(NewKey)
    now = services.now()
    tenant = body.tenant if body.tenant is not None else call.caller.tenant
    expires_at = None if body.expires_at is None else instant_of(body.expires_at)
    faults = []
    if not (len(body.name.strip()) >= 1 and len(body.name) <= NAME_CHARS_MAX and body.name.isprintable()):
        faults.append(("name", f"must be 1 to {NAME_CHARS_MAX} printable characters"))
    if not body.scopes:
        faults.append(("scopes", f"must be one or more of {', '.join(Scope)}"))
    if body.expires_at is not None and (expires_at is None or expires_at <= now):
        faults.append(("expires_at", "must be a time to come with its zone, such as 2030-03-01T12:00:00Z"))
    if faults:
        errors = [{"field": field, "detail": detail} for field, detail in faults]
        raise Problem("invalid_body", "; ".join(f"{field} {detail}" for field, detail in faults), errors=errors)
    if call.caller.tenant is not None and tenant != call.caller.tenant:
        raise Problem("forbidden", "a key of one tenant can make keys for that tenant alone")
    if tenant is not None:
        await services.tenants.look_for(tenant)
        tenant_of_call(call.caller.tenant, tenant, services.tenants)
    keys = (await services.store.api_keys())[1]
    if len(keys) >= KEYS_MAX:
        raise Problem("wrong_state", f"there are {KEYS_MAX:,} keys already: revoke some")
    if tenant is not None and sum(one.tenant == tenant for one in keys) >= KEYS_OF_TENANT_MAX:
        raise Problem("wrong_state", f"the tenant has {KEYS_OF_TENANT_MAX} keys already: revoke some")
    text = key_of(services.chance(CHANCE_BYTES))
    key = ApiKey(
        id=new_id("key", now),
        name=body.name,
        digest=digest_of(text),
        scopes=tuple(scope for scope in Scope if scope in body.scopes),
        tenant=tenant,
        created_at=now,
        expires_at=expires_at,
    )
    note = f"{key.name}: {', '.join(key.scopes)}; {'all tenants' if tenant is None else f'tenant {tenant}'}"
    await services.store.add_key(key, act=call.act("key.created", key.id, note))
    await services.keys.look_anew()
    return answer({**_view(key), "key": text}, 201, headers=[("location", f"/api/v1/keys/{key.id}")])


@routes.get("", "All API keys.", answers=ListShape[ApiKeyShape])
async def listing(call: Call) -> Response:
    return answer({"items": [_view(key) for key in await _keys(call)], "next": None})


@routes.delete("/{id}", "Revoke an API key, at once.", status=204)
async def revoke(call: Call) -> Response:
    """At once in this process, and within a moment in every other one. Sessions that it opened end with it."""
    services, id = call.services, call.params["id"]
    known = {key.id: key for key in await _keys(call)}
    if id not in known:
        raise Problem("not_found", NO_KEY)
    if not await services.store.remove_key(id, act=call.act("key.revoked", id, known[id].name)):
        raise Problem("not_found", NO_KEY)
    services.sessions.forget()
    await services.keys.look_anew()
    return Response(204)


async def _keys(call: Call) -> list[ApiKey]:
    """The keys that the caller may know of: those of its tenant, or all."""
    _, keys = await call.services.store.api_keys()
    return [key for key in keys if call.caller.tenant in (None, key.tenant)]


def _view(key: ApiKey) -> views.View:
    return views.filled(ApiKeyShape, key)
