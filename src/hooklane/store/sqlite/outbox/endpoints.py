"""Where are the endpoints kept? As documents, each write with a new revision, so that pollers find it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hooklane.model.endpoint import Endpoint
from hooklane.store.codec import decode_endpoint, encode_endpoint


def save_endpoint(conn: sqlite3.Connection, endpoint: Endpoint, expect: Endpoint | None) -> bool:
    found = read_endpoint(conn, endpoint.id)
    if found != expect:
        return False
    write_endpoint(conn, endpoint)
    return True


def write_endpoint(conn: sqlite3.Connection, endpoint: Endpoint) -> None:
    (rev,) = conn.execute(
        "UPDATE hooklane_counter SET value = value + 1 WHERE name = 'endpoint' RETURNING value"
    ).fetchone()
    conn.execute(
        "INSERT INTO hooklane_endpoint (id, tenant, doc, rev) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, rev = excluded.rev",
        (endpoint.id, endpoint.tenant, encode_endpoint(endpoint), rev),
    )


def read_endpoint(conn: sqlite3.Connection, endpoint_id: str) -> Endpoint | None:
    row = conn.execute("SELECT doc FROM hooklane_endpoint WHERE id = ?", (endpoint_id,)).fetchone()
    return decode_endpoint(row[0]) if row else None


def read_endpoints(conn: sqlite3.Connection, tenant: str | None) -> Sequence[Endpoint]:
    rows = conn.execute("SELECT doc FROM hooklane_endpoint WHERE tenant = coalesce(?, tenant)", (tenant,))
    return sorted((decode_endpoint(doc) for (doc,) in rows), key=lambda one: (one.created_at, one.id))
