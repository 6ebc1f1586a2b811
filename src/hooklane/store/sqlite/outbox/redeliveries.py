"""How is a delivered event sent again? In redelivery lanes: lines with a head of their own, beside what is owed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Settlement, Start, Write
from hooklane.model.lane import Grown, LaneId
from hooklane.model.redelivery import REDELIVERIES, Redelivery, redelivery_lane

ROWS = f"""
SELECT {REDELIVERIES} - n, pid, endpoint_id, NULL, head, tail, state, attempts, next_at, 0, 0, starts
FROM hooklane_redelivery WHERE state IN ('active', 'retrying') AND head <= tail
"""
_GROWN = f"""
SELECT {REDELIVERIES} - d.n, d.pid, d.endpoint_id, NULL, d.tail FROM hooklane_redelivery d
WHERE d.n IN (SELECT {REDELIVERIES} - lane_id FROM hooklane_recovered WHERE n > ? AND lane_id < {REDELIVERIES})
    AND d.state IN ('active', 'retrying') AND d.head <= d.tail
"""
_FETCH = """
SELECT e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of, m.lane_id, m.key, m.seq, m.pos
FROM hooklane_member m JOIN hooklane_event e ON e.tenant = m.tenant AND e.id = m.event_id
WHERE m.redelivery = ? AND m.pos >= ? ORDER BY m.pos LIMIT ?
"""
_ACK = """
UPDATE hooklane_redelivery SET head = :seq + 1, state = 'active', attempts = 0, next_at = 0, reason = NULL,
    starts = 0
WHERE n = :n AND head = :seq AND state IN ('active', 'retrying')
"""
_HOLD = """
UPDATE hooklane_redelivery SET state = :state, attempts = :attempt, next_at = :next_at, reason = :reason,
    starts = 0
WHERE n = :n AND head = :seq AND attempts <= :attempt
    AND (state IN ('active', 'retrying') OR (state = :state AND attempts = :attempt))
"""
_START = """
UPDATE hooklane_redelivery SET attempts = :attempt, starts = :starts
WHERE n = :n AND head = :seq AND :attempt - attempts IN (0, 1)
    AND (starts < :starts OR (starts = :starts AND attempts = :attempt)) AND state IN ('active', 'retrying')
"""
_CANCEL = "UPDATE hooklane_redelivery SET state = 'cancelled' WHERE n = :n AND state <> 'cancelled'"


def grown(conn: sqlite3.Connection, after: int) -> Iterator[Grown]:
    """Redelivery lanes that were made or grew longer since wake-up number *after*."""
    for row in conn.execute(_GROWN, (after,)):
        yield Grown(*row)


def fetch(conn: sqlite3.Connection, lane_id: LaneId, pos: int, many: int) -> Iterator[tuple[LaneId, int, Redelivery]]:
    for row in conn.execute(_FETCH, (redelivery_lane(lane_id), pos, many)).fetchall():
        was, key, seq, at = row[7:]
        ordered = seq is not None
        prev_seq = _acked_before(conn, was, seq) if ordered else 0
        place = {"lane_id": was, "lane_key": key if ordered else None, "seq": seq, "prev_seq": prev_seq}
        yield lane_id, at, Redelivery(*row[:7], **place)


def _acked_before(conn: sqlite3.Connection, lane_id: LaneId, seq: int) -> int:
    """What the first copy said of its predecessor: the largest seq below that was not passed over."""
    prev = seq - 1
    while True:
        row = conn.execute(
            "SELECT seq FROM hooklane_skipped WHERE lane_id = ? AND seq <= ? AND upto >= ?", (lane_id, prev, prev)
        ).fetchone()
        if row is None:
            return prev
        prev = row[0] - 1


def write(conn: sqlite3.Connection, wanted: Write) -> bool:
    """Make an owner's write durable; False when the line is over or not where the owner believed it to be."""
    match wanted:
        case Settlement(send=send, outcome=outcome):
            params: dict[str, object] = {"n": redelivery_lane(send.lane_id), "seq": send.seq, "attempt": send.attempt}
            match outcome:
                case Delivered():
                    done = conn.execute(_ACK, params).rowcount
                    return bool(done) or _is_behind(conn, params)
                case Retry(at=at, reason=reason):
                    held = {"state": "retrying", "next_at": at, "reason": reason}
                case Gone(reason=reason):
                    held = {"state": "retrying", "next_at": 0, "reason": reason}
                case Dead(reason=reason):
                    held = {"state": "blocked", "next_at": 0, "reason": reason}
            return bool(conn.execute(_HOLD, {**params, **held}).rowcount)
        case Start(lane_id=lane_id, seq=seq, attempt=attempt, starts=starts):
            params = {"n": redelivery_lane(lane_id), "seq": seq, "attempt": attempt, "starts": starts}
            return bool(conn.execute(_START, params).rowcount)
        case Cancel(lane_id=lane_id):
            conn.execute(_CANCEL, {"n": redelivery_lane(lane_id)})
            return True


def _is_behind(conn: sqlite3.Connection, params: dict[str, object]) -> bool:
    """Whether the head has passed this one already: the same ack came before."""
    sql = "SELECT 1 FROM hooklane_redelivery WHERE n = :n AND head > :seq"
    return conn.execute(sql, params).fetchone() is not None


def place_of(lane_id: LaneId, seq: int, event: object) -> tuple[LaneId, int]:
    """Where an attempt is logged: that of a redelivery beside the first ones of its event."""
    return (event.lane_id, event.seq or 1) if isinstance(event, Redelivery) else (lane_id, seq)


def add(conn: sqlite3.Connection, plan_id: str, line: str, row: Sequence[object]) -> tuple[int, int] | None:
    """Let one more member of *line* be sent again: its redelivery lane and place; None when that line has stopped."""
    tenant, endpoint_id, pid = row
    found = conn.execute(
        """
        INSERT INTO hooklane_redelivery (tenant, plan_id, line, endpoint_id, pid, tail) VALUES (?, ?, ?, ?, ?, 1)
        ON CONFLICT (plan_id, line) DO UPDATE SET tail = tail + 1 WHERE state IN ('active', 'retrying')
        RETURNING n, tail
        """,
        (tenant, plan_id, line, endpoint_id, pid),
    ).fetchone()
    return None if found is None else (found[0], found[1])
