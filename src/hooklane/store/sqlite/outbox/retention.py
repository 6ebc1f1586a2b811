"""What may go? Events that nobody is owed any more, in small steps, with everything that hangs on them.

Freed pages are used again by what is published next, so a file whose traffic is steady stops growing.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hooklane.model.clock import Instant
from hooklane.model.ids import new_id
from hooklane.model.lane import LaneId
from hooklane.store.cursors import number_of
from hooklane.store.recovery import Cutoffs, Pruned
from hooklane.store.sqlite.outbox import audit

STAGES = ("events", "attempts", "skipped", "names", "audit", "jobs", "rest")

_IS_SENT_AGAIN = """
SELECT 1 FROM hooklane_member WHERE tenant = ? AND event_id = ? AND progress = 'released' AND redelivery IS NOT NULL
"""
# The prev_seq of the event behind it is read off such a row, so it stays as long as that event does.
_SKIPPED = """
SELECT s.lane_id, s.seq, s.upto, s.kind, s.tenant, t.endpoint_id, s.at < :before
    AND NOT EXISTS (SELECT 1 FROM hooklane_lane_event e WHERE e.lane_id = s.lane_id AND e.seq <= s.upto) AS is_old,
    l.head > s.upto + 1
    AND NOT EXISTS (SELECT 1 FROM hooklane_lane_event e WHERE e.lane_id = s.lane_id AND e.seq <= s.upto + 1)
    AND NOT EXISTS (SELECT 1 FROM hooklane_skipped f WHERE f.lane_id = s.lane_id AND f.seq = s.upto + 1) AS is_over
FROM hooklane_skipped s JOIN hooklane_lane_tail t USING (lane_id) JOIN hooklane_lane l USING (lane_id)
WHERE (s.lane_id, s.seq) > (:lane, :seq) ORDER BY s.lane_id, s.seq LIMIT :limit
"""
_ATTEMPTS = "hooklane_attempt WHERE event_at = ? AND lane_id = ? AND seq = ?"
_ADD_PAST = """
INSERT INTO hooklane_past (tenant, endpoint_id, kind, state, many) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant, endpoint_id, kind, state) DO UPDATE SET many = many + excluded.many
"""
_KEEP_ANSWER = "UPDATE hooklane_idempotency SET answer = ? WHERE created_at = ? AND event_n = ? AND answer IS NULL"
_NAMES = """
SELECT tenant, name, created_at, NOT EXISTS (SELECT 1 FROM hooklane_event WHERE n = event_n)
FROM hooklane_idempotency WHERE created_at >= ? AND created_at < ? ORDER BY created_at LIMIT ?
"""


def find_events(conn: sqlite3.Connection, cutoffs: Cutoffs, after: int, limit: int) -> tuple[list[int], int | None]:
    """The numbers of events that may go, among the next *limit*; and where to look next, None at the end."""
    rows = conn.execute(
        "SELECT n, tenant, id, created_at, stamps FROM hooklane_event WHERE n > ? ORDER BY n LIMIT ?", (after, limit)
    ).fetchall()
    old = [row for row in rows if row[3] < cutoffs.events]
    found = [
        n
        for n, tenant, event_id, created_at, stamps in old
        if all(_is_over(conn, created_at, lane, seq, cutoffs.events) for _, lane, seq in msgspec.json.decode(stamps))
        and conn.execute(_IS_SENT_AGAIN, (tenant, event_id)).fetchone() is None
    ]
    return found, rows[-1][0] if old and len(rows) == limit else None


def _is_over(conn: sqlite3.Connection, event_at: Instant, lane_id: LaneId, seq: int | None, before: Instant) -> bool:
    """Whether a delivery is settled, and its last try is as old: what waited long must not go the moment it lands."""
    if lane_id < 0:
        row = conn.execute("SELECT state FROM hooklane_loose WHERE n = ?", (-lane_id,)).fetchone()
        settled = row is None or row[0] in ("delivered", "skipped", "cancelled")
    else:
        row = conn.execute("SELECT head FROM hooklane_lane WHERE lane_id = ?", (lane_id,)).fetchone()
        settled = row is not None and row[0] > (seq or 0)
    if not settled:
        return False
    recent = f"SELECT 1 FROM {_ATTEMPTS} AND started_at >= ? LIMIT 1"
    return conn.execute(recent, (event_at, lane_id, seq or 1, before)).fetchone() is None


def remove_events(conn: sqlite3.Connection, numbers: Sequence[int]) -> dict[str, int]:
    """Remove events with their places, attempts and closed letters; names keep the answer they gave."""
    removed: Counter[str] = Counter()
    for n in numbers:
        row = conn.execute(
            "SELECT tenant, id, type, key, created_at, stamps FROM hooklane_event WHERE n = ?", (n,)
        ).fetchone()
        if row is None or conn.execute(_IS_SENT_AGAIN, row[:2]).fetchone():
            continue
        tenant, event_id, type_, key, created_at, stamps = row
        answer = msgspec.json.encode((event_id, type_, key, created_at, bytes(stamps).decode()))
        conn.execute(_KEEP_ANSWER, (answer, created_at, n))
        for endpoint_id, lane_id, seq in msgspec.json.decode(stamps):
            place = (lane_id, seq or 1)
            removed["attempts"] += conn.execute(f"DELETE FROM {_ATTEMPTS}", (created_at, *place)).rowcount
            removed["dead_letters"] += conn.execute(
                "DELETE FROM hooklane_dead_letter WHERE lane_id = ? AND seq = ? AND state <> 'open'", place
            ).rowcount
            if lane_id < 0:
                _remove_loose(conn, tenant, endpoint_id, lane_id)
            else:
                conn.execute("DELETE FROM hooklane_lane_event WHERE lane_id = ? AND seq = ?", place)
        conn.execute("DELETE FROM hooklane_event WHERE n = ?", (n,))
        removed["events"] += 1
    return dict(removed)


def _remove_loose(conn: sqlite3.Connection, tenant: str, endpoint_id: str, lane_id: LaneId) -> None:
    gone = conn.execute("DELETE FROM hooklane_loose WHERE n = ? RETURNING state", (-lane_id,)).fetchone()
    if gone is not None:
        conn.execute(_ADD_PAST, (tenant, endpoint_id, "loose", gone[0], 1))


def prune(conn: sqlite3.Connection, cutoffs: Cutoffs, stage: str, at: str, limit: int) -> tuple[dict[str, int], str]:
    """One step of a stage other than the events; *at* is where it goes on, and what is returned with the counts."""
    match stage:
        case "attempts":
            return _attempts(conn, cutoffs, limit)
        case "skipped":
            return _skipped(conn, cutoffs, at, limit)
        case "names":
            return _names(conn, cutoffs, number_of(at or "0") or 0, limit)
        case "audit":
            removed = audit.prune(conn, cutoffs.audit, limit)
            return {"audit": removed}, "more" if removed == limit else ""
        case "jobs":
            removed = _jobs(conn, cutoffs, limit)
            return {"jobs": removed}, "more" if removed else ""
        case _:
            return _rest(conn, cutoffs, limit)


def _attempts(conn: sqlite3.Connection, cutoffs: Cutoffs, limit: int) -> tuple[dict[str, int], str]:
    """Attempts may go before their event does. A counter says how far that is done; each event is looked at once."""
    (after,) = conn.execute("SELECT value FROM hooklane_counter WHERE name = 'attempts_pruned'").fetchone()
    rows = conn.execute(
        "SELECT n, created_at, stamps FROM hooklane_event WHERE n > ? ORDER BY n LIMIT ?", (after, limit)
    ).fetchall()
    old = [row for row in rows if row[1] < cutoffs.attempts]
    removed = 0
    for _, created_at, stamps in old:
        for _, lane_id, seq in msgspec.json.decode(stamps):
            # What is still owed, or dead, keeps its story; it goes with the event.
            if _is_over(conn, created_at, lane_id, seq, cutoffs.attempts):
                removed += conn.execute(f"DELETE FROM {_ATTEMPTS}", (created_at, lane_id, seq or 1)).rowcount
    if old:
        conn.execute("UPDATE hooklane_counter SET value = ? WHERE name = 'attempts_pruned'", (old[-1][0],))
    return {"attempts": removed}, "more" if len(old) == limit else ""


def _skipped(conn: sqlite3.Connection, cutoffs: Cutoffs, at: str, limit: int) -> tuple[dict[str, int], str]:
    """Old neighbours become one row, so that a lane that skips everything does not grow; the rest goes to the past."""
    lane, _, after = (at or "0-0").partition("-")
    params = {"before": cutoffs.events, "lane": number_of(lane), "seq": number_of(after), "limit": limit}
    rows = conn.execute(_SKIPPED, params).fetchall()
    removed = 0
    last: tuple[int, int, int, str] | None = None  # lane, seq, upto, kind of the old row that a neighbour may join
    for lane_id, seq, upto, kind, tenant, endpoint_id, is_old, is_over in rows:
        follows = last is not None and (lane_id, seq, kind) == (last[0], last[2] + 1, last[3])
        start = last[1] if last is not None and follows and is_old else seq
        last = (lane_id, start, upto, kind) if is_old else None
        if is_old and is_over:
            sql = "DELETE FROM hooklane_skipped WHERE lane_id = ? AND seq BETWEEN ? AND ?"
            conn.execute(sql, (lane_id, start, seq))
            conn.execute(_ADD_PAST, (tenant, endpoint_id, "lane", kind, upto - start + 1))
            last, removed = None, removed + 1
        elif start != seq:
            conn.execute("DELETE FROM hooklane_skipped WHERE lane_id = ? AND seq = ?", (lane_id, seq))
            conn.execute("UPDATE hooklane_skipped SET upto = ? WHERE lane_id = ? AND seq = ?", (upto, lane_id, start))
            removed += 1
    if len(rows) < limit:
        return {"skipped": removed}, ""
    # Where something was joined, once more from that row on: its neighbours may come in the next step.
    return {"skipped": removed}, f"{rows[-1][0]}-{last[1] - 1 if last and removed else rows[-1][1]}"


def _names(conn: sqlite3.Connection, cutoffs: Cutoffs, since: int, limit: int) -> tuple[dict[str, int], str]:
    """A name lives at least as long as its event: else the same id could be published twice."""
    rows = conn.execute(_NAMES, (since, cutoffs.idempotency, limit)).fetchall()
    gone = [(tenant, name) for tenant, name, _, may_go in rows if may_go]
    conn.executemany("DELETE FROM hooklane_idempotency WHERE tenant = ? AND name = ?", gone)
    if len(rows) < limit:
        return {"idempotency": len(gone)}, ""
    return {"idempotency": len(gone)}, str(rows[-1][2] if gone else rows[-1][2] + 1)


def _jobs(conn: sqlite3.Connection, cutoffs: Cutoffs, limit: int) -> int:
    """Plans that nobody ran, jobs that ended long ago, and members of plans that were never finished."""
    # Ids begin with their time, so a name tells the age.
    bound = new_id("pln", cutoffs.jobs, chance=bytes(10))
    for plan_id in _plans(conn, bound):
        row = conn.execute("SELECT state, ended_at FROM hooklane_job WHERE id = ?", (plan_id,)).fetchone()
        if row is not None and (row[0] == "running" or (row[1] or 0) >= cutoffs.jobs):
            continue
        ((upto,),) = conn.execute(
            "SELECT max(n) FROM (SELECT n FROM hooklane_member WHERE plan_id = ? ORDER BY n LIMIT ?)", (plan_id, limit)
        ).fetchall()
        if upto is not None:
            sql = "DELETE FROM hooklane_member WHERE plan_id = ? AND n <= ?"
            return conn.execute(sql, (plan_id, upto)).rowcount
        conn.execute("DELETE FROM hooklane_redelivery WHERE plan_id = ?", (plan_id,))
        return conn.execute("DELETE FROM hooklane_job WHERE id = ?", (plan_id,)).rowcount
    return 0


def _plans(conn: sqlite3.Connection, bound: str) -> Iterator[str]:
    """The names of old plans, also of those that have members only."""
    yield from [row[0] for row in conn.execute("SELECT id FROM hooklane_job WHERE id < ? ORDER BY id", (bound,))]
    last: Any = ""
    while True:
        row = conn.execute(
            "SELECT plan_id FROM hooklane_member WHERE plan_id > ? AND plan_id < ? ORDER BY plan_id LIMIT 1",
            (last, bound),
        ).fetchone()
        if row is None:
            return
        last = row[0]
        yield last


def _rest(conn: sqlite3.Connection, cutoffs: Cutoffs, limit: int) -> tuple[dict[str, int], str]:
    wakeups = conn.execute(
        "DELETE FROM hooklane_recovered WHERE n IN (SELECT n FROM hooklane_recovered ORDER BY n LIMIT ?) AND at < ?",
        (limit, cutoffs.wakeups),
    ).rowcount
    workers = conn.execute("DELETE FROM hooklane_worker WHERE lease_until < ?", (cutoffs.wakeups,)).rowcount
    return {"wakeups": wakeups, "workers": workers}, "more" if wakeups == limit else ""


def step_of(cursor: str | None) -> tuple[str, str]:
    """The stage that a cursor names, and where in it to go on."""
    stage, _, at = (cursor or "events").partition(".")
    return (stage, at) if stage in STAGES else ("rest", "")


def following(stage: str, at: str, removed: dict[str, int]) -> Pruned:
    """What a step reports: the same stage while it has more, else the next one."""
    if at:
        return Pruned(removed, f"{stage}.{at}")
    after = STAGES.index(stage) + 1
    return Pruned(removed, STAGES[after] if after < len(STAGES) else None)
