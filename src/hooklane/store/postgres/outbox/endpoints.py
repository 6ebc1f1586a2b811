"""Where are the endpoints kept? As documents, each write with a new revision, so that pollers find it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hooklane.model.audit import Act
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.codec import decode_endpoint, encode_endpoint
from hooklane.store.postgres.outbox import audit

_READ = "SELECT doc FROM hooklane.endpoint WHERE id = :id"
_LIST = "SELECT doc FROM hooklane.endpoint WHERE tenant = coalesce(:tenant::text, tenant)"
# The counter's lock is held until the commit: revisions become visible in order, and creators of one id queue up.
_NEXT_REV = Statement("UPDATE hooklane.counter SET value = value + 1 WHERE name = 'endpoint' RETURNING value")
_WRITE = """
INSERT INTO hooklane.endpoint (id, tenant, doc, rev) VALUES (:id, :tenant, :doc, :rev)
ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, rev = excluded.rev, changed_at = excluded.changed_at RETURNING id
"""


def save_endpoint(endpoint: Endpoint, expect: Endpoint | None, act: Act | None = None) -> Flow[bool]:
    ((rev,),) = yield _NEXT_REV
    if (yield from read_endpoint(endpoint.id)) != expect:
        return False
    yield from _write(endpoint, rev)
    if act is not None:
        yield from audit.append(act)
    return True


def disable_endpoint(endpoint_id: str) -> Flow[None]:
    """It answered that it is gone; read under the counter's lock, so that nobody's change is undone."""
    ((rev,),) = yield _NEXT_REV
    endpoint = yield from read_endpoint(endpoint_id)
    if endpoint is not None and endpoint.state is EndpointState.ACTIVE:
        yield from _write(replace(endpoint, state=EndpointState.DISABLED), rev)


def _write(endpoint: Endpoint, rev: int) -> Flow[None]:
    doc = {"id": endpoint.id, "tenant": endpoint.tenant, "doc": encode_endpoint(endpoint), "rev": rev}
    yield Statement(_WRITE, doc)


def read_endpoint(endpoint_id: str) -> Flow[Endpoint | None]:
    rows = yield Statement(_READ, {"id": endpoint_id})
    return decode_endpoint(rows[0][0]) if rows else None


def read_endpoints(tenant: str | None) -> Flow[Sequence[Endpoint]]:
    rows = yield Statement(_LIST, {"tenant": tenant})
    return sorted((decode_endpoint(doc) for (doc,) in rows), key=lambda one: (one.created_at, one.id))
