"""What does an owner write? Outcomes of attempts in one commit, fenced by the epoch of each partition."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Settlement, Start, Write
from hooklane.model.endpoint import EndpointState
from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import LaneId
from hooklane.model.redelivery import is_redelivery
from hooklane.store.codec import attempt_fields, decode_endpoint
from hooklane.store.outbox import CommitReport
from hooklane.store.sqlite.outbox import audit, redeliveries
from hooklane.store.sqlite.outbox.endpoints import write_endpoint
from hooklane.store.sqlite.outbox.leases import NOW, store_now
from hooklane.store.sqlite.outbox.recovery import act_of
from hooklane.store.sqlite.rows import Insert, Row

NO_EPOCH = -1
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[int]).decode

_ACK = Insert(
    "hooklane_lane",
    ("lane_id", "tenant", "head", "acked", "since"),
    """
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, acked = excluded.acked, state = 'active', attempts = 0,
    next_at = 0, reason = NULL, since = excluded.since, starts = 0
WHERE hooklane_lane.head < excluded.head
""",
)
# A repeat of the same write finds its own traces and changes nothing; a recovery in between has bumped rev.
_HOLD = """
INSERT INTO hooklane_lane (lane_id, tenant, head, state, attempts, next_at, reason, since)
SELECT :lane_id, :tenant, :seq, :state, :attempt, :next_at, :reason, :at WHERE :rev = 0
    OR EXISTS (SELECT 1 FROM hooklane_lane WHERE lane_id = :lane_id)
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, state = excluded.state, attempts = excluded.attempts,
    next_at = excluded.next_at, reason = excluded.reason, since = excluded.since, starts = 0
WHERE hooklane_lane.rev = :rev AND hooklane_lane.head <= :seq
    AND (hooklane_lane.head < :seq OR hooklane_lane.attempts <= :attempt)
    AND (hooklane_lane.state <> 'blocked' OR hooklane_lane.attempts = :attempt)
RETURNING 1
"""
_PASS = """
INSERT INTO hooklane_lane (lane_id, tenant, head, since) SELECT :lane_id, :tenant, :upto + 1, :at WHERE :rev = 0
    OR EXISTS (SELECT 1 FROM hooklane_lane WHERE lane_id = :lane_id)
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, state = 'active', attempts = 0, next_at = 0, reason = NULL,
    since = excluded.since, starts = 0
WHERE hooklane_lane.rev = :rev AND hooklane_lane.head <= :upto
RETURNING 1
"""
_ADD_SKIPPED = """
INSERT INTO hooklane_skipped (lane_id, seq, upto, tenant, kind, note, actor, at)
VALUES (:lane_id, :seq, :upto, :tenant, :kind, :note, :actor, :at) ON CONFLICT DO NOTHING
"""
_BURY = """
INSERT INTO hooklane_dead_letter
    (id, tenant, endpoint_id, lane_id, seq, event_n, attempts, reason, died_at, state, closed_at)
SELECT :id, :tenant, :endpoint, :lane_id, :seq, n, :attempt, :reason, :at, :dead_state,
    CASE :dead_state WHEN 'open' THEN NULL ELSE :at END
FROM hooklane_event WHERE tenant = :tenant AND id = :event_id
ON CONFLICT (id) DO UPDATE SET attempts = excluded.attempts, reason = excluded.reason, died_at = excluded.died_at,
    state = excluded.state, closed_at = NULL
"""
_LOOSE_OUTCOME = """
UPDATE hooklane_loose SET state = :state, attempts = :attempt, next_at = :next_at, reason = :reason, since = :at,
    starts = 0
WHERE n = -:lane_id AND rev = :rev
    AND (state IN ('queued', 'retrying') OR (state = :state AND attempts = :attempt)) RETURNING 1
"""
_CANCEL_LETTERS = """
UPDATE hooklane_dead_letter SET state = 'cancelled', closed_at = :at WHERE lane_id = :lane_id AND state = 'open'
"""
# Its state, reason and time stay: an announcement is no outcome. A repeat finds itself.
_START = """
INSERT INTO hooklane_lane (lane_id, tenant, head, attempts, since, starts)
SELECT lane_id, tenant, :seq, :attempt, :at, :starts FROM hooklane_lane_tail WHERE lane_id = :lane_id AND (:rev = 0
    OR EXISTS (SELECT 1 FROM hooklane_lane WHERE lane_id = :lane_id))
ON CONFLICT (lane_id) DO UPDATE SET attempts = excluded.attempts, starts = excluded.starts
WHERE hooklane_lane.rev = :rev AND hooklane_lane.head = :seq AND hooklane_lane.state <> 'blocked'
    AND :attempt - hooklane_lane.attempts IN (0, 1)
    AND (hooklane_lane.starts < :starts OR (hooklane_lane.starts = :starts AND hooklane_lane.attempts = :attempt))
RETURNING 1
"""
_START_LOOSE = """
UPDATE hooklane_loose SET attempts = :attempt, starts = :starts
WHERE n = -:lane_id AND rev = :rev AND state IN ('queued', 'retrying') AND :attempt - attempts IN (0, 1)
    AND (starts < :starts OR (starts = :starts AND attempts = :attempt)) RETURNING 1
"""
_LOG_COLUMNS = ("event_at", "lane_id", "seq", "started_at", "attempt", "tenant", "took_ms", "outcome", "status")
_LOG = Insert("hooklane_attempt", (*_LOG_COLUMNS, "failure", "said", "detail"), "ON CONFLICT DO NOTHING")
_LOG_PLAIN = Insert("hooklane_attempt", _LOG_COLUMNS, "ON CONFLICT DO NOTHING")
"""Nothing to say but that it was delivered, as nearly always."""
PLAIN = len(_LOG_COLUMNS)
NOTHING_SAID = (None, None, None)
# Asked about the partitions of this commit only, and answered with those that are lost: almost always none.
_FENCED = f"""
SELECT {NOW}, (SELECT json_group_array(CAST(asked.key AS INTEGER)) FROM json_each(?) asked WHERE NOT EXISTS (
    SELECT 1 FROM hooklane_part WHERE pid = CAST(asked.key AS INTEGER) AND owner = ? AND epoch = asked.value))
"""


Ack = tuple[int, int, str, int, int, int, int, float, int, str | None, int]
"""The most frequent write in short: lane, partition, tenant, seq, attempt, started, at, took_ms, status, said, and when
the event was created."""


def commit(
    conn: sqlite3.Connection, worker: str, epochs: Mapping[int, int], writes: Sequence[Write], short: Sequence[Ack] = ()
) -> CommitReport:
    """Make *writes* durable, and the acks of ordered lanes that are given in *short*."""
    pids = {_pid_of(write) for write in writes}.union([ack[1] for ack in short])
    claimed = _encode({pid: epochs.get(pid, NO_EPOCH) for pid in pids})
    now, lost = conn.execute(_FENCED, (claimed, worker)).fetchone()
    fenced = frozenset(_decode(lost))
    stale: set[LaneId] = set()
    acks: list[Row] = []
    log: list[Row] = []
    plain: list[Row] = []
    for lane_id, pid, tenant, seq, attempt, started, at, took_ms, status, said, event_at in short:
        if pid not in fenced:
            acks.append((lane_id, tenant, seq + 1, seq, at))
            row = (event_at, lane_id, seq, started, attempt, tenant, took_ms, "delivered", status)
            if said is None:
                plain.append(row)
            else:
                log.append((*row, None, said, None))
    for write in writes:
        if fenced and _pid_of(write) in fenced:
            continue
        lane_id = write.send.lane_id if isinstance(write, Settlement) else write.lane_id
        if is_redelivery(lane_id):
            if not redeliveries.write(conn, write):
                stale.add(lane_id)
            elif isinstance(write, Settlement):
                if isinstance(write.outcome, Gone) and not _is_logged(conn, write):
                    _disable(conn, write.send.endpoint.id)
                log.append(_log_row(write))
            continue
        if isinstance(write, Settlement):
            send = write.send
            if isinstance(write.outcome, Delivered) and not send.is_loose:
                acks.append((send.lane_id, send.event.tenant, send.seq + 1, send.seq, write.at))
            elif not _settle(conn, write):
                stale.add(send.lane_id)
                continue
            log.append(_log_row(write))
        elif not (_start(conn, write) if isinstance(write, Start) else _cancel(conn, write)):
            stale.add(write.lane_id)
    _ACK.run(conn, acks)
    _LOG_PLAIN.run(conn, plain + [row[:PLAIN] for row in log if row[PLAIN:] == NOTHING_SAID])
    _LOG.run(conn, [row for row in log if row[PLAIN:] != NOTHING_SAID])
    return CommitReport(now, fenced, frozenset(stale))


def _pid_of(write: Write) -> int:
    return write.send.pid if isinstance(write, Settlement) else write.pid


def _params(settlement: Settlement) -> dict[str, object]:
    send, outcome = settlement.send, settlement.outcome
    return {
        "lane_id": send.lane_id,
        "tenant": send.event.tenant,
        "endpoint": send.endpoint.id,
        "event_id": send.event.id,
        "seq": send.seq,
        "upto": send.seq,
        "attempt": send.attempt,
        "rev": send.rev,
        "at": settlement.at,
        "next_at": outcome.at if isinstance(outcome, Retry) else 0,
        "reason": None if isinstance(outcome, Delivered) else outcome.reason,
    }


def _settle(conn: sqlite3.Connection, settlement: Settlement) -> bool:
    """Write any outcome but an ordered ack; False when the lane was recovered meanwhile."""
    params, outcome = _params(settlement), settlement.outcome
    match outcome:
        case Delivered():
            params["state"] = "delivered"
        case Retry() | Gone():
            params["state"] = "retrying"
        case Dead(skip=True):
            params["state"] = "skipped"
        case Dead():
            params["state"] = "dead" if settlement.send.is_loose else "blocked"
    if settlement.send.is_loose:
        done = conn.execute(_LOOSE_OUTCOME, params).fetchone()
    elif params["state"] == "skipped":
        done = conn.execute(_PASS, params).fetchone()
    else:
        done = conn.execute(_HOLD, params).fetchone()
    if not done:
        return False
    if isinstance(outcome, Dead):
        _bury(conn, settlement, params)
    elif isinstance(outcome, Gone) and not _is_logged(conn, settlement):
        _disable(conn, settlement.send.endpoint.id)
    return True


def _bury(conn: sqlite3.Connection, settlement: Settlement, params: dict[str, object]) -> None:
    send, skipped = settlement.send, params["state"] == "skipped"
    is_new = not (skipped and _is_logged(conn, settlement))
    params["id"] = dead_letter_id(send.event.id, send.event.created_at, send.endpoint.id)
    params["dead_state"] = "skipped" if skipped else "open"
    conn.execute(_BURY, params)
    if not skipped:
        return
    note = f"policy on_dead=skip: {params['reason']}"
    if not send.is_loose:
        conn.execute(_ADD_SKIPPED, {**params, "kind": "skipped", "note": note, "actor": "policy"})
    if is_new:
        audit.append(conn, act_of(send.event.tenant, str(params["id"]), "skipped", note, "policy", settlement.at))


def _is_logged(conn: sqlite3.Connection, settlement: Settlement) -> bool:
    """Whether this very write was made before: a person may have resumed the endpoint since."""
    send = settlement.send
    found = conn.execute(
        "SELECT 1 FROM hooklane_attempt"
        " WHERE event_at = ? AND lane_id = ? AND seq = ? AND started_at = ? AND attempt = ?",
        (
            send.event.created_at,
            *redeliveries.place_of(send.lane_id, send.seq, send.event),
            send.at,
            send.attempt,
        ),
    )
    return found.fetchone() is not None


def _disable(conn: sqlite3.Connection, endpoint_id: str) -> None:
    row = conn.execute("SELECT doc FROM hooklane_endpoint WHERE id = ?", (endpoint_id,)).fetchone()
    if row is not None:
        endpoint = decode_endpoint(row[0])
        if endpoint.state is EndpointState.ACTIVE:
            write_endpoint(conn, replace(endpoint, state=EndpointState.DISABLED))


def _start(conn: sqlite3.Connection, start: Start) -> bool:
    params = {
        "lane_id": start.lane_id,
        "seq": start.seq,
        "attempt": start.attempt,
        "rev": start.rev,
        "starts": start.starts,
        "at": store_now(conn),
    }
    return bool(conn.execute(_START_LOOSE if start.lane_id < 0 else _START, params).fetchone())


def _cancel(conn: sqlite3.Connection, cancel: Cancel) -> bool:
    if cancel.lane_id < 0:
        sql = "UPDATE hooklane_loose SET state = 'cancelled' WHERE n = -? AND state <> 'delivered' RETURNING 1"
        done = conn.execute(sql, (cancel.lane_id,)).fetchone()
        if done:
            conn.execute(_CANCEL_LETTERS, {"lane_id": cancel.lane_id, "at": store_now(conn)})
        return bool(done)
    row = conn.execute("SELECT tail, tenant FROM hooklane_lane_tail WHERE lane_id = ?", (cancel.lane_id,)).fetchone()
    params = {
        "lane_id": cancel.lane_id,
        "tenant": row[1],
        "seq": cancel.seq,
        "upto": min(row[0], cancel.tail),
        "at": store_now(conn),
        "rev": cancel.rev,
    }
    if not conn.execute(_PASS, params).fetchone():
        return False
    conn.execute(_ADD_SKIPPED, {**params, "kind": "cancelled", "note": "endpoint deleted", "actor": "api"})
    conn.execute(_CANCEL_LETTERS, params)
    return True


def _log_row(settlement: Settlement) -> Row:
    send = settlement.send
    outcome, took_ms, status, failure, said, detail = attempt_fields(settlement)
    lane_id, seq = redeliveries.place_of(send.lane_id, send.seq, send.event)
    where = (send.event.created_at, lane_id, seq, send.at, send.attempt, send.event.tenant)
    return (*where, took_ms, outcome, status, failure, said, detail)
