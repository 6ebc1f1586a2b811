"""How far is a job? Plans and jobs as documents, their members as rows, and what is released and settled of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hooklane.model.audit import Act
from hooklane.model.endpoint import EndpointState
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Job, JobMember, Member, Op, Progress
from hooklane.model.redelivery import redelivery_lane
from hooklane.store.codec import decode_job, encode_job
from hooklane.store.recovery import CarriedOut, Mark
from hooklane.store.sqlite.outbox import audit, recovery, redeliveries
from hooklane.store.sqlite.outbox.endpoints import read_endpoint

_DELETED = (EndpointState.DRAINING, EndpointState.CANCELLING)

_COLUMNS = """event_id, type, endpoint_id, lane_id, pid, key, seq, place, state, version, letter, reason, waiting"""
_SAVE = """
INSERT INTO hooklane_job (id, tenant, job_id, state, created_at, ended_at, doc) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET job_id = excluded.job_id, state = excluded.state, ended_at = excluded.ended_at,
    doc = excluded.doc
"""
_CHANGED = """
SELECT m.n FROM hooklane_member m LEFT JOIN hooklane_dead_letter d
    ON d.id = m.letter AND d.state = 'open' AND CAST(d.died_at AS TEXT) = m.version
WHERE m.plan_id = :plan AND m.state = 'dead' AND d.id IS NULL
UNION ALL
SELECT m.n FROM hooklane_member m LEFT JOIN hooklane_dead_letter d ON d.id = m.letter AND d.state = 'skipped'
WHERE m.plan_id = :plan AND m.state = 'skipped' AND d.id IS NULL
UNION ALL
SELECT m.n FROM hooklane_member m LEFT JOIN hooklane_event e ON e.tenant = m.tenant AND e.id = m.event_id
WHERE m.plan_id = :plan AND m.state = 'delivered' AND e.n IS NULL
ORDER BY 1
"""
# A lane that has passed the event delivered it, unless it is on record as given up; a loose row that is gone is done.
_OUTCOMES = """
SELECT m.n, CASE WHEN s.kind IS NOT NULL THEN s.kind WHEN l.head > m.seq THEN 'delivered'
    WHEN l.state = 'blocked' AND l.head = m.seq THEN 'failed' END AS came, l.reason
FROM hooklane_member m JOIN hooklane_lane l ON l.lane_id = m.lane_id
LEFT JOIN hooklane_skipped s ON s.lane_id = m.lane_id AND m.seq BETWEEN s.seq AND s.upto
WHERE m.plan_id = :plan AND m.progress = 'released' AND m.state = 'dead' AND m.lane_id > 0 AND came IS NOT NULL
UNION ALL
SELECT m.n, CASE coalesce(l.state, 'delivered') WHEN 'dead' THEN 'failed' WHEN 'queued' THEN NULL
    WHEN 'retrying' THEN NULL ELSE coalesce(l.state, 'delivered') END AS came, l.reason
FROM hooklane_member m LEFT JOIN hooklane_loose l ON l.n = -m.lane_id
WHERE m.plan_id = :plan AND m.progress = 'released' AND m.state = 'dead' AND m.lane_id < 0 AND came IS NOT NULL
UNION ALL
SELECT m.n, CASE WHEN r.head > m.pos THEN 'delivered' WHEN r.state = 'cancelled' THEN 'cancelled'
    WHEN r.state = 'blocked' THEN CASE WHEN r.head = m.pos THEN 'failed' ELSE 'held' END END AS came, r.reason
FROM hooklane_member m JOIN hooklane_redelivery r ON r.n = m.redelivery
WHERE m.plan_id = :plan AND m.progress = 'released' AND came IS NOT NULL
ORDER BY 1
"""
_MARK = "UPDATE hooklane_member SET progress = ?, result = ? WHERE plan_id = ? AND n = ?"
_CLOSE_SKIPPED = """
UPDATE hooklane_dead_letter SET state = 'replayed' WHERE state = 'skipped'
    AND id = (SELECT letter FROM hooklane_member WHERE plan_id = ? AND n = ?)
"""
_WAKE = "INSERT INTO hooklane_recovered (tenant, lane_id, at) VALUES (?, ?, ?)"


def save_job(conn: sqlite3.Connection, job: Job, expect: Job | None, act: Act | None = None) -> bool:
    row = conn.execute("SELECT doc FROM hooklane_job WHERE id = ?", (job.id,)).fetchone()
    if (decode_job(row[0]) if row else None) != expect:
        return False
    conn.execute(_SAVE, (job.id, job.tenant, job.job_id, job.state, job.created_at, job.ended_at, encode_job(job)))
    if act is not None:
        audit.append(conn, act)
    return True


def job(conn: sqlite3.Connection, tenant: str, id: str) -> Job | None:
    sql = "SELECT doc FROM hooklane_job WHERE tenant = ? AND (id = ? OR job_id = ?)"
    row = conn.execute(sql, (tenant, id, id)).fetchone()
    return decode_job(row[0]) if row else None


def open_jobs(conn: sqlite3.Connection) -> list[Job]:
    rows = conn.execute("SELECT doc FROM hooklane_job WHERE state = 'running' ORDER BY created_at, id").fetchall()
    return [decode_job(doc) for (doc,) in rows]


def add_members(conn: sqlite3.Connection, plan_id: str, tenant: str, first: int, members: Sequence[Member]) -> None:
    marks = ", ".join("?" * 16)
    conn.executemany(
        f"INSERT INTO hooklane_member (plan_id, n, tenant, {_COLUMNS}) VALUES ({marks})",
        [
            (
                plan_id,
                first + offset,
                tenant,
                one.event_id,
                one.type,
                one.endpoint_id,
                one.lane_id,
                one.pid,
                one.key,
                one.seq,
                one.place,
                one.state,
                one.version,
                one.dead_letter_id,
                one.reason,
                one.waiting,
            )
            for offset, one in enumerate(members)
        ],
    )


def members(
    conn: sqlite3.Connection, plan_id: str, after: int, limit: int, progress: Sequence[Progress] | None
) -> list[JobMember]:
    words = list(progress or Progress)
    marks = ", ".join("?" * len(words))
    rows = conn.execute(
        f"SELECT n, progress, result, {_COLUMNS} FROM hooklane_member"
        f" WHERE plan_id = ? AND n > ? AND progress IN ({marks}) ORDER BY n LIMIT ?",
        (plan_id, after, *words, limit),
    )
    return [_job_member(row) for row in rows]


def _job_member(row: Sequence[Any]) -> JobMember:
    n, progress, result, event_id, type_, endpoint_id, lane_id, pid, key, seq, place, state, version, *rest = row
    letter, why, many = rest
    member = Member(
        event_id=event_id,
        type=type_,
        endpoint_id=endpoint_id,
        lane_id=lane_id,
        pid=pid,
        key=key,
        seq=seq,
        place=place,
        state=DeliveryState(state),
        version=version,
        dead_letter_id=letter,
        reason=why,
        waiting=many,
    )
    return JobMember(n, member, Progress(progress), result)


def changed(conn: sqlite3.Connection, plan_id: str) -> list[int]:
    return [n for (n,) in conn.execute(_CHANGED, {"plan": plan_id})]


def carry_out(conn: sqlite3.Connection, plan_id: str, op: Op, numbers: Sequence[int], act: Act) -> CarriedOut:
    refused: list[tuple[int, str]] = []
    marks: list[Mark] = []
    lanes: dict[int, None] = {}
    skips: list[Act] = []
    for n in numbers:
        found = members(conn, plan_id, n - 1, 1, [Progress.PLANNED])
        if not found or found[0].n != n:
            continue  # released before: the reply to that was lost
        one = found[0].member
        if one.state is DeliveryState.DELIVERED:
            why = _send_again(conn, plan_id, n, one, act, lanes)
        else:
            why = _recover(conn, op, one, act, lanes, skips)
        if why is not None:
            refused.append((n, why))
            marks.append(Mark(n, Progress.REFUSED, why))
        else:
            marks.append(Mark(n, Progress.SKIPPED if op is Op.SKIP else Progress.RELEASED))
    mark(conn, plan_id, marks)
    if skips:
        audit.append_all(conn, skips)
    return CarriedOut(refused, list(lanes))


def _recover(
    conn: sqlite3.Connection, op: Op, one: Member, act: Act, lanes: dict[int, None], skips: list[Act]
) -> str | None:
    letter = one.dead_letter_id or ""
    if op is Op.SKIP:
        done = recovery.give_up(conn, act.tenant, letter, act.note, act.actor, act.at)
        if done is not None:
            skips.append(replace(act, action="dead_letter.skipped", subject=letter))
    else:
        done = recovery.revive(conn, act.tenant, letter, act.at)
    if done is None:
        return "it is not a dead letter any more"
    lanes[done.lane_id] = None
    return None


def _send_again(
    conn: sqlite3.Connection, plan_id: str, n: int, one: Member, act: Act, lanes: dict[int, None]
) -> str | None:
    endpoint = read_endpoint(conn, one.endpoint_id)
    if endpoint is None or endpoint.state in _DELETED:
        return "its endpoint is deleted"
    known = conn.execute("SELECT 1 FROM hooklane_event WHERE tenant = ? AND id = ?", (act.tenant, one.event_id))
    if known.fetchone() is None:
        return "it is not kept any more"
    placed = redeliveries.add(conn, plan_id, one.line, (act.tenant, one.endpoint_id, one.pid))
    if placed is None:
        return "an earlier event of its key failed"
    lane_id = redelivery_lane(placed[0])
    conn.execute(
        "UPDATE hooklane_member SET redelivery = ?, pos = ? WHERE plan_id = ? AND n = ?", (*placed, plan_id, n)
    )
    if lane_id not in lanes:
        lanes[lane_id] = None
        conn.execute(_WAKE, (act.tenant, lane_id, act.at))
    return None


def outcomes(conn: sqlite3.Connection, plan_id: str) -> list[Mark]:
    """What became of the members that were released, where it is known by now."""
    rows = conn.execute(_OUTCOMES, {"plan": plan_id}).fetchall()
    return [Mark(n, Progress(came), reason or "" if came == "failed" else "") for n, came, reason in rows]


def mark(conn: sqlite3.Connection, plan_id: str, marks: Sequence[Mark]) -> None:
    conn.executemany(_MARK, [(one.progress, one.result, plan_id, one.n) for one in marks])
    published = [(plan_id, one.n) for one in marks if one.progress is Progress.PUBLISHED]
    conn.executemany(_CLOSE_SKIPPED, published)
