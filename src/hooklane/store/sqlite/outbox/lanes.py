"""What does an owner read? The lanes with work, what is new since a mark, and events that are due."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace

from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.health import Health
from hooklane.model.lane import Grown, LaneId, LaneRow, LaneState
from hooklane.model.redelivery import is_redelivery, redelivery_lane
from hooklane.model.session import Session
from hooklane.store.codec import decode_endpoint
from hooklane.store.outbox import Load, News
from hooklane.store.sql.outbox import redeliveries
from hooklane.store.sql.outbox.health import health_of
from hooklane.store.sqlite.outbox.statements import SQL, run


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a poll has read: SQLite commits in order, so a number tells everything."""

    lane_event: int
    loose: int
    recovered: int
    endpoint: int
    health: int

    def is_behind(self, other: Mark) -> bool:
        """Whether a number is lower than in *other*. Numbers only grow, unless an older file was put in its place."""
        return any(mine < theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))


RESTORED = Session("", "restored", None, 0)
"""A file into which a backup was put under our connections is as good as another one."""


@dataclass(frozen=True, slots=True)
class Span:
    """What one publish wrote: numbers from *first* to *last*, without a gap, since no other writes meanwhile."""

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
    lanes = _owed(conn, worker, epochs)
    docs = conn.execute(SQL["all_endpoints"]).fetchall()
    endpoints = [decode_endpoint(doc) for (doc,) in docs]
    return Load(lanes, endpoints, _mark(conn), store_now(conn), _turned_since(conn, 0))


def owed(conn: sqlite3.Connection, worker: str, epochs: Mapping[int, int]) -> Mapping[int, Sequence[LaneRow]]:
    conn.execute("BEGIN")
    try:
        return _owed(conn, worker, epochs)
    finally:
        conn.execute("COMMIT")


def _owed(conn: sqlite3.Connection, worker: str, epochs: Mapping[int, int]) -> dict[int, list[LaneRow]]:
    held = conn.execute(SQL["held_partitions"], (worker,)).fetchall()
    lanes: dict[int, list[LaneRow]] = {pid: [] for pid, epoch in held if epochs.get(pid) == epoch}
    pids = json.dumps(list(lanes))
    for name in ("load_lanes", "load_loose", "load_redeliveries"):
        for row in conn.execute(SQL[name], (pids,)):
            lanes[row[1]].append(_lane_row(row))
    return lanes


def _mark(conn: sqlite3.Connection) -> Mark:
    last = dict(conn.execute(SQL["last_rows"]))
    counters = dict(conn.execute(SQL["counters"]))
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
        if new_mark.is_behind(mark):
            return News((), (), (), new_mark, now, session=RESTORED)
        wanted, since = set(pids), asdict(mark)
        grown = [
            Grown(*row)
            for name in ("grown", "grown_redeliveries")
            for row in conn.execute(SQL[name], since)
            if row[1] in wanted
        ]
        lane_ids = [lane_id for lane_id, pid in conn.execute(SQL["recovered"], since) if pid in wanted]
        docs = conn.execute(SQL["changed_endpoints"], since).fetchall()
        turned = _turned_since(conn, mark.health) if new_mark.health != mark.health else ()
        return News(grown, lane_ids, [decode_endpoint(doc) for (doc,) in docs], new_mark, now, turned)
    finally:
        conn.execute("COMMIT")


def reload(conn: sqlite3.Connection, lane_ids: Sequence[LaneId]) -> list[LaneRow]:
    rows: list[LaneRow] = []
    for lane_id in lane_ids:
        if lane_id > 0:
            row = conn.execute(SQL["reload_lane"], (lane_id,)).fetchone()
        elif is_redelivery(lane_id):
            row = conn.execute(SQL["reload_redelivery"], (redelivery_lane(lane_id),)).fetchone()
        else:
            row = conn.execute(SQL["reload_loose"], (-lane_id,)).fetchone()
        if row is not None:
            rows.append(_lane_row(row))
    return rows


def _lane_row(row: Sequence[object]) -> LaneRow:
    lane_id, pid, endpoint_id, key, head, tail, state, *rest = row
    state = LaneState.IDLE if head > tail else LaneState(state)  # type: ignore[operator,arg-type]
    return LaneRow(lane_id, pid, endpoint_id, key, head, tail, state, *rest)  # type: ignore[arg-type]


def store_now(conn: sqlite3.Connection) -> Instant:
    return Instant(conn.execute(SQL["store_now"]).fetchone()[0])


def _turned_since(conn: sqlite3.Connection, rev: int) -> list[Health]:
    return [health_of(row) for row in conn.execute(SQL["turned_health"], {"health": rev})]


def fetch(conn: sqlite3.Connection, wants: Sequence[tuple[LaneId, int, int]]) -> Iterator[tuple[LaneId, int, Event]]:
    for lane_id, seq, many in wants:
        if lane_id > 0:
            for row in conn.execute(SQL["fetch_lane"], (lane_id, seq, many)):
                yield lane_id, row[-1], Event(*row[:-1])
        elif not is_redelivery(lane_id):
            for row in conn.execute(SQL["fetch_loose"], (-lane_id,)):
                yield lane_id, 1, Event(*row)
    if again := [want for want in wants if is_redelivery(want[0])]:
        yield from run(conn, redeliveries.fetch(again))
