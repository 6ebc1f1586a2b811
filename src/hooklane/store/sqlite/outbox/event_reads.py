"""What became of an event? Its deliveries follow from where the heads of its lanes stand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hooklane.model.event import Event
from hooklane.model.ids import attempt_id
from hooklane.model.lane import LaneId
from hooklane.store.codec import decode_detail
from hooklane.store.cursors import number_of
from hooklane.store.reads import AttemptRow, Delivery, EventFilter, Page
from hooklane.store.shown import delivery_of, state_at

_EVENT = "e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of"


def event(conn: sqlite3.Connection, tenant: str, event_id: str) -> Event | None:
    row = conn.execute(
        f"SELECT {_EVENT} FROM hooklane_event e WHERE tenant = ? AND id = ?", (tenant, event_id)
    ).fetchone()
    return Event(*row) if row else None


def events(conn: sqlite3.Connection, tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Page[Event]:
    """Newest first. A filter by delivery state looks at each event's deliveries, page by page."""
    found: list[Event] = []
    below = number_of(cursor)
    while True:
        rows = conn.execute(
            f"""
            SELECT {_EVENT}, e.n FROM hooklane_event e
            WHERE e.tenant = :tenant AND (:below IS NULL OR e.n < :below)
              AND (:type IS NULL OR e.type GLOB :type) AND (:key IS NULL OR e.key = :key)
              AND (:after IS NULL OR e.created_at >= :after) AND (:before IS NULL OR e.created_at < :before)
            ORDER BY e.n DESC LIMIT :limit
            """,
            {
                "tenant": tenant,
                "below": below,
                "type": wanted.type,
                "key": wanted.key,
                "after": wanted.after,
                "before": wanted.before,
                "limit": limit + 1,
            },
        ).fetchall()
        shown = rows[:limit]
        states = deliveries(conn, tenant, [row[0] for row in shown]) if wanted.endpoint_id or wanted.state else {}
        for row in shown:
            below = row[7]
            if _is_wanted(states.get(row[0], ()), wanted):
                found.append(Event(*row[:7]))
                if len(found) == limit:
                    more = len(rows) > limit or row is not shown[-1]
                    return Page(found, str(below) if more else None)
        if len(rows) <= limit:
            return Page(found, None)


def _is_wanted(there: Iterable[Delivery], wanted: EventFilter) -> bool:
    if wanted.endpoint_id is None and wanted.state is None:
        return True
    return any(
        (wanted.endpoint_id is None or one.endpoint_id == wanted.endpoint_id)
        and (wanted.state is None or one.state is wanted.state)
        for one in there
    )


def deliveries(conn: sqlite3.Connection, tenant: str, event_ids: Sequence[str]) -> Mapping[str, Sequence[Delivery]]:
    found: dict[str, Sequence[Delivery]] = {}
    for event_id in event_ids:
        row = conn.execute(
            "SELECT stamps FROM hooklane_event WHERE tenant = ? AND id = ?", (tenant, event_id)
        ).fetchone()
        if row is not None:
            stamps = msgspec.json.decode(row[0])
            found[event_id] = [delivery(conn, event_id, endpoint, lane_id, seq) for endpoint, lane_id, seq in stamps]
    return found


def delivery(conn: sqlite3.Connection, event_id: str, endpoint_id: str, lane_id: LaneId, seq: int | None) -> Delivery:
    if lane_id < 0:
        sql = """
            SELECT l.state, l.attempts, l.next_at, l.reason, d.id FROM hooklane_loose l
            LEFT JOIN hooklane_dead_letter d ON d.lane_id = -l.n AND d.state = 'open' WHERE l.n = ?
        """
        state, attempts, next_at, reason, letter = conn.execute(sql, (-lane_id,)).fetchone()
        key = None
    else:
        sql = """
            SELECT t.key, coalesce(l.head, 1), coalesce(l.state, 'active'), coalesce(l.attempts, 0), l.next_at,
                   l.reason, s.kind, d.id
            FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
            LEFT JOIN hooklane_skipped s ON s.lane_id = t.lane_id AND :seq BETWEEN s.seq AND s.upto
            LEFT JOIN hooklane_dead_letter d ON d.lane_id = t.lane_id AND d.seq = :seq AND d.state = 'open'
            WHERE t.lane_id = :lane_id
        """
        found = conn.execute(sql, {"lane_id": lane_id, "seq": seq}).fetchone()
        key, head, state, attempts, next_at, reason, kind, letter = found
        state = state_at(seq or 1, head, state, kind)
        if seq != head:
            attempts, next_at, reason = 0, None, None
    return delivery_of(event_id, endpoint_id, lane_id, seq, (key, state, attempts, next_at, reason, letter))


def attempts(conn: sqlite3.Connection, tenant: str, event_id: str) -> list[AttemptRow]:
    sql = "SELECT stamps, created_at FROM hooklane_event WHERE tenant = ? AND id = ?"
    stamps, event_at = conn.execute(sql, (tenant, event_id)).fetchone() or (b"[]", 0)
    found: list[AttemptRow] = []
    for endpoint_id, lane_id, seq in msgspec.json.decode(stamps):
        rows = conn.execute(
            "SELECT started_at, attempt, took_ms, outcome, status, failure, said, detail FROM hooklane_attempt"
            " WHERE event_at = ? AND lane_id = ? AND seq = ? ORDER BY started_at, attempt",
            (event_at, lane_id, seq or 1),
        )
        for started_at, attempt, took_ms, outcome, status, failure, said, detail in rows:
            found.append(
                AttemptRow(
                    id=attempt_id(lane_id, seq or 1, attempt, started_at),
                    event_id=event_id,
                    endpoint_id=endpoint_id,
                    seq=seq,
                    attempt=attempt,
                    started_at=started_at,
                    took_ms=took_ms,
                    outcome=outcome,
                    status=status,
                    failure=failure,
                    detail=decode_detail(detail, said),
                )
            )
    return sorted(found, key=lambda one: one.started_at)
