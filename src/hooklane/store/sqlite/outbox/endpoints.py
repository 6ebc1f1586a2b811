"""Where are the endpoints kept? As documents, each write with a new revision, so that pollers find it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hooklane.model.audit import Act
from hooklane.model.endpoint import Endpoint
from hooklane.store.codec import decode_endpoint, encode_endpoint
from hooklane.store.sqlite.outbox import audit


def save_endpoint(
    conn: sqlite3.Connection, endpoint: Endpoint, expect: Endpoint | None, act: Act | None = None
) -> bool:
    found = read_endpoint(conn, endpoint.id)
    if found != expect:
        return False
    write_endpoint(conn, endpoint)
    if act is not None:
        audit.append(conn, act)
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


_DELETED = "json_extract(CAST(doc AS TEXT), '$.state') IN ('draining', 'cancelling')"
_CANCEL_DEAD = """
UPDATE hooklane_loose SET state = 'cancelled', rev = rev + 1 WHERE state = 'dead' AND endpoint_id IN
    (SELECT id FROM hooklane_endpoint WHERE json_extract(CAST(doc AS TEXT), '$.state') = 'cancelling')
RETURNING n
"""
_REMOVE = f"""
DELETE FROM hooklane_endpoint WHERE {_DELETED}
AND NOT EXISTS (SELECT 1 FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
    WHERE t.endpoint_id = hooklane_endpoint.id AND coalesce(l.head, 1) <= t.tail)
AND NOT EXISTS (SELECT 1 FROM hooklane_loose l
    WHERE l.endpoint_id = hooklane_endpoint.id AND l.state IN ('queued', 'retrying', 'dead'))
AND NOT EXISTS (SELECT 1 FROM hooklane_redelivery r
    WHERE r.endpoint_id = hooklane_endpoint.id AND r.state IN ('active', 'retrying') AND r.head <= r.tail)
"""


def any_deleted(conn: sqlite3.Connection) -> bool:
    return conn.execute(f"SELECT 1 FROM hooklane_endpoint WHERE {_DELETED}").fetchone() is not None


def finish_deletions(conn: sqlite3.Connection) -> int:
    """Forget deleted endpoints, their secrets included, as soon as nothing is owed to them."""
    # Loose dead letters are in no owner's hands, so nobody else would cancel them.
    for (n,) in conn.execute(_CANCEL_DEAD).fetchall():
        conn.execute("UPDATE hooklane_dead_letter SET state = 'cancelled' WHERE lane_id = ? AND state = 'open'", (-n,))
    removed = conn.execute(_REMOVE).rowcount
    if removed:
        conn.execute("UPDATE hooklane_counter SET value = value + 1 WHERE name = 'endpoint'")  # caches look again
    return removed
