"""What does an owner write? Outcomes of attempts in one commit, fenced by the epoch of each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Settlement, Start, Write
from hooklane.model.audit import Act
from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import LaneId
from hooklane.model.redelivery import REDELIVERIES, is_redelivery
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.codec import attempt_fields
from hooklane.store.outbox import CommitReport
from hooklane.store.postgres.outbox import audit, redeliveries
from hooklane.store.postgres.outbox.acks import fenced_acks, is_ack, pid_of, report_of
from hooklane.store.postgres.outbox.endpoints import disable_endpoint
from hooklane.store.postgres.outbox.recovery import act_of

# It sets the head itself and never lowers it, neither the row's nor that of an ack that was not folded yet. Where the
# row is at this head already, it must show the attempt before this one, or this one: then the same commit is repeated.
# A recovery has bumped rev, so an owner's late or repeated write cannot undo what a person did.
_HOLD = """
INSERT INTO hooklane.lane AS l (lane_id, tenant, head, acked, state, attempts, next_at, rev, reason, since)
SELECT w.lane_id, t.tenant, w.head, 0, w.state, w.attempts, w.next_at, w.rev, w.reason,
    coalesce(nullif(w.since, 0), hooklane.now_ms())
FROM unnest(:lanes::bigint[], :heads::bigint[], :states::text[], :attempts::integer[], :nexts::bigint[],
    :revs::bigint[], :reasons::text[], :sinces::bigint[])
    AS w (lane_id, head, state, attempts, next_at, rev, reason, since)
JOIN hooklane.lane_tail t USING (lane_id)
WHERE (w.rev = 0 OR EXISTS (SELECT 1 FROM hooklane.lane x WHERE x.lane_id = w.lane_id))
  AND NOT EXISTS (SELECT 1 FROM hooklane.ack k WHERE k.lane_id = w.lane_id AND k.head > w.head)
ORDER BY w.lane_id
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, state = excluded.state, attempts = excluded.attempts,
    next_at = excluded.next_at, reason = excluded.reason, since = excluded.since, starts = 0
WHERE l.rev = excluded.rev
  AND (l.head < excluded.head OR (l.head = excluded.head AND excluded.attempts - l.attempts IN (0, 1)))
  AND (l.state <> 'blocked' OR (excluded.state = 'blocked' AND l.attempts = excluded.attempts))
RETURNING lane_id
"""
# An announcement is no outcome: state, reason and time of its head stay, those of an older head do not.
_START = """
INSERT INTO hooklane.lane AS l (lane_id, tenant, head, attempts, rev, since, starts)
SELECT w.lane_id, t.tenant, w.head, w.attempts, w.rev, hooklane.now_ms(), w.starts
FROM unnest(:lanes::bigint[], :heads::bigint[], :attempts::integer[], :revs::bigint[], :starts::integer[])
    AS w (lane_id, head, attempts, rev, starts)
JOIN hooklane.lane_tail t USING (lane_id)
WHERE (w.rev = 0 OR EXISTS (SELECT 1 FROM hooklane.lane x WHERE x.lane_id = w.lane_id))
  AND NOT EXISTS (SELECT 1 FROM hooklane.ack k WHERE k.lane_id = w.lane_id AND k.head > w.head)
ORDER BY w.lane_id
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, attempts = excluded.attempts, starts = excluded.starts,
    state = CASE WHEN l.head < excluded.head THEN 'active' ELSE l.state END,
    next_at = CASE WHEN l.head < excluded.head THEN 0 ELSE l.next_at END,
    reason = CASE WHEN l.head < excluded.head THEN NULL ELSE l.reason END,
    since = CASE WHEN l.head < excluded.head THEN excluded.since ELSE l.since END
WHERE l.rev = excluded.rev AND l.state <> 'blocked'
  AND (l.head < excluded.head OR (l.head = excluded.head AND excluded.attempts - l.attempts IN (0, 1)
    AND (l.starts < excluded.starts OR (l.starts = excluded.starts AND l.attempts = excluded.attempts))))
RETURNING lane_id
"""
# The head passes what is given up, by policy or because the endpoint is deleted. A repeat finds it passed.
_PASS = """
WITH passed AS (
    INSERT INTO hooklane.lane AS l (lane_id, tenant, head, rev, since)
    SELECT w.lane_id, t.tenant, w.upto + 1, w.rev, coalesce(nullif(w.at, 0), hooklane.now_ms())
    FROM unnest(:lanes::bigint[], :uptos::bigint[], :revs::bigint[], :ats::bigint[]) AS w (lane_id, upto, rev, at)
    JOIN hooklane.lane_tail t USING (lane_id)
    WHERE (w.rev = 0 OR EXISTS (SELECT 1 FROM hooklane.lane x WHERE x.lane_id = w.lane_id))
      AND NOT EXISTS (SELECT 1 FROM hooklane.ack k WHERE k.lane_id = w.lane_id AND k.head > w.upto + 1)
    ORDER BY w.lane_id
    ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, since = excluded.since,
        state = CASE WHEN l.head < excluded.head THEN 'active' ELSE l.state END,
        attempts = CASE WHEN l.head < excluded.head THEN 0 ELSE l.attempts END,
        next_at = CASE WHEN l.head < excluded.head THEN 0 ELSE l.next_at END,
        reason = CASE WHEN l.head < excluded.head THEN NULL ELSE l.reason END,
        starts = CASE WHEN l.head < excluded.head THEN 0 ELSE l.starts END
    WHERE l.rev = excluded.rev AND l.head <= excluded.head
    RETURNING lane_id, tenant
)
INSERT INTO hooklane.skipped (lane_id, seq, upto, tenant, kind, note, actor, at)
SELECT w.lane_id, w.seq, w.upto, p.tenant, w.kind, w.note, w.actor, coalesce(nullif(w.at, 0), hooklane.now_ms())
FROM unnest(:lanes::bigint[], :seqs::bigint[], :uptos::bigint[], :kinds::text[], :notes::text[], :actors::text[],
    :ats::bigint[]) AS w (lane_id, seq, upto, kind, note, actor, at)
JOIN passed p USING (lane_id)
ON CONFLICT (lane_id, seq) DO UPDATE SET upto = excluded.upto RETURNING lane_id
"""
_BURY = """
INSERT INTO hooklane.dead_letter
    (id, tenant, endpoint_id, lane_id, seq, event_n, attempts, reason, died_at, state, closed_at)
SELECT w.id, w.tenant, w.endpoint_id, w.lane_id, w.seq, e.n, w.attempts, w.reason, w.at, w.state,
    CASE w.state WHEN 'open' THEN NULL ELSE w.at END
FROM unnest(:ids::text[], :tenants::text[], :endpoints::text[], :lanes::bigint[], :seqs::bigint[], :events::text[],
    :attempts::integer[], :reasons::text[], :ats::bigint[], :states::text[])
    AS w (id, tenant, endpoint_id, lane_id, seq, event_id, attempts, reason, at, state)
JOIN hooklane.event e ON e.tenant = w.tenant AND e.id = w.event_id
ON CONFLICT (id) DO UPDATE SET attempts = excluded.attempts, reason = excluded.reason, died_at = excluded.died_at,
    state = excluded.state, closed_at = excluded.closed_at
"""
_CLOSE_LETTERS = """
UPDATE hooklane.dead_letter SET state = 'cancelled', closed_at = hooklane.now_ms()
WHERE lane_id = ANY(:lanes::bigint[]) AND state = 'open'
"""
# A loose delivery that is done leaves no row; a repeat finds none, and that is right.
_LOOSE_DONE = """
WITH done AS (
    DELETE FROM hooklane.loose WHERE n = ANY(:ns::bigint[]) AND state IN ('queued', 'retrying')
    RETURNING tenant, endpoint_id
)
INSERT INTO hooklane.loose_delivered (tenant, endpoint_id, many)
SELECT tenant, endpoint_id, count(*) FROM done GROUP BY tenant, endpoint_id
"""
_LOOSE_LEFT = "SELECT n FROM hooklane.loose WHERE n = ANY(:ns::bigint[])"
_LOOSE_HELD = """
UPDATE hooklane.loose o SET state = w.state, attempts = w.attempts, next_at = w.next_at, reason = w.reason,
    since = w.since, starts = 0
FROM unnest(:ns::bigint[], :states::text[], :attempts::integer[], :nexts::bigint[], :revs::bigint[], :reasons::text[],
    :sinces::bigint[]) AS w (n, state, attempts, next_at, rev, reason, since)
WHERE o.n = w.n AND o.rev = w.rev AND w.attempts - o.attempts IN (0, 1)
  AND (o.state IN ('queued', 'retrying') OR (o.state = w.state AND o.attempts = w.attempts))
RETURNING o.n
"""
_LOOSE_START = """
UPDATE hooklane.loose o SET attempts = w.attempts, starts = w.starts
FROM unnest(:lanes::bigint[], :attempts::integer[], :revs::bigint[], :starts::integer[])
    AS w (lane_id, attempts, rev, starts)
WHERE o.n = -w.lane_id AND o.rev = w.rev AND o.state IN ('queued', 'retrying') AND w.attempts - o.attempts IN (0, 1)
  AND (o.starts < w.starts OR (o.starts = w.starts AND o.attempts = w.attempts))
RETURNING o.n
"""
_LOOSE_CANCELLED = """
UPDATE hooklane.loose SET state = 'cancelled' WHERE n = ANY(:ns::bigint[]) AND state <> 'skipped' RETURNING n
"""
_LOG = """
INSERT INTO hooklane.attempt
    (lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, failure, said, detail)
SELECT * FROM unnest(:lanes::bigint[], :seqs::bigint[], :starts::bigint[], :attempts::integer[], :tenants::text[],
    :tooks::double precision[], :outcomes::text[], :statuses::integer[], :failures::text[], :saids::text[],
    :details::bytea[])
ON CONFLICT DO NOTHING RETURNING lane_id, seq, started_at, attempt
"""


def commit(worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> Flow[CommitReport]:
    """Make *writes* durable as far as their partitions are still ours; a lane that was recovered meanwhile is stale."""
    rows = yield fenced_acks(worker, epochs, writes, again=True)
    fenced = report_of(rows, writes).fenced
    others = [write for write in writes if pid_of(write) not in fenced and not is_ack(write)]
    ordered = [write for write in others if lane_of(write) > 0]
    loose = [write for write in others if REDELIVERIES <= lane_of(write) < 0]
    again = [write for write in others if is_redelivery(lane_of(write))]
    stale = (yield from _write_ordered(ordered)) | (yield from _write_loose(loose))
    stale |= yield from redeliveries.write(again)
    written = [w for w in others if isinstance(w, Settlement) and w.send.lane_id not in stale]
    # A redelivery that fails is a result of its job: the event itself was delivered.
    dead = [one for one in written if isinstance(one.outcome, Dead) and not is_redelivery(one.send.lane_id)]
    yield from _bury(dead)
    logged = yield from _log(written)
    # Only by a write that is made for the first time: a person may have resumed the endpoint since.
    yield from _disable({one.send.endpoint.id for one in logged if isinstance(one.outcome, Gone)})
    # Last, as everywhere: whoever holds the end of the chain waits for nobody.
    if given_up := [_act(one) for one in logged if _is_pass(one)]:
        yield from audit.append_all(given_up)
    return report_of(rows, writes, stale)


def lane_of(write: Write) -> LaneId:
    return write.send.lane_id if isinstance(write, Settlement) else write.lane_id


def _is_pass(write: Write) -> bool:
    return isinstance(write, Cancel) or (
        isinstance(write, Settlement) and isinstance(write.outcome, Dead) and write.outcome.skip
    )


# --- ordered lanes ---


def _write_ordered(writes: Sequence[Write]) -> Flow[set[LaneId]]:
    """The lanes whose write did not find what it expected."""
    done: set[LaneId] = set()
    if starts := [write for write in writes if isinstance(write, Start)]:
        heads = {"heads": [write.seq for write in starts]}
        rows = yield Statement(_START, _start_rows(starts) | heads)
        done |= {lane_id for (lane_id,) in rows}
    if holds := [write for write in writes if not (_is_pass(write) or isinstance(write, Start))]:
        rows = yield Statement(_HOLD, _hold_rows(holds))
        done |= {lane_id for (lane_id,) in rows}
    if passes := [write for write in writes if _is_pass(write)]:
        rows = yield Statement(_PASS, _pass_rows(passes))
        done |= {lane_id for (lane_id,) in rows}
    if cancelled := [write.lane_id for write in writes if isinstance(write, Cancel) and write.lane_id in done]:
        yield Statement(_CLOSE_LETTERS, {"lanes": cancelled})
    return {lane_of(write) for write in writes} - done


def _start_rows(starts: Sequence[Start]) -> dict[str, list[Any]]:
    return {
        "lanes": [one.lane_id for one in starts],
        "attempts": [one.attempt for one in starts],
        "revs": [one.rev for one in starts],
        "starts": [one.starts for one in starts],
    }


def _hold_rows(writes: Sequence[Write]) -> dict[str, list[Any]]:
    rows = [_hold_row(write) for write in writes]
    names = ("lanes", "heads", "states", "attempts", "nexts", "revs", "reasons", "sinces")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _hold_row(write: Write) -> tuple[Any, ...]:
    match write:
        case Settlement(send=send, outcome=outcome, at=at):
            next_at = outcome.at if isinstance(outcome, Retry) else 0
            state = _held_state(write)
            return send.lane_id, send.seq, state, send.attempt, next_at, send.rev, _reason(write), at
    raise AssertionError(f"not a write that holds a head: {write}")


def _held_state(settlement: Settlement) -> str:
    if not isinstance(settlement.outcome, Dead):
        return "retrying"
    if not settlement.send.is_loose:
        return "blocked"
    return "skipped" if settlement.outcome.skip else "dead"


def _reason(settlement: Settlement) -> str:
    assert not isinstance(settlement.outcome, Delivered)
    return settlement.outcome.reason


def _pass_rows(writes: Sequence[Write]) -> dict[str, list[Any]]:
    rows = [_pass_row(write) for write in writes]
    names = ("lanes", "seqs", "uptos", "revs", "ats", "kinds", "notes", "actors")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _pass_row(write: Write) -> tuple[Any, ...]:
    match write:
        case Cancel():
            return write.lane_id, write.seq, write.tail, write.rev, 0, "cancelled", "endpoint deleted", "api"
        case Settlement(send=send, at=at):
            note = f"policy on_dead=skip: {_reason(write)}"
            return send.lane_id, send.seq, send.seq, send.rev, at, "skipped", note, "policy"
    raise AssertionError(f"not a write that passes a head: {write}")


# --- loose deliveries ---


def _write_loose(writes: Sequence[Write]) -> Flow[set[LaneId]]:
    done: set[int] = set()
    delivered = [-lane_of(w) for w in writes if isinstance(w, Settlement) and isinstance(w.outcome, Delivered)]
    if delivered:
        yield Statement(_LOOSE_DONE, {"ns": delivered})
        done |= set(delivered) - {n for (n,) in (yield Statement(_LOOSE_LEFT, {"ns": delivered}))}
    if cancelled := [-write.lane_id for write in writes if isinstance(write, Cancel)]:
        done |= {n for (n,) in (yield Statement(_LOOSE_CANCELLED, {"ns": cancelled}))}
        yield Statement(_CLOSE_LETTERS, {"lanes": [-n for n in cancelled]})
    if starts := [write for write in writes if isinstance(write, Start)]:
        done |= {n for (n,) in (yield Statement(_LOOSE_START, _start_rows(starts)))}
    if held := [w for w in writes if isinstance(w, Settlement) and -lane_of(w) not in delivered]:
        rows = _hold_rows(held)
        rows["ns"] = [-lane_id for lane_id in rows["lanes"]]
        done |= {n for (n,) in (yield Statement(_LOOSE_HELD, rows))}
    return {lane_of(write) for write in writes if -lane_of(write) not in done}


# --- what goes with an outcome ---


def _bury(settlements: Sequence[Settlement]) -> Flow[None]:
    if not settlements:
        return
    sends = [one.send for one in settlements]
    yield Statement(
        _BURY,
        {
            "ids": [dead_letter_id(send.event.id, send.event.created_at, send.endpoint.id) for send in sends],
            "tenants": [send.event.tenant for send in sends],
            "endpoints": [send.endpoint.id for send in sends],
            "lanes": [send.lane_id for send in sends],
            "seqs": [send.seq for send in sends],
            "events": [send.event.id for send in sends],
            "attempts": [send.attempt for send in sends],
            "reasons": [_reason(one) for one in settlements],
            "ats": [one.at for one in settlements],
            "states": ["skipped" if _is_pass(one) else "open" for one in settlements],
        },
    )


def _act(settlement: Settlement) -> Act:
    event, note = settlement.send.event, f"policy on_dead=skip: {_reason(settlement)}"
    letter = dead_letter_id(event.id, event.created_at, settlement.send.endpoint.id)
    return act_of(event.tenant, letter, "skipped", note, "policy", settlement.at)


def _disable(endpoint_ids: set[str]) -> Flow[None]:
    for endpoint_id in sorted(endpoint_ids):
        yield from disable_endpoint(endpoint_id)


def _log(settlements: Sequence[Settlement]) -> Flow[list[Settlement]]:
    """Those that were not in the log before: the others are repeats."""
    if not settlements:
        return []
    fields = [attempt_fields(one) for one in settlements]
    sends = [one.send for one in settlements]
    places = [redeliveries.place_of(send) for send in sends]
    rows = yield Statement(
        _LOG,
        {
            "lanes": [lane_id for lane_id, _ in places],
            "seqs": [seq for _, seq in places],
            "starts": [send.at for send in sends],
            "attempts": [send.attempt for send in sends],
            "tenants": [send.event.tenant for send in sends],
            "tooks": [one.took_ms for one in fields],
            "outcomes": [one.outcome for one in fields],
            "statuses": [one.status for one in fields],
            "failures": [one.failure for one in fields],
            "saids": [one.said for one in fields],
            "details": [one.detail for one in fields],
        },
    )
    new = {tuple(row) for row in rows}
    logged = zip(settlements, places, strict=True)
    return [one for one, place in logged if (*place, one.send.at, one.send.attempt) in new]
