"""How is a delivered event sent again? In redelivery lanes: lines with a head of their own, beside what is owed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Send, Settlement, Start, Write
from hooklane.model.lane import LaneId
from hooklane.model.redelivery import REDELIVERIES, Redelivery, redelivery_lane
from hooklane.store.caller.flow import Flow, Statement

OPEN = "state IN ('active', 'retrying') AND head <= tail"
ROWS = f"""
SELECT {REDELIVERIES} - n, pid, endpoint_id, NULL::text, head, tail, state, attempts, next_at, 0::bigint, 0::bigint,
    starts
FROM hooklane.redelivery WHERE {OPEN}
"""
# The first copy named the largest seq below that was not passed over: the end of the run of skips tells it.
_FETCH = """
SELECT w.lane_id, m.pos, e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of, m.lane_id, m.key, m.seq
FROM unnest(:lanes::bigint[], :ns::bigint[], :seqs::bigint[], :many::bigint[]) AS w (lane_id, n, seq, many)
CROSS JOIN LATERAL (
    SELECT * FROM hooklane.member x WHERE x.redelivery = w.n AND x.pos >= w.seq ORDER BY x.pos LIMIT w.many
) m JOIN hooklane.event e ON e.tenant = m.tenant AND e.id = m.event_id
"""
_PASSED = "SELECT lane_id, seq, upto FROM hooklane.skipped WHERE lane_id = ANY(:lanes::bigint[])"
_ACK = """
UPDATE hooklane.redelivery SET head = :seq + 1, state = 'active', attempts = 0, next_at = 0, reason = NULL,
    starts = 0
WHERE n = :n AND head = :seq AND state IN ('active', 'retrying') RETURNING n
"""
_IS_BEHIND = "SELECT 1 FROM hooklane.redelivery WHERE n = :n AND head > :seq"
_HOLD = """
UPDATE hooklane.redelivery SET state = :state, attempts = :attempt, next_at = :next_at, reason = :reason,
    starts = 0
WHERE n = :n AND head = :seq AND attempts <= :attempt
    AND (state IN ('active', 'retrying') OR (state = :state AND attempts = :attempt)) RETURNING n
"""
_START = """
UPDATE hooklane.redelivery SET attempts = :attempt, starts = :starts
WHERE n = :n AND head = :seq AND :attempt - attempts IN (0, 1)
    AND (starts < :starts OR (starts = :starts AND attempts = :attempt)) AND state IN ('active', 'retrying') RETURNING n
"""
_CANCEL = "UPDATE hooklane.redelivery SET state = 'cancelled' WHERE n = :n RETURNING n"


def fetch(wants: Sequence[tuple[LaneId, int, int]]) -> Flow[list[tuple[LaneId, int, Redelivery]]]:
    ids, seqs, many = (list(column) for column in zip(*wants, strict=True))
    numbers = [redelivery_lane(lane_id) for lane_id in ids]
    rows = yield Statement(_FETCH, {"lanes": ids, "ns": numbers, "seqs": seqs, "many": many})
    passed = yield Statement(_PASSED, {"lanes": sorted({row[9] for row in rows if row[9] > 0})})
    gaps = {(lane_id, upto): seq for lane_id, seq, upto in passed}
    found = []
    for lane_id, pos, *event, was, key, seq in rows:
        prev_seq = 0 if seq is None else seq - 1
        while (was, prev_seq) in gaps:
            prev_seq = gaps[was, prev_seq] - 1
        place: dict[str, Any] = {"lane_id": was, "lane_key": None if seq is None else key, "seq": seq}
        place["prev_seq"] = prev_seq
        found.append((lane_id, pos, Redelivery(*event, **place)))
    return found


def write(writes: Sequence[Write]) -> Flow[set[LaneId]]:
    """The lines whose write did not find what it expected."""
    stale: set[LaneId] = set()
    for one in writes:
        lane_id = one.send.lane_id if isinstance(one, Settlement) else one.lane_id
        if not (yield from _write(one)):
            stale.add(lane_id)
    return stale


def _write(wanted: Write) -> Flow[bool]:
    match wanted:
        case Settlement(send=send, outcome=outcome):
            params: dict[str, Any] = {"n": redelivery_lane(send.lane_id), "seq": send.seq, "attempt": send.attempt}
            match outcome:
                case Delivered():
                    place = {"n": params["n"], "seq": send.seq}
                    return bool((yield Statement(_ACK, place))) or bool((yield Statement(_IS_BEHIND, place)))
                case Retry(at=at, reason=reason):
                    held = {"state": "retrying", "next_at": at, "reason": reason}
                case Gone(reason=reason):
                    held = {"state": "retrying", "next_at": 0, "reason": reason}
                case Dead(reason=reason):
                    held = {"state": "blocked", "next_at": 0, "reason": reason}
            return bool((yield Statement(_HOLD, {**params, **held})))
        case Start(lane_id=lane_id, seq=seq, attempt=attempt, starts=starts):
            params = {"n": redelivery_lane(lane_id), "seq": seq, "attempt": attempt, "starts": starts}
            return bool((yield Statement(_START, params)))
        case Cancel(lane_id=lane_id):
            yield Statement(_CANCEL, {"n": redelivery_lane(lane_id)})
            return True


def place_of(send: Send) -> tuple[LaneId, int]:
    """Where an attempt is logged: that of a redelivery beside the first ones of its event."""
    event = send.event
    return (event.lane_id, event.seq or 1) if isinstance(event, Redelivery) else (send.lane_id, send.seq)
