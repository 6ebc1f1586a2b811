"""A database with very many events that were delivered before, or are owed, written straight into its tables."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

ENDPOINT = "ep_00000000000000000000000000"

_SQLITE = """
WITH RECURSIVE place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i + 1 < :events)
INSERT INTO hooklane_event (tenant, id, type, key, data, created_at, stamps)
SELECT 'default', 'old-' || i, 'order.' || (i % 7), 'old:' || (i % :lanes), CAST('{"n":' || i || '}' AS BLOB),
    :now - 86400000 + i,
    CAST('[["' || :endpoint || '",' || (:first + i % :lanes) || ',' || (1 + i / :lanes) || ']]' AS BLOB)
FROM place
"""
_SQLITE_LANE_EVENTS = """
INSERT INTO hooklane_lane_event (tenant, lane_id, seq, event_n)
SELECT 'default', json_extract(CAST(stamps AS TEXT), '$[0][1]'), json_extract(CAST(stamps AS TEXT), '$[0][2]'), n
FROM hooklane_event WHERE id GLOB 'old-*'
"""
_SQLITE_TAILS = """
WITH RECURSIVE place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i + 1 < :lanes)
INSERT INTO hooklane_lane_tail (lane_id, tenant, endpoint_id, key, pid, tail)
SELECT :first + i, 'default', :endpoint, 'old:' || i, i % 256, (:events - i + :lanes - 1) / :lanes FROM place
"""
_SQLITE_HEADS = """
INSERT INTO hooklane_lane (lane_id, tenant, head, acked)
SELECT lane_id, tenant, tail + 1, tail FROM hooklane_lane_tail WHERE lane_id >= :first
"""
_POSTGRES = """
WITH lanes AS (
    INSERT INTO hooklane.lane_name (tenant, endpoint_id, key, pid)
    SELECT 'default', $1::text, 'old:' || i, i % 256 FROM generate_series(0, $3::bigint - 1) i
    RETURNING lane_id, substr(key, 5)::bigint AS i
), events AS (
    INSERT INTO hooklane.event (n, tenant, id, type, key, data, created_at, stamps)
    SELECT nextval('hooklane.event_n'), 'default', 'old-' || p, 'order.' || (p % 7), 'old:' || i,
        convert_to('{"n":' || p || '}', 'UTF8'), $4::bigint - 86400000 + p,
        convert_to(format('[["%s",%s,%s]]', $1::text, lane_id, 1 + p / $3::bigint), 'UTF8')
    FROM (SELECT p, l.i, l.lane_id FROM generate_series(0, $2::bigint - 1) p JOIN lanes l ON l.i = p % $3::bigint
          ORDER BY p) o
    RETURNING n, (convert_from(stamps, 'UTF8')::json -> 0 ->> 1)::bigint AS lane_id,
        (convert_from(stamps, 'UTF8')::json -> 0 ->> 2)::bigint AS seq
), placed AS (
    INSERT INTO hooklane.lane_event (lane_id, seq, event_n, pid, tenant)
    SELECT e.lane_id, e.seq, e.n, l.i % 256, 'default' FROM events e JOIN lanes l USING (lane_id)
)
"""
_POSTGRES_HEADS = """
INSERT INTO hooklane.lane (lane_id, tenant, head, acked)
SELECT lane_id, 'default', max(seq) + 1, max(seq) FROM events GROUP BY lane_id
"""
_POSTGRES_OWED = "SELECT count(*) FROM events"


def fill(
    db: str, events: int, lanes: int, now_ms: int, *, endpoint_id: str = ENDPOINT, is_delivered: bool = True
) -> None:
    """*events* on *lanes* lanes into the outbox at *db*, whose tables are there already."""
    if db.startswith("sqlite:///"):
        _fill_sqlite(Path(db.removeprefix("sqlite:///")), events, lanes, now_ms, endpoint_id, is_delivered)
    else:
        asyncio.run(fill_postgres(db, events, lanes, now_ms, endpoint_id, is_delivered))


def _fill_sqlite(path: Path, events: int, lanes: int, now_ms: int, endpoint_id: str, is_delivered: bool) -> None:
    conn = sqlite3.connect(path, timeout=30)
    try:
        with conn:
            (last,) = conn.execute("SELECT coalesce(max(lane_id), 0) FROM hooklane_lane_tail").fetchone()
            about = {"events": events, "lanes": lanes, "now": now_ms, "endpoint": endpoint_id, "first": last + 1}
            statements = [_SQLITE, _SQLITE_LANE_EVENTS, _SQLITE_TAILS]
            for statement in [*statements, _SQLITE_HEADS] if is_delivered else statements:
                conn.execute(statement, about)
    finally:
        conn.close()


async def fill_postgres(
    db: str, events: int, lanes: int, now_ms: int, endpoint_id: str = ENDPOINT, is_delivered: bool = True
) -> None:
    import asyncpg

    connection = await asyncpg.connect(db)
    try:
        await connection.execute(
            _POSTGRES + (_POSTGRES_HEADS if is_delivered else _POSTGRES_OWED),
            endpoint_id,
            events,
            lanes,
            now_ms,
            timeout=600,
        )
        await connection.execute("ANALYZE")
    finally:
        await connection.close()
