"""How many of each? The ledger, the lanes by state, and the oldest that waits."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneState


def ledger(conn: sqlite3.Connection, tenant: str, endpoint_id: str | None) -> Mapping[DeliveryState | str, int]:
    """Each delivery counted once, by where it stands."""
    counts: dict[DeliveryState | str, int] = dict.fromkeys(DeliveryState, 0)
    params = {"tenant": tenant, "endpoint": endpoint_id}
    row = conn.execute(
        """
        SELECT coalesce(sum(tail), 0), coalesce(sum(head - 1), 0),
               coalesce(sum(state = 'retrying' AND head <= tail), 0), coalesce(sum(state = 'blocked'), 0)
        FROM (SELECT t.tail, coalesce(l.head, 1) AS head, coalesce(l.state, 'active') AS state
              FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
              WHERE t.tenant = :tenant AND (:endpoint IS NULL OR t.endpoint_id = :endpoint))
        """,
        params,
    ).fetchone()
    accepted, passed, retrying, dead = row
    gone = conn.execute(
        """
        SELECT s.kind, sum(s.upto - s.seq + 1) FROM hooklane_skipped s JOIN hooklane_lane_tail t USING (lane_id)
        WHERE s.tenant = :tenant AND (:endpoint IS NULL OR t.endpoint_id = :endpoint) GROUP BY s.kind
        UNION ALL SELECT state, many FROM hooklane_past
        WHERE kind = 'lane' AND tenant = :tenant AND (:endpoint IS NULL OR endpoint_id = :endpoint)
        """,
        params,
    ).fetchall()
    for kind, many in gone:
        counts[DeliveryState(kind)] += many
    counts[DeliveryState.DELIVERED] += passed - sum(many for _, many in gone)
    counts[DeliveryState.RETRYING] += retrying
    counts[DeliveryState.DEAD] += dead
    counts[DeliveryState.QUEUED] += accepted - passed - retrying - dead
    loose = conn.execute(
        """
        SELECT state, count(*) FROM hooklane_loose WHERE tenant = :tenant
        AND (:endpoint IS NULL OR endpoint_id = :endpoint) GROUP BY state
        UNION ALL SELECT state, many FROM hooklane_past
        WHERE kind = 'loose' AND tenant = :tenant AND (:endpoint IS NULL OR endpoint_id = :endpoint)
        """,
        params,
    ).fetchall()
    for state, many in loose:
        counts[DeliveryState(state)] += many
        accepted += many
    counts["accepted"] = accepted
    return counts


def lane_counts(conn: sqlite3.Connection, tenant: str | None) -> Mapping[LaneState, int]:
    counts = dict.fromkeys(LaneState, 0)
    rows = conn.execute(
        """
        SELECT CASE WHEN head > tail THEN 'idle' WHEN state = 'blocked' THEN 'blocked' WHEN paused THEN 'paused'
               ELSE state END, count(*)
        FROM (SELECT t.tail, coalesce(l.head, 1) AS head, coalesce(l.state, 'active') AS state,
                     json_extract(CAST(p.doc AS TEXT), '$.state') IN ('paused', 'disabled') AS paused
              FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
              LEFT JOIN hooklane_endpoint p ON p.id = t.endpoint_id WHERE t.tenant = coalesce(?, t.tenant))
        GROUP BY 1
        """,
        (tenant,),
    )
    for state, many in rows:
        counts[LaneState(state)] = many
    return counts


def oldest_pending_at(conn: sqlite3.Connection, tenant: str | None) -> Instant | None:
    row = conn.execute(
        """
        SELECT min(at) FROM (
            SELECT min(e.created_at) AS at FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
            JOIN hooklane_lane_event le ON le.lane_id = t.lane_id AND le.seq = coalesce(l.head, 1)
            JOIN hooklane_event e ON e.n = le.event_n WHERE t.tenant = coalesce(:tenant, t.tenant)
            UNION ALL
            SELECT min(e.created_at) FROM hooklane_loose l JOIN hooklane_event e ON e.n = l.event_n
            WHERE l.state IN ('queued', 'retrying') AND l.tenant = coalesce(:tenant, l.tenant)
        )
        """,
        {"tenant": tenant},
    ).fetchone()
    return Instant(row[0]) if row[0] is not None else None


def size_bytes(conn: sqlite3.Connection, path: str) -> int:
    """The file, with the log that is not folded into it yet."""
    ((pages, page_bytes),) = conn.execute("SELECT * FROM pragma_page_count(), pragma_page_size()").fetchall()
    log = Path(f"{path}-wal")
    return int(pages * page_bytes) + (log.stat().st_size if log.exists() else 0)
