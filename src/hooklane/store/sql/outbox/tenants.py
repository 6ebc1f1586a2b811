"""Tenants are kept as documents, each write with a new revision of the endpoints' counter, whose lock it holds."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.audit import Act
from hooklane.model.endpoint import EndpointState
from hooklane.model.tenant import Tenant, TenantState
from hooklane.store.codec import decode_tenant, encode_tenant
from hooklane.store.reads import Page
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox import endpoints as endpoint_flows
from hooklane.store.sql.outbox.steps import Flow, sql
from hooklane.store.tenants import TenantNews


def read_tenant(tenant_id: str) -> Flow[Tenant | None]:
    rows = yield sql("tenant", id=tenant_id)
    return decode_tenant(rows[0][0]) if rows else None


def tenants(cursor: str | None, limit: int) -> Flow[Page[Tenant]]:
    rows = yield sql("tenants", after=cursor or "", limit=limit + 1)
    found = [decode_tenant(doc) for (doc,) in rows[:limit]]
    return Page(found, found[-1].id if len(rows) > limit else None)


def tenants_since(rev: int) -> Flow[TenantNews]:
    """The tenants that changed since the revision *rev*, and the revision now; run it on one snapshot."""
    ((seen,),) = yield sql("endpoint_rev")
    rows = (yield sql("tenants_since", rev=rev)) if seen != rev else ()
    return TenantNews([decode_tenant(doc) for (doc,) in rows], int(seen))


def save_tenant(
    tenant: Tenant, expect: Tenant | None, endpoints: EndpointState | None = None, act: Act | None = None
) -> Flow[bool]:
    rev = yield from endpoint_flows.next_rev()
    if (yield from read_tenant(tenant.id)) != expect:
        return False
    if expect is not None and expect.state.to(tenant.state) is not tenant.state:
        return False
    yield from _write(tenant, rev)
    if expect is not None and (endpoints is not None or tenant.state != expect.state):
        for endpoint in (yield from endpoint_flows.read_endpoints(tenant.id)):
            state = endpoint.state.to(endpoints or endpoint.state)
            held = replace(endpoint, suspended=tenant.state is TenantState.SUSPENDED, state=state)
            if held != endpoint:
                yield from endpoint_flows.write(held, rev)
    if act is not None:
        yield from audit.append(act)
    return True


def finished_deletions() -> Flow[endpoint_flows.Finished | None]:
    """What there is to finish; None where nothing is, as nearly always."""
    found = yield from endpoint_flows.finished_deletions()
    is_any = found.dead_loose or found.endpoints or (yield sql("emptied_tenants"))
    return found if is_any else None


def finish_deletions(found: endpoint_flows.Finished) -> Flow[None]:
    """Forget deleted endpoints that are owed nothing. A deleted tenant that has none left is gone; its id stays taken,
    since what it has left behind, until retention removes that, must not become another's."""
    yield from endpoint_flows.finish_deletions(found)
    if emptied := (yield sql("emptied_tenants")):
        rev = yield from endpoint_flows.next_rev()
        for (doc,) in emptied:
            yield from _write(replace(decode_tenant(doc), state=TenantState.DELETED), rev)


def stored_bytes(tenant_id: str) -> Flow[int]:
    ((size,),) = yield sql("stored_bytes", tenant=tenant_id)
    return int(size)


def greet(server: str, until_ms: int) -> Flow[int]:
    yield sql("greet", id=server, until_ms=until_ms)
    yield sql("forget_servers")
    ((many,),) = yield sql("count_servers")
    return int(many)


def _write(tenant: Tenant, rev: int) -> Flow[None]:
    yield sql("write_tenant", id=tenant.id, state=str(tenant.state), doc=encode_tenant(tenant), rev=rev)
