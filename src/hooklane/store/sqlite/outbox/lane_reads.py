"""How do the lanes stand? Those that need attention first."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from hooklane.model.lane import LaneId, LaneState
from hooklane.store.cursors import rank_and_lane_of
from hooklane.store.reads import Delivery, LaneView, Page
from hooklane.store.sqlite.outbox.event_reads import delivery

_LANES = """
SELECT t.lane_id, t.endpoint_id, t.key, coalesce(l.head, 1) AS head, t.tail, coalesce(l.state, 'active') AS state,
       coalesce(l.attempts, 0), l.next_at, l.since, l.reason,
       json_extract(CAST(p.doc AS TEXT), '$.state') IN ('paused', 'disabled') AS paused
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
LEFT JOIN hooklane_endpoint p ON p.id = t.endpoint_id
"""


def lane(conn: sqlite3.Connection, tenant: str, endpoint_id: str, key: str) -> LaneView | None:
    sql = f"{_LANES} WHERE t.tenant = ? AND t.endpoint_id = ? AND t.key = ?"
    row = conn.execute(sql, (tenant, endpoint_id, key)).fetchone()
    return _view(conn, row) if row else None


def lanes(
    conn: sqlite3.Connection,
    tenant: str,
    states: Sequence[LaneState] | None,
    endpoint_id: str | None,
    text: str | None,
    cursor: str | None,
    limit: int,
) -> Page[LaneView]:
    """Those that need attention first (blocked, retrying, active), then the idle; the newest lane first in each."""
    rank, above = rank_and_lane_of(cursor)
    rows = conn.execute(
        f"""
        SELECT * FROM (
            SELECT *, CASE WHEN head > tail THEN 4 WHEN state = 'blocked' THEN 0 WHEN paused THEN 2
            WHEN state = 'retrying' THEN 1 ELSE 3 END AS rank FROM ({_LANES}
            WHERE t.tenant = :tenant AND (:endpoint IS NULL OR t.endpoint_id = :endpoint)
              AND (:text IS NULL OR instr(lower(t.key), lower(:text)) > 0))
        ) WHERE (:ranks IS NULL OR instr(:ranks, rank) > 0) AND (rank > :rank OR (rank = :rank AND lane_id < :above))
        ORDER BY rank, lane_id DESC LIMIT :limit
        """,
        {
            "tenant": tenant,
            "endpoint": endpoint_id,
            "text": text,
            "ranks": None if states is None else "".join(str(RANKS[state]) for state in states if state in RANKS),
            "rank": rank,
            "above": above,
            "limit": limit + 1,
        },
    ).fetchall()
    more = f"{rows[limit - 1][-1]}.{rows[limit - 1][0]}" if len(rows) > limit else None
    return Page([_view(conn, row) for row in rows[:limit]], more)


RANKS = {
    LaneState.BLOCKED: 0,
    LaneState.RETRYING: 1,
    LaneState.PAUSED: 2,
    LaneState.ACTIVE: 3,
    LaneState.IDLE: 4,
}


def _view(conn: sqlite3.Connection, row: Sequence[Any]) -> LaneView:
    lane_id, endpoint_id, key, head, tail, state, tried, next_at, since, reason, paused = row[:11]
    at_head = conn.execute(
        "SELECT e.id, e.type FROM hooklane_lane_event l JOIN hooklane_event e ON e.n = l.event_n"
        " WHERE l.lane_id = ? AND l.seq = ?",
        (lane_id, head),
    ).fetchone()
    letter = conn.execute(
        "SELECT id FROM hooklane_dead_letter WHERE lane_id = ? AND seq = ? AND state = 'open'", (lane_id, head)
    ).fetchone()
    return LaneView(
        lane_id=lane_id,
        endpoint_id=endpoint_id,
        key=key,
        state=_shown(state, head, tail, paused),
        head=head,
        tail=tail,
        attempts=tried,
        next_at=next_at or None,
        since=since or None,
        reason=reason,
        dead_letter_id=letter[0] if letter else None,
        head_event_id=at_head[0] if at_head else None,
        head_type=at_head[1] if at_head else None,
    )


def _shown(state: str, head: int, tail: int, paused: int | None) -> LaneState:
    if head > tail:
        return LaneState.IDLE
    return LaneState.PAUSED if paused and state != "blocked" else LaneState(state)


def lane_deliveries(conn: sqlite3.Connection, lane_id: LaneId, from_seq: int, limit: int) -> list[Delivery]:
    rows = conn.execute(
        "SELECT e.id, t.endpoint_id, l.seq FROM hooklane_lane_event l JOIN hooklane_event e ON e.n = l.event_n"
        " JOIN hooklane_lane_tail t USING (lane_id) WHERE l.lane_id = ? AND l.seq >= ? ORDER BY l.seq LIMIT ?",
        (lane_id, from_seq, limit),
    ).fetchall()
    return [delivery(conn, event_id, endpoint_id, lane_id, seq) for event_id, endpoint_id, seq in rows]
