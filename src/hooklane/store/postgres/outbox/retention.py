"""What may go? Events that nobody is owed any more, in small steps, with everything that hangs on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hooklane.model.ids import new_id
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.cursors import number_of
from hooklane.store.postgres.outbox import audit
from hooklane.store.recovery import Cutoffs, Pruned

STAGES = ("events", "attempts", "skipped", "names", "audit", "jobs", "rest")

_PRUNE_LOCK = 0x686F6F6B_7072756E  # "hookprun"
_TRY_LOCK = Statement("SELECT pg_try_advisory_xact_lock(:lock::bigint)", {"lock": _PRUNE_LOCK})
_EVENTS = """
SELECT n, tenant, id, type, key, created_at, stamps FROM hooklane.event
WHERE n > :after ORDER BY n LIMIT :limit::bigint
"""
# Read of the acks first: they may be folded meanwhile, and a head that is too old only keeps its events longer.
_HEADS = """
SELECT t.lane_id, greatest(l.head, a.head, 1) FROM hooklane.lane_tail t LEFT JOIN hooklane.lane l USING (lane_id)
LEFT JOIN (SELECT lane_id, max(head) AS head FROM hooklane.ack WHERE lane_id = ANY(:lanes::bigint[]) GROUP BY lane_id) a
    USING (lane_id)
WHERE t.lane_id = ANY(:lanes::bigint[])
"""
_OWED_LOOSE = "SELECT n FROM hooklane.loose WHERE n = ANY(:ns::bigint[]) AND state IN ('queued', 'retrying', 'dead')"
_RECENT = """
SELECT DISTINCT a.lane_id, a.seq FROM hooklane.attempt a
JOIN unnest(:lanes::bigint[], :seqs::bigint[]) AS w (lane_id, seq) USING (lane_id, seq) WHERE a.started_at >= :before
"""
_SENT_AGAIN = """
SELECT tenant, event_id FROM hooklane.member WHERE event_id = ANY(:ids::text[])
    AND progress = 'released' AND redelivery IS NOT NULL
"""
_KEEP_ANSWERS = """
UPDATE hooklane.idempotency i SET answer = w.answer
FROM unnest(:ats::bigint[], :ns::bigint[], :answers::bytea[]) AS w (at, n, answer)
WHERE i.created_at = w.at AND i.event_n = w.n RETURNING 1
"""
_PLACES = "unnest(:lanes::bigint[], :seqs::bigint[]) AS w (lane_id, seq)"
_DROP_ATTEMPTS = f"""
WITH gone AS (
    DELETE FROM hooklane.attempt a USING {_PLACES} WHERE a.lane_id = w.lane_id AND a.seq = w.seq RETURNING 1
) SELECT count(*) FROM gone
"""
_DROP_LETTERS = f"""
WITH gone AS (
    DELETE FROM hooklane.dead_letter d USING {_PLACES}
    WHERE d.lane_id = w.lane_id AND d.seq = w.seq AND d.state <> 'open' RETURNING 1
) SELECT count(*) FROM gone
"""
# Lanes whose last event would go, and which somebody holds; the others are ours from now on. To wait for one while we
# hold others would be to wait crosswise for a transaction that comes to those next.
_HELD = f"""
WITH last AS MATERIALIZED (
    SELECT w.lane_id FROM {_PLACES} GROUP BY w.lane_id
    HAVING NOT EXISTS (SELECT 1 FROM hooklane.lane_event e WHERE e.lane_id = w.lane_id AND e.seq > max(w.seq))
), free AS MATERIALIZED (
    SELECT n.lane_id FROM hooklane.lane_name n JOIN last USING (lane_id) FOR NO KEY UPDATE OF n SKIP LOCKED
)
SELECT n.lane_id FROM hooklane.lane_name n JOIN last USING (lane_id) EXCEPT SELECT lane_id FROM free
"""
# Where the last event of a lane goes, its seq is kept: the next one stands behind it.
_DROP_PLACES = f"""
WITH gone AS (
    DELETE FROM hooklane.lane_event e USING {_PLACES} WHERE e.lane_id = w.lane_id AND e.seq = w.seq
    RETURNING e.lane_id, e.seq
), emptied AS (
    SELECT lane_id, max(seq) AS seq FROM gone g GROUP BY lane_id
    HAVING NOT EXISTS (SELECT 1 FROM hooklane.lane_event e WHERE e.lane_id = g.lane_id AND e.seq > max(g.seq))
)
UPDATE hooklane.lane_name n SET tail_min = e.seq FROM emptied e WHERE n.lane_id = e.lane_id AND n.tail_min < e.seq
RETURNING 1
"""
_DROP_LOOSE = """
WITH gone AS (DELETE FROM hooklane.loose WHERE n = ANY(:ns::bigint[]) RETURNING tenant, endpoint_id, state)
INSERT INTO hooklane.past AS p (tenant, endpoint_id, kind, state, many)
SELECT tenant, endpoint_id, 'loose', state, count(*) FROM gone GROUP BY tenant, endpoint_id, state
ON CONFLICT (tenant, endpoint_id, kind, state) DO UPDATE SET many = p.many + excluded.many RETURNING 1
"""
_DROP_EVENTS = "DELETE FROM hooklane.event WHERE n = ANY(:ns::bigint[]) RETURNING 1"
_ATTEMPTS_DONE = Statement("SELECT value FROM hooklane.counter WHERE name = 'attempts_pruned' FOR UPDATE")
_SET_ATTEMPTS_DONE = "UPDATE hooklane.counter SET value = :n WHERE name = 'attempts_pruned' RETURNING 1"
# The prev_seq of the event behind it is read off such a row, so it stays as long as that event does.
_SKIPPED = """
SELECT s.lane_id, s.seq, s.upto, s.kind, s.tenant, t.endpoint_id, s.at < :before
    AND NOT EXISTS (SELECT 1 FROM hooklane.lane_event e WHERE e.lane_id = s.lane_id AND e.seq <= s.upto) AS is_old,
    l.head > s.upto + 1
    AND NOT EXISTS (SELECT 1 FROM hooklane.lane_event e WHERE e.lane_id = s.lane_id AND e.seq <= s.upto + 1)
    AND NOT EXISTS (SELECT 1 FROM hooklane.skipped f WHERE f.lane_id = s.lane_id AND f.seq = s.upto + 1) AS is_over
FROM hooklane.skipped s JOIN hooklane.lane_tail t USING (lane_id) JOIN hooklane.lane l USING (lane_id)
WHERE (s.lane_id, s.seq) > (:lane::bigint, :seq::bigint) ORDER BY s.lane_id, s.seq LIMIT :limit::bigint
"""
_DROP_SKIPPED = "DELETE FROM hooklane.skipped WHERE lane_id = :lane AND seq BETWEEN :first AND :last RETURNING 1"
_JOIN_SKIPPED = "UPDATE hooklane.skipped SET upto = :upto WHERE lane_id = :lane AND seq = :seq RETURNING 1"
_ADD_PAST = """
INSERT INTO hooklane.past AS p (tenant, endpoint_id, kind, state, many)
VALUES (:tenant, :endpoint, 'lane', :state, :many)
ON CONFLICT (tenant, endpoint_id, kind, state) DO UPDATE SET many = p.many + excluded.many RETURNING 1
"""
_NAMES = """
SELECT i.tenant, i.name, i.created_at, NOT EXISTS (SELECT 1 FROM hooklane.event e WHERE e.n = i.event_n)
FROM hooklane.idempotency i WHERE i.created_at >= :since AND i.created_at < :before
ORDER BY i.created_at LIMIT :limit::bigint
"""
_DROP_NAMES = """
DELETE FROM hooklane.idempotency i USING unnest(:tenants::text[], :names::text[]) AS w (tenant, name)
WHERE i.tenant = w.tenant AND i.name = w.name RETURNING 1
"""
_OLD_PLAN = """
SELECT p.id FROM (
    SELECT id, state, ended_at FROM hooklane.job WHERE id < :bound
    UNION ALL
    SELECT DISTINCT m.plan_id, 'planned', NULL::bigint FROM hooklane.member m
    WHERE m.plan_id < :bound AND NOT EXISTS (SELECT 1 FROM hooklane.job j WHERE j.id = m.plan_id)
) p WHERE p.state <> 'running' AND coalesce(p.ended_at, 0) < :before ORDER BY p.id LIMIT 1
"""
_DROP_MEMBERS = """
DELETE FROM hooklane.member WHERE plan_id = :plan
    AND n IN (SELECT n FROM hooklane.member WHERE plan_id = :plan ORDER BY n LIMIT :limit::bigint) RETURNING 1
"""
_DROP_REDELIVERIES = "DELETE FROM hooklane.redelivery WHERE plan_id = :plan RETURNING 1"
_DROP_JOB = "DELETE FROM hooklane.job WHERE id = :plan RETURNING 1"
_DROP_WAKEUPS = """
DELETE FROM hooklane.recovered WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM hooklane.recovered WHERE at < :before LIMIT :limit::bigint)) RETURNING 1
"""

Event = Sequence[Any]
"""n, tenant, id, type, key, created_at, stamps."""


def prune(cutoffs: Cutoffs, cursor: str | None, limit: int) -> Flow[Pruned]:
    ((is_ours,),) = yield _TRY_LOCK
    if not is_ours:
        return Pruned({}, None)  # another process is at it: one is enough
    stage, _, at = (cursor or "events").partition(".")
    match stage:
        case "events":
            removed, at = yield from _events(cutoffs, number_of(at or "0") or 0, limit)
        case "attempts":
            removed, at = yield from _attempts(cutoffs, limit)
        case "skipped":
            removed, at = yield from _skipped(cutoffs, at, limit)
        case "names":
            removed, at = yield from _names(cutoffs, number_of(at or "0") or 0, limit)
        case "audit":
            lines = yield from audit.prune(cutoffs.audit, limit)
            removed, at = {"audit": lines}, "more" if lines == limit else ""
        case "jobs":
            rows = yield from _jobs(cutoffs, limit)
            removed, at = {"jobs": rows}, "more" if rows else ""
        case _:
            gone = yield Statement(_DROP_WAKEUPS, {"before": cutoffs.wakeups, "limit": limit})
            return Pruned({"wakeups": len(gone)}, "rest.more" if len(gone) == limit else None)
    return Pruned(removed, f"{stage}.{at}" if at else STAGES[STAGES.index(stage) + 1])


def _events(cutoffs: Cutoffs, after: int, limit: int) -> Flow[tuple[dict[str, int], str]]:
    rows = yield Statement(_EVENTS, {"after": after, "limit": limit})
    old = [row for row in rows if row[5] < cutoffs.events]
    over = yield from _over(old, cutoffs.events)
    ids = [row[2] for row in over]
    busy = {tuple(row) for row in (yield Statement(_SENT_AGAIN, {"ids": ids}))} if ids else set()
    gone = yield from _free([row for row in over if (row[1], row[2]) not in busy])
    removed = (yield from _remove(gone)) if gone else {}
    return removed, str(rows[-1][0]) if old and len(rows) == limit else ""


def _over(rows: Sequence[Event], before: int) -> Flow[list[Event]]:
    """Those whose deliveries are all settled, with a last try as old: what waited long does not go as it lands."""
    places = {row[0]: [(lane, seq or 1) for _, lane, seq in msgspec.json.decode(row[6])] for row in rows}
    flat = [place for some in places.values() for place in some]
    if not flat:
        return list(rows)
    ordered = sorted({lane for lane, _ in flat if lane > 0})
    found = yield Statement(_HEADS, {"lanes": ordered})
    heads: dict[int, int] = {row[0]: row[1] for row in found}
    owed = {-n for (n,) in (yield Statement(_OWED_LOOSE, {"ns": [-lane for lane, _ in flat if lane < 0]}))}
    lanes, seqs = (list(column) for column in zip(*flat, strict=True))
    recent = yield Statement(_RECENT, {"lanes": lanes, "seqs": seqs, "before": before})
    young = {tuple(row) for row in recent}

    def is_over(place: tuple[int, int]) -> bool:
        lane, seq = place
        settled = lane not in owed if lane < 0 else heads.get(lane, 1) > seq
        return settled and place not in young

    return [row for row in rows if all(map(is_over, places[row[0]]))]


def _free(rows: Sequence[Event]) -> Flow[list[Event]]:
    """Those that go now: all but the events of lanes that end with them and that somebody holds."""
    places = {row[0]: [(lane, seq) for _, lane, seq in msgspec.json.decode(row[6]) if lane > 0] for row in rows}
    flat = [place for some in places.values() for place in some]
    lanes, seqs = [lane for lane, _ in flat], [seq for _, seq in flat]
    held = {lane for (lane,) in (yield Statement(_HELD, {"lanes": lanes, "seqs": seqs}))} if flat else set()
    return [row for row in rows if held.isdisjoint(lane for lane, _ in places[row[0]])]


def _remove(rows: Sequence[Event]) -> Flow[dict[str, int]]:
    """Remove events with their places, attempts and closed letters; names keep the answer they gave."""
    ns = [row[0] for row in rows]
    answers = [msgspec.json.encode((*row[2:6], bytes(row[6]).decode())) for row in rows]
    yield Statement(_KEEP_ANSWERS, {"ats": [row[5] for row in rows], "ns": ns, "answers": answers})
    flat = [(lane, seq or 1) for row in rows for _, lane, seq in msgspec.json.decode(row[6])]
    removed = {"events": len(ns)}
    if flat:
        lanes, seqs = (list(column) for column in zip(*flat, strict=True))
        places = {"lanes": lanes, "seqs": seqs}
        ((removed["attempts"],),) = yield Statement(_DROP_ATTEMPTS, places)
        ((removed["dead_letters"],),) = yield Statement(_DROP_LETTERS, places)
        yield Statement(_DROP_PLACES, places)
        yield Statement(_DROP_LOOSE, {"ns": [-lane for lane in lanes if lane < 0]})
    yield Statement(_DROP_EVENTS, {"ns": ns})
    return removed


def _attempts(cutoffs: Cutoffs, limit: int) -> Flow[tuple[dict[str, int], str]]:
    """Attempts may go before their event does. A counter says how far that is done; each event is looked at once."""
    ((after,),) = yield _ATTEMPTS_DONE
    rows = yield Statement(_EVENTS, {"after": after, "limit": limit})
    old = [row for row in rows if row[5] < cutoffs.attempts]
    removed = 0
    over = yield from _over(old, cutoffs.attempts)
    if flat := [(lane, seq or 1) for row in over for _, lane, seq in msgspec.json.decode(row[6])]:
        lanes, seqs = (list(column) for column in zip(*flat, strict=True))
        ((removed,),) = yield Statement(_DROP_ATTEMPTS, {"lanes": lanes, "seqs": seqs})
    if old:
        yield Statement(_SET_ATTEMPTS_DONE, {"n": old[-1][0]})
    return {"attempts": removed}, "more" if len(old) == limit else ""


def _skipped(cutoffs: Cutoffs, at: str, limit: int) -> Flow[tuple[dict[str, int], str]]:
    """Old neighbours become one row, so that a lane that skips everything does not grow; the rest goes to the past."""
    lane, _, after = (at or "0-0").partition("-")
    params = {"before": cutoffs.events, "lane": number_of(lane), "seq": number_of(after), "limit": limit}
    rows = yield Statement(_SKIPPED, params)
    removed = 0
    last: tuple[int, int, int, str] | None = None  # lane, seq, upto, kind of the old row that a neighbour may join
    for lane_id, seq, upto, kind, tenant, endpoint_id, is_old, is_over in rows:
        follows = last is not None and (lane_id, seq, kind) == (last[0], last[2] + 1, last[3])
        start = last[1] if last is not None and follows and is_old else seq
        last = (lane_id, start, upto, kind) if is_old else None
        if is_old and is_over:
            yield Statement(_DROP_SKIPPED, {"lane": lane_id, "first": start, "last": seq})
            past = {"tenant": tenant, "endpoint": endpoint_id, "state": kind, "many": upto - start + 1}
            yield Statement(_ADD_PAST, past)
            last, removed = None, removed + 1
        elif start != seq:
            yield Statement(_DROP_SKIPPED, {"lane": lane_id, "first": seq, "last": seq})
            yield Statement(_JOIN_SKIPPED, {"lane": lane_id, "seq": start, "upto": upto})
            removed += 1
    if len(rows) < limit:
        return {"skipped": removed}, ""
    # Where something was joined, once more from that row on: its neighbours may come in the next step.
    return {"skipped": removed}, f"{rows[-1][0]}-{last[1] - 1 if last and removed else rows[-1][1]}"


def _names(cutoffs: Cutoffs, since: int, limit: int) -> Flow[tuple[dict[str, int], str]]:
    """A name lives at least as long as its event: else the same id could be published twice."""
    rows = yield Statement(_NAMES, {"since": since, "before": cutoffs.idempotency, "limit": limit})
    gone = [(tenant, name) for tenant, name, _, may_go in rows if may_go]
    if gone:
        tenants, names = (list(column) for column in zip(*gone, strict=True))
        yield Statement(_DROP_NAMES, {"tenants": tenants, "names": names})
    if len(rows) < limit:
        return {"idempotency": len(gone)}, ""
    return {"idempotency": len(gone)}, str(rows[-1][2] if gone else rows[-1][2] + 1)


def _jobs(cutoffs: Cutoffs, limit: int) -> Flow[int]:
    """Plans that nobody ran, jobs that ended long ago, and members of plans that were never finished."""
    # Ids begin with their time, so a name tells the age.
    bound = new_id("pln", cutoffs.jobs, chance=bytes(10))
    rows = yield Statement(_OLD_PLAN, {"bound": bound, "before": cutoffs.jobs})
    if not rows:
        return 0
    plan = {"plan": rows[0][0]}
    gone = yield Statement(_DROP_MEMBERS, {**plan, "limit": limit})
    if gone:
        return len(gone)
    yield Statement(_DROP_REDELIVERIES, plan)
    return len((yield Statement(_DROP_JOB, plan)))
