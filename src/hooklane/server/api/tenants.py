"""Tenants: create, look at, change, suspend and resume, delete with a choice for what is owed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from hooklane.core.tenant import COUNT_MAX, ID_RULE, NAME_CHARS_MAX, RATE_MAX, RATE_MIN, faults_of
from hooklane.model.endpoint import EndpointState
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.tenant import Quota, Tenant, TenantState
from hooklane.server import views
from hooklane.server.call import PAGING, Call, Param, Response, Routes, answer
from hooklane.server.caller import unknown_tenant
from hooklane.server.problem import Problem
from hooklane.server.schema_words import TENANT, one_of, text_of, told
from hooklane.server.shapes import ListShape, QuotaShape, TenantShape, TenantWithLedger

TRIES = 5
_COUNT = {"minimum": 0, "maximum": COUNT_MAX}


class QuotaBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a tenant may use; null is without a bound, and what is left out stays as it is."""

    events_per_s: Annotated[float, told({"minimum": RATE_MIN, "maximum": RATE_MAX})] | UnsetType | None = UNSET
    endpoints: Annotated[int, told(_COUNT)] | UnsetType | None = UNSET
    bytes: Annotated[int, told(_COUNT)] | UnsetType | None = UNSET


class TenantChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What can be set on a tenant; what is left out stays as it is."""

    name: Annotated[str, told(text_of(NAME_CHARS_MAX))] | UnsetType = UNSET
    quota: QuotaBody | UnsetType = UNSET


class NewTenant(TenantChange, kw_only=True, forbid_unknown_fields=True):
    """A tenant: a customer, a team or an environment."""

    id: Annotated[str, told(TENANT)]


routes = Routes("tenants", "/api/v1/tenants", of_server=True)


@routes.post(
    "",
    f"Create a tenant. Its id: {ID_RULE}; it is never given twice.",
    status=201,
    takes=NewTenant,
    answers=TenantShape,
)
async def create(call: Call) -> Response:
    services = call.services
    body = call.read(NewTenant)
    tenant = _changed(Tenant(id=body.id, created_at=services.now()), body)
    _check(tenant)
    if not await services.store.save_tenant(tenant, expect=None, act=call.act("tenant.created", tenant.id)):
        raise Problem("tenant_exists", "a tenant has, or had, this id; an id is never given twice, so choose another")
    await services.tenants.look()
    return answer(_view(tenant), 201, headers=[("location", f"/api/v1/tenants/{tenant.id}")])


@routes.get("", "All tenants, by id.", query=PAGING, answers=ListShape[TenantShape])
async def listing(call: Call) -> Response:
    page = await call.services.store.tenants(call.cursor("tenants"), call.limit())
    return answer(call.listed("tenants", page, map(_view, page.items)))


@routes.get("/{tenant}", "A tenant, its ledger, and how much it uses.", answers=TenantWithLedger)
async def show(call: Call) -> Response:
    store, tenant = call.services.store, await _find(call)
    ledger = await store.ledger(tenant.id)
    return answer(
        {
            **_view(tenant),
            "endpoints": len(await store.endpoints(tenant.id)),
            "stored_bytes": await store.stored_bytes(tenant.id),
            "ledger": {str(state): count for state, count in ledger.items()},
        }
    )


@routes.patch("/{tenant}", "Change a tenant's name or quotas.", takes=TenantChange, answers=TenantShape)
async def change(call: Call) -> Response:
    body = call.read(TenantChange)
    return answer(_view(await _update(call, "tenant.changed", lambda old: _changed(old, body))))


@routes.post("/{tenant}/suspend", "Take nothing over HTTP and send nothing; all is kept.", answers=TenantShape)
async def suspend(call: Call) -> Response:
    return answer(_view(await _update(call, "tenant.suspended", _to(TenantState.SUSPENDED))))


@routes.post("/{tenant}/resume", "Go on where it was suspended.", answers=TenantShape)
async def resume(call: Call) -> Response:
    return answer(_view(await _update(call, "tenant.resumed", _to(TenantState.ACTIVE))))


@routes.delete(
    "/{tenant}",
    "Delete a tenant with its endpoints; what is owed is delivered first, or cancelled.",
    status=204,
    query=(Param("backlog", "drain (default) or cancel", one_of(("drain", "cancel"))),),
)
async def delete(call: Call) -> Response:
    """Nothing new is taken; what is owed is still delivered (`drain`) or cancelled (`cancel`)."""
    backlog = call.word("backlog", ("drain", "cancel"), "drain")
    if call.params["tenant"] == DEFAULT_TENANT:
        raise Problem("wrong_state", "the tenant `default` is always there and cannot be deleted")
    cancels = backlog == "cancel"
    state = TenantState.CANCELLING if cancels else TenantState.DRAINING
    endpoints = EndpointState.CANCELLING if cancels else EndpointState.DRAINING
    await _update(call, "tenant.deleted", _to(state), f"backlog={backlog}", endpoints=endpoints)
    return Response(204)


def _to(state: TenantState) -> Callable[[Tenant], Tenant]:
    return lambda old: replace(old, state=old.state.to(state))


async def _find(call: Call) -> Tenant:
    tenant = await call.services.store.tenant(call.params["tenant"])
    if tenant is None or tenant.state is TenantState.DELETED:
        raise unknown_tenant()
    return tenant


async def _update(
    call: Call,
    action: str,
    changed: Callable[[Tenant], Tenant],
    note: str = "",
    *,
    endpoints: EndpointState | None = None,
) -> Tenant:
    """Save what *changed* makes of the tenant as it is now; what another call changed in between is not undone."""
    services = call.services
    for _ in range(TRIES):
        old = await _find(call)
        if not old.is_there and endpoints is None:
            raise Problem("wrong_state", "the tenant is being deleted and cannot be changed any more")
        new = changed(old)
        if new == old:
            return old
        _check(new, old)
        act = call.act(action, new.id, note)
        if await services.store.save_tenant(new, expect=old, endpoints=endpoints, act=act):
            await services.tenants.look()
            services.endpoints_changed()
            await services.heard()
            return new
    raise Problem("changed", "other calls keep changing this tenant; nothing was changed by this one, so send it again")


def _changed(tenant: Tenant, body: TenantChange) -> Tenant:
    name = tenant.name if body.name is UNSET else body.name
    quota = tenant.quota if body.quota is UNSET else _quota(tenant.quota, body.quota)
    return replace(tenant, name=name, quota=quota)


def _quota(old: Quota, body: QuotaBody) -> Quota:
    given = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}
    return replace(old, **given)


def _check(tenant: Tenant, old: Tenant | None = None) -> None:
    """Only what differs from *old*: an id from before there were rules stays."""
    known = [] if old is None else faults_of(old)
    if faults := [fault for fault in faults_of(tenant) if fault not in known]:
        errors = [{"field": field, "detail": detail} for field, detail in faults]
        raise Problem("invalid_tenant", "; ".join(f"{field}: {detail}" for field, detail in faults), errors=errors)


def _view(tenant: Tenant) -> views.View:
    return views.filled(TenantShape, tenant, quota=views.filled(QuotaShape, tenant.quota))
