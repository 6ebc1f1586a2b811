"""How far is a job? Plans and jobs as documents, their members as rows, and what is released and settled of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hooklane.model.audit import Act
from hooklane.model.endpoint import EndpointState
from hooklane.model.lane import DeliveryState, LaneId
from hooklane.model.plan import Job, JobMember, Member, Op, Progress
from hooklane.model.redelivery import redelivery_lane
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.codec import decode_job, encode_job
from hooklane.store.postgres.outbox import audit, recovery
from hooklane.store.postgres.outbox.endpoints import read_endpoints
from hooklane.store.recovery import CarriedOut, Mark

_DELETED = (EndpointState.DRAINING, EndpointState.CANCELLING)
_NOT_DEAD = "it is not a dead letter any more"

_COLUMNS = {
    "event_id": "text",
    "type": "text",
    "endpoint_id": "text",
    "lane_id": "bigint",
    "pid": "integer",
    "key": "text",
    "seq": "bigint",
    "place": "bigint",
    "state": "text",
    "version": "text",
    "letter": "text",
    "reason": "text",
    "waiting": "bigint",
}
_NAMES = ", ".join(_COLUMNS)
_ARRAYS = ", ".join(f":{name}::{kind}[]" for name, kind in _COLUMNS.items())
_FIND = "SELECT doc FROM hooklane.job WHERE id = :id FOR UPDATE"
_SAVE = """
INSERT INTO hooklane.job (id, tenant, job_id, state, created_at, ended_at, doc)
VALUES (:id, :tenant, :job_id, :state, :created_at, :ended_at, :doc)
ON CONFLICT (id) DO UPDATE SET job_id = excluded.job_id, state = excluded.state, ended_at = excluded.ended_at,
    doc = excluded.doc RETURNING id
"""
_JOB = "SELECT doc FROM hooklane.job WHERE tenant = :tenant AND (id = :id OR job_id = :id)"
_OPEN = Statement("SELECT doc FROM hooklane.job WHERE state = 'running' ORDER BY created_at, id")
_ADD = f"""
INSERT INTO hooklane.member (plan_id, tenant, n, {_NAMES})
SELECT :plan, :tenant, a.* FROM unnest(:n::bigint[], {_ARRAYS})
    AS a (n, {_NAMES}) ON CONFLICT (plan_id, n) DO NOTHING RETURNING n
"""
_MEMBERS = f"""
SELECT n, progress, result, {_NAMES} FROM hooklane.member
WHERE plan_id = :plan AND n > :after AND progress = ANY(:words::text[]) ORDER BY n LIMIT :limit::bigint
"""
_PLANNED = f"""
SELECT n, progress, result, {_NAMES} FROM hooklane.member
WHERE plan_id = :plan AND n = ANY(:ns::bigint[]) AND progress = 'planned' ORDER BY n FOR UPDATE
"""
_CHANGED = """
SELECT m.n FROM hooklane.member m LEFT JOIN hooklane.dead_letter d
    ON d.id = m.letter AND d.state = 'open' AND d.died_at::text = m.version
WHERE m.plan_id = :plan AND m.state = 'dead' AND d.id IS NULL
UNION ALL
SELECT m.n FROM hooklane.member m LEFT JOIN hooklane.dead_letter d ON d.id = m.letter AND d.state = 'skipped'
WHERE m.plan_id = :plan AND m.state = 'skipped' AND d.id IS NULL
UNION ALL
SELECT m.n FROM hooklane.member m LEFT JOIN hooklane.event e ON e.tenant = m.tenant AND e.id = m.event_id
WHERE m.plan_id = :plan AND m.state = 'delivered' AND e.n IS NULL
ORDER BY 1
"""
# Many at once, each as if by `recovery.revive`: conditional, and with a wake-up.
_REVIVE = """
WITH wanted AS (
    SELECT m.n AS member, d.id, d.lane_id, d.seq FROM hooklane.member m
    JOIN hooklane.dead_letter d ON d.id = m.letter AND d.tenant = m.tenant AND d.state = 'open'
    WHERE m.plan_id = :plan AND m.n = ANY(:ns::bigint[]) ORDER BY d.lane_id
), heads AS (
    UPDATE hooklane.lane l SET state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
    FROM wanted w WHERE l.lane_id = w.lane_id AND l.state = 'blocked' AND l.head = w.seq
    RETURNING w.member, w.id, l.lane_id
), alone AS (
    UPDATE hooklane.loose o SET state = 'queued', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
    FROM wanted w WHERE o.n = -w.lane_id AND o.state = 'dead' RETURNING w.member, w.id, w.lane_id
), done AS (SELECT * FROM heads UNION ALL SELECT * FROM alone), closed AS (
    UPDATE hooklane.dead_letter d SET state = 'replayed', closed_at = :now FROM done WHERE d.id = done.id
), woken AS (
    INSERT INTO hooklane.recovered (tenant, lane_id, pid)
    SELECT :tenant, done.lane_id, coalesce(t.pid, o.pid) FROM done LEFT JOIN hooklane.lane_tail t USING (lane_id)
    LEFT JOIN hooklane.loose o ON o.n = -done.lane_id
)
SELECT member, lane_id FROM done ORDER BY member
"""
_KNOWN = "SELECT id FROM hooklane.event WHERE tenant = :tenant AND id = ANY(:ids::text[])"
_GROW = """
INSERT INTO hooklane.redelivery AS r (tenant, plan_id, line, endpoint_id, pid, tail)
SELECT :tenant, :plan, a.* FROM unnest(:lines::text[], :endpoints::text[], :pids::integer[], :many::bigint[]) AS a
ON CONFLICT (plan_id, line) DO UPDATE SET tail = r.tail + excluded.tail WHERE r.state IN ('active', 'retrying')
RETURNING line, n, tail, pid
"""
_PLACE = """
UPDATE hooklane.member m SET redelivery = a.redelivery, pos = a.pos
FROM unnest(:ns::bigint[], :redeliveries::bigint[], :poss::bigint[]) AS a (n, redelivery, pos)
WHERE m.plan_id = :plan AND m.n = a.n RETURNING m.n
"""
_WAKE = """
INSERT INTO hooklane.recovered (tenant, lane_id, pid)
SELECT :tenant, a.* FROM unnest(:lanes::bigint[], :pids::integer[]) AS a RETURNING lane_id
"""
# A lane that has passed the event delivered it, unless it is on record as given up; a loose row that is gone is done.
_OUTCOMES = """
WITH out AS (SELECT * FROM hooklane.member WHERE plan_id = :plan AND progress = 'released')
SELECT * FROM (
    SELECT m.n, CASE WHEN s.kind IS NOT NULL THEN s.kind WHEN greatest(l.head, a.head, 1) > m.seq THEN 'delivered'
        WHEN l.state = 'blocked' AND l.head = m.seq THEN 'failed' END AS came, l.reason
    FROM out m LEFT JOIN hooklane.lane l USING (lane_id)
    LEFT JOIN (SELECT lane_id, max(head) AS head FROM hooklane.ack GROUP BY lane_id) a USING (lane_id)
    LEFT JOIN hooklane.skipped s ON s.lane_id = m.lane_id AND m.seq BETWEEN s.seq AND s.upto
    WHERE m.state = 'dead' AND m.lane_id > 0
    UNION ALL
    SELECT m.n, CASE coalesce(l.state, 'delivered') WHEN 'dead' THEN 'failed' WHEN 'queued' THEN NULL
        WHEN 'retrying' THEN NULL ELSE coalesce(l.state, 'delivered') END, l.reason
    FROM out m LEFT JOIN hooklane.loose l ON l.n = -m.lane_id WHERE m.state = 'dead' AND m.lane_id < 0
    UNION ALL
    SELECT m.n, CASE WHEN r.head > m.pos THEN 'delivered' WHEN r.state = 'cancelled' THEN 'cancelled'
        WHEN r.state = 'blocked' THEN CASE WHEN r.head = m.pos THEN 'failed' ELSE 'held' END END, r.reason
    FROM out m JOIN hooklane.redelivery r ON r.n = m.redelivery
) o WHERE came IS NOT NULL ORDER BY n
"""
_MARK = """
UPDATE hooklane.member m SET progress = a.progress, result = a.result
FROM unnest(:ns::bigint[], :words::text[], :results::text[]) AS a (n, progress, result)
WHERE m.plan_id = :plan AND m.n = a.n RETURNING m.n
"""
_CLOSE_SKIPPED = """
UPDATE hooklane.dead_letter SET state = 'replayed' WHERE state = 'skipped'
    AND id IN (SELECT letter FROM hooklane.member WHERE plan_id = :plan AND n = ANY(:ns::bigint[])) RETURNING id
"""


def save_job(job: Job, expect: Job | None, act: Act | None) -> Flow[bool]:
    rows = yield Statement(_FIND, {"id": job.id})
    if (decode_job(bytes(rows[0][0])) if rows else None) != expect:
        return False
    columns = {name: getattr(job, name) for name in ("id", "tenant", "job_id", "created_at", "ended_at")}
    yield Statement(_SAVE, {**columns, "state": str(job.state), "doc": encode_job(job)})
    if act is not None:
        yield from audit.append(act)
    return True


def job(tenant: str, id: str) -> Flow[Job | None]:
    rows = yield Statement(_JOB, {"tenant": tenant, "id": id})
    return decode_job(bytes(rows[0][0])) if rows else None


def open_jobs() -> Flow[list[Job]]:
    return [decode_job(bytes(doc)) for (doc,) in (yield _OPEN)]


def add_members(plan_id: str, tenant: str, first: int, members: Sequence[Member]) -> Flow[None]:
    columns: dict[str, list[Any]] = {
        name: [getattr(one, "dead_letter_id" if name == "letter" else name) for one in members] for name in _COLUMNS
    }
    columns["state"] = [str(state) for state in columns["state"]]
    numbers = list(range(first, first + len(members)))
    yield Statement(_ADD, {**columns, "plan": plan_id, "tenant": tenant, "n": numbers})


def members(plan_id: str, after: int, limit: int, progress: Sequence[Progress] | None) -> Flow[list[JobMember]]:
    words = [str(word) for word in progress or Progress]
    rows = yield Statement(_MEMBERS, {"plan": plan_id, "after": after, "words": words, "limit": limit})
    return [_job_member(row) for row in rows]


def _job_member(row: Sequence[Any]) -> JobMember:
    n, progress, result, *columns = row
    fields = dict(zip(_COLUMNS, columns, strict=True))
    fields["dead_letter_id"] = fields.pop("letter")
    fields["state"] = DeliveryState(fields["state"])
    return JobMember(n, Member(**fields), Progress(progress), result)


def changed(plan_id: str) -> Flow[list[int]]:
    return [n for (n,) in (yield Statement(_CHANGED, {"plan": plan_id}))]


def carry_out(plan_id: str, op: Op, numbers: Sequence[int], act: Act) -> Flow[CarriedOut]:
    rows = yield Statement(_PLANNED, {"plan": plan_id, "ns": list(numbers)})
    by_n = {row[0]: _job_member(row) for row in rows}
    waiting = [by_n[n] for n in numbers if n in by_n]  # in the order given; the others were done before
    again = [one for one in waiting if one.member.state is DeliveryState.DELIVERED]
    dead = [one for one in waiting if one.member.state is not DeliveryState.DELIVERED]
    refused: dict[int, str] = {}
    lanes: list[LaneId] = []
    if again:
        lanes += yield from _send_again(plan_id, again, act, refused)
    if dead and op is Op.REPLAY:
        ns = [one.n for one in dead]
        done = yield Statement(_REVIVE, {"plan": plan_id, "ns": ns, "now": act.at, "tenant": act.tenant})
        refused |= dict.fromkeys(set(ns) - {n for n, _ in done}, _NOT_DEAD)
        lanes += [lane_id for _, lane_id in done]
    word = Progress.SKIPPED if op is Op.SKIP else Progress.RELEASED
    skips: list[Act] = []
    if dead and op is Op.SKIP:
        lanes += yield from _skip(dead, act, refused, skips)
    yield from mark(
        plan_id,
        [Mark(one.n, Progress.REFUSED, refused[one.n]) if one.n in refused else Mark(one.n, word) for one in waiting],
    )
    if skips:
        yield from audit.append_all(skips)
    return CarriedOut(sorted(refused.items()), lanes)


def _skip(dead: Sequence[JobMember], act: Act, refused: dict[int, str], skips: list[Act]) -> Flow[list[LaneId]]:
    lanes: list[LaneId] = []
    for one in dead:
        letter = one.member.dead_letter_id or ""
        done = yield from recovery.give_up(act.tenant, letter, act.note, act.actor, act.at)
        if done is None:
            refused[one.n] = _NOT_DEAD
        else:
            lanes.append(done.lane_id)
            skips.append(replace(act, action="dead_letter.skipped", subject=letter))
    return lanes


def _send_again(plan_id: str, again: Sequence[JobMember], act: Act, refused: dict[int, str]) -> Flow[list[LaneId]]:
    taking = {one.id for one in (yield from read_endpoints(act.tenant)) if one.state not in _DELETED}
    ids = [one.member.event_id for one in again]
    known = {id for (id,) in (yield Statement(_KNOWN, {"tenant": act.tenant, "ids": ids}))}
    lines: dict[str, list[JobMember]] = {}
    for one in again:
        if one.member.endpoint_id not in taking:
            refused[one.n] = "its endpoint is deleted"
        elif one.member.event_id not in known:
            refused[one.n] = "it is not kept any more"
        else:
            lines.setdefault(one.member.line, []).append(one)
    if not lines:
        return []
    ordered = sorted(lines)
    rows = yield Statement(
        _GROW,
        {
            "tenant": act.tenant,
            "plan": plan_id,
            "lines": ordered,
            "endpoints": [lines[line][0].member.endpoint_id for line in ordered],
            "pids": [lines[line][0].member.pid for line in ordered],
            "many": [len(lines[line]) for line in ordered],
        },
    )
    grown = {row[0]: row for row in rows}
    placed: list[tuple[int, int, int]] = []
    for line, those in lines.items():
        if line not in grown:
            refused |= dict.fromkeys((one.n for one in those), "an earlier event of its key failed")
            continue
        _, n, tail, _ = grown[line]
        placed += [(one.n, n, tail - len(those) + 1 + offset) for offset, one in enumerate(those)]
    if placed:
        ns, redeliveries, poss = (list(column) for column in zip(*placed, strict=True))
        yield Statement(_PLACE, {"plan": plan_id, "ns": ns, "redeliveries": redeliveries, "poss": poss})
    lanes = [redelivery_lane(row[1]) for row in rows]
    yield Statement(_WAKE, {"tenant": act.tenant, "lanes": lanes, "pids": [row[3] for row in rows]})
    return lanes


def sweep(plan_id: str) -> Flow[list[Mark]]:
    rows = yield Statement(_OUTCOMES, {"plan": plan_id})
    found = [Mark(n, Progress(came), reason or "" if came == "failed" else "") for n, came, reason in rows]
    yield from mark(plan_id, found)
    return found


def mark(plan_id: str, marks: Sequence[Mark]) -> Flow[None]:
    if not marks:
        return
    yield Statement(
        _MARK,
        {
            "plan": plan_id,
            "ns": [one.n for one in marks],
            "words": [str(one.progress) for one in marks],
            "results": [one.result for one in marks],
        },
    )
    if published := [one.n for one in marks if one.progress is Progress.PUBLISHED]:
        yield Statement(_CLOSE_SKIPPED, {"plan": plan_id, "ns": published})
