"""Endpoints are kept as documents, each write with a new revision, by which polls find it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hooklane.model.audit import Act
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.lane import LaneId
from hooklane.model.tenant import TenantState
from hooklane.store.codec import decode_endpoint, decode_tenant, encode_endpoint
from hooklane.store.revision import step
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.steps import Flow, sql

GRACE_MS = 24 * 3_600_000
"""How long a deleted endpoint is kept where transactions may run that have seen it alive."""


def save_endpoint(endpoint: Endpoint, expect: Endpoint | None, act: Act | None = None) -> Flow[bool]:
    rev = yield from next_rev()
    if (yield from read_endpoint(endpoint.id)) != expect:
        return False
    if expect is not None and expect.state.to(endpoint.state) is not endpoint.state:
        return False
    tenants = yield sql("tenant", id=endpoint.tenant)
    tenant = decode_tenant(tenants[0][0]) if tenants else None
    if tenant is None or not (tenant.is_there or expect is not None):
        return False
    yield from write(replace(endpoint, suspended=tenant.state is TenantState.SUSPENDED), rev)
    if act is not None:
        yield from audit.append(act)
    return True


def save_endpoints(changes: Sequence[tuple[Endpoint, Endpoint]], act: Act) -> Flow[int]:
    """All of one tenant, under one revision."""
    rev = yield from next_rev()
    many = 0
    for old, new in changes:
        if old.state.to(new.state) is new.state and (yield from read_endpoint(old.id)) == old:
            yield from write(replace(new, suspended=old.suspended), rev)
            many += 1
    if many:
        yield from audit.append(act)
    return many


def disable_endpoint(endpoint_id: str) -> Flow[None]:
    """The endpoint answered 410. It is read under the counter's lock, so that no person's change is undone."""
    rev = yield from next_rev()
    endpoint = yield from read_endpoint(endpoint_id)
    if endpoint is not None and endpoint.state is EndpointState.ACTIVE:
        yield from write(replace(endpoint, state=EndpointState.DISABLED), rev)


def next_rev() -> Flow[int]:
    ((rev,),) = yield sql("next_endpoint_rev", step=step())
    return int(rev)


def write(endpoint: Endpoint, rev: int) -> Flow[None]:
    yield sql("write_endpoint", id=endpoint.id, tenant=endpoint.tenant, doc=encode_endpoint(endpoint), rev=rev)


def read_endpoint(endpoint_id: str) -> Flow[Endpoint | None]:
    rows = yield sql("endpoint", id=endpoint_id)
    return decode_endpoint(rows[0][0]) if rows else None


def read_endpoints(tenant: str | None = None) -> Flow[Sequence[Endpoint]]:
    rows = yield sql("endpoints", tenant=tenant)
    return sorted((decode_endpoint(doc) for (doc,) in rows), key=lambda one: (one.created_at, one.id))


@dataclass(frozen=True, slots=True)
class Finished:
    """What deletions still ask for: dead deliveries without order to cancel, and endpoints to forget."""

    dead_loose: list[int]
    endpoints: list[str]


def finished_deletions() -> Flow[Finished]:
    """It only reads: to find that something is owed to an endpoint, many lanes may have to be looked at."""
    dead = [n for (n,) in (yield sql("dead_loose_to_cancel"))]
    return Finished(dead, [id for (id,) in (yield sql("finished_endpoints", grace_ms=GRACE_MS))])


def finish_deletions(found: Finished) -> Flow[None]:
    """Cancel and forget what was *found*, secrets included."""
    if found.dead_loose and (cancelled := [n for (n,) in (yield sql("cancel_dead_loose", ns=found.dead_loose))]):
        yield from cancel_letters([-n for n in cancelled])
    if found.endpoints:
        yield sql("forget_endpoints", ids=found.endpoints, grace_ms=GRACE_MS)


def cancel_letters(lanes: Sequence[LaneId]) -> Flow[None]:
    yield sql("cancel_letters", lanes=list(lanes))
