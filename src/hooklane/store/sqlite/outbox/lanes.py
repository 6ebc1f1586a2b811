"""What does an owner read? The lanes with work, what is new since a mark, and events that are due."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hooklane.model.event import Event
from hooklane.model.lane import Grown, LaneId, LaneRow, LaneState
from hooklane.model.redelivery import is_redelivery, redelivery_lane
from hooklane.store.codec import decode_endpoint
from hooklane.store.outbox import Load, News
from hooklane.store.sqlite.outbox import health, redeliveries
from hooklane.store.sqlite.outbox.leases import store_now

_LANES = """
SELECT t.lane_id, t.pid, t.endpoint_id, t.key, coalesce(l.head, 1), t.tail, coalesce(l.state, 'active'),
       coalesce(l.attempts, 0), coalesce(l.next_at, 0), coalesce(l.rev, 0), coalesce(l.acked, 0),
       coalesce(l.starts, 0)
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
"""
_LOOSE = """
SELECT -n, pid, endpoint_id, NULL, 1, 1, CASE state WHEN 'retrying' THEN 'retrying' ELSE 'active' END,
       attempts, next_at, rev, 0, starts
FROM hooklane_loose
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a poll has read: SQLite commits in order, so a number tells everything."""

    lane_event: int
    loose: int
    recovered: int
    endpoint: int
    health: int


@dataclass(frozen=True, slots=True)
class Span:
    """What one publish wrote: numbers from *first* to *last*, without a gap, since nobody else writes meanwhile."""

    lane_event_first: int
    lane_event_last: int
    loose_first: int
    loose_last: int

    def past(self, mark: Mark) -> Mark | None:
        if self.lane_event_first > mark.lane_event + 1 or self.loose_first > mark.loose + 1:
            return None
        return replace(
            mark, lane_event=max(mark.lane_event, self.lane_event_last), loose=max(mark.loose, self.loose_last)
        )


def load(conn: sqlite3.Connection, worker: str, epochs: Mapping[int, int]) -> Load:
    """One snapshot for all of it: a publish between the lanes and the mark would be in neither, and never be polled."""
    conn.execute("BEGIN")
    try:
        return _load(conn, worker, epochs)
    finally:
        conn.execute("COMMIT")


def _load(conn: sqlite3.Connection, worker: str, epochs: Mapping[int, int]) -> Load:
    held = conn.execute("SELECT pid, epoch FROM hooklane_part WHERE owner = ?", (worker,)).fetchall()
    lanes: dict[int, list[LaneRow]] = {pid: [] for pid, epoch in held if epochs.get(pid) == epoch}
    for query in (
        f"{_LANES} WHERE coalesce(l.head, 1) <= t.tail",
        f"{_LOOSE} WHERE state IN ('queued', 'retrying')",
        redeliveries.ROWS,
    ):
        for row in conn.execute(query):
            if row[1] in lanes:
                lanes[row[1]].append(_lane_row(row))
    docs = conn.execute("SELECT doc FROM hooklane_endpoint ORDER BY id").fetchall()
    endpoints = [decode_endpoint(doc) for (doc,) in docs]
    return Load(lanes, endpoints, _mark(conn), store_now(conn), health.turned_since(conn, 0))


def _mark(conn: sqlite3.Connection) -> Mark:
    last = dict(conn.execute("SELECT name, seq FROM sqlite_sequence"))
    counters = dict(conn.execute("SELECT name, value FROM hooklane_counter"))
    return Mark(
        lane_event=last.get("hooklane_lane_event", 0),
        loose=last.get("hooklane_loose", 0),
        recovered=last.get("hooklane_recovered", 0),
        endpoint=counters["endpoint"],
        health=counters["health"],
    )


def poll(conn: sqlite3.Connection, pids: Sequence[int], mark: Mark) -> News:
    conn.execute("BEGIN")  # one snapshot for all of it
    try:
        now, new_mark = store_now(conn), _mark(conn)
        if new_mark == mark:
            return News((), (), (), mark, now)
        wanted = set(pids)
        grown = [
            Grown(*row)
            for row in conn.execute(
                """
                SELECT t.lane_id, t.pid, t.endpoint_id, t.key, max(e.seq)
                FROM hooklane_lane_event e JOIN hooklane_lane_tail t USING (lane_id) WHERE e.n > ? GROUP BY e.lane_id
                UNION ALL SELECT -n, pid, endpoint_id, NULL, 1 FROM hooklane_loose
                WHERE n > ? AND state IN ('queued', 'retrying')
                """,
                (mark.lane_event, mark.loose),
            )
            if row[1] in wanted
        ]
        grown += [one for one in redeliveries.grown(conn, mark.recovered) if one.pid in wanted]
        recovered = conn.execute(
            """
            SELECT r.lane_id, coalesce(t.pid, l.pid) FROM hooklane_recovered r
            LEFT JOIN hooklane_lane_tail t ON t.lane_id = r.lane_id LEFT JOIN hooklane_loose l ON l.n = -r.lane_id
            WHERE r.n > ?
            """,
            (mark.recovered,),
        ).fetchall()
        docs = conn.execute("SELECT doc FROM hooklane_endpoint WHERE rev > ? ORDER BY rev", (mark.endpoint,)).fetchall()
        lane_ids = [lane_id for lane_id, pid in recovered if pid in wanted]
        turned = health.turned_since(conn, mark.health) if new_mark.health != mark.health else ()
        return News(grown, lane_ids, [decode_endpoint(doc) for (doc,) in docs], new_mark, now, turned)
    finally:
        conn.execute("COMMIT")


def reload(conn: sqlite3.Connection, lane_ids: Sequence[LaneId]) -> list[LaneRow]:
    rows: list[LaneRow] = []
    for lane_id in lane_ids:
        if lane_id > 0:
            row = conn.execute(f"{_LANES} WHERE t.lane_id = ?", (lane_id,)).fetchone()
        elif is_redelivery(lane_id):
            row = conn.execute(f"{redeliveries.ROWS} AND n = ?", (redelivery_lane(lane_id),)).fetchone()
        else:
            row = conn.execute(f"{_LOOSE} WHERE n = ? AND state IN ('queued', 'retrying')", (-lane_id,)).fetchone()
        if row is not None:
            rows.append(_lane_row(row))
    return rows


def _lane_row(row: Sequence[object]) -> LaneRow:
    lane_id, pid, endpoint_id, key, head, tail, state, *rest = row
    state = LaneState.IDLE if head > tail else LaneState(state)  # type: ignore[operator,arg-type]
    return LaneRow(lane_id, pid, endpoint_id, key, head, tail, state, *rest)  # type: ignore[arg-type]


_EVENT_COLUMNS = "e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of"


def fetch(conn: sqlite3.Connection, wants: Sequence[tuple[LaneId, int, int]]) -> Iterator[tuple[LaneId, int, Event]]:
    for lane_id, seq, many in wants:
        if lane_id > 0:
            for row in conn.execute(
                f"SELECT {_EVENT_COLUMNS}, l.seq FROM hooklane_lane_event l JOIN hooklane_event e ON e.n = l.event_n"
                " WHERE l.lane_id = ? AND l.seq >= ? ORDER BY l.seq LIMIT ?",
                (lane_id, seq, many),
            ):
                yield lane_id, row[7], Event(*row[:7])
        elif is_redelivery(lane_id):
            yield from redeliveries.fetch(conn, lane_id, seq, many)
        else:
            for row in conn.execute(
                f"SELECT {_EVENT_COLUMNS} FROM hooklane_loose l JOIN hooklane_event e ON e.n = l.event_n WHERE l.n = ?",
                (-lane_id,),
            ):
                yield lane_id, 1, Event(*row)
