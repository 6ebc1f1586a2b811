"""What does an owner write? Outcomes of attempts in one commit, fenced by the epoch of each partition."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Settlement, Start, Write
from hooklane.model.clock import Instant
from hooklane.model.ids import dead_letter_id
from hooklane.model.jumps import next_at_of
from hooklane.model.lane import LaneId
from hooklane.model.lost import skip_note
from hooklane.model.redelivery import is_redelivery
from hooklane.store.codec import attempt_fields
from hooklane.store.outbox import CommitReport
from hooklane.store.sql.outbox import audit, redeliveries
from hooklane.store.sql.outbox.endpoints import cancel_letters, disable_endpoint
from hooklane.store.sql.outbox.recovery import act_of
from hooklane.store.sqlite.outbox.lanes import store_now
from hooklane.store.sqlite.outbox.statements import SQL, run
from hooklane.store.sqlite.rows import Insert, Row, Update

NO_EPOCH = -1
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(list[int]).decode

_ACK: Final = Insert(SQL["ack_lanes"])
_MOVE: Final = Update(SQL["move_heads"])
_LOG: Final = Insert(SQL["log_attempts"])
_LOG_PLAIN: Final = Insert(SQL["log_plain_attempts"])
PLAIN: Final = len(_LOG_PLAIN.columns)
NOTHING_SAID: Final = (None, None, None)


Ack = tuple[int, int, str, int, int, int, int, float, int, str | None, int]
"""The most frequent write in short: lane, partition, tenant, seq, attempt, started, at, took_ms, status, said, and when
the event was created."""

Held = tuple[
    int, int, str, int, int, int, int, int, str, int, int, float, str, int | None, str | None, str | None, bytes | None
]
"""A head that is tried again in short: lane, partition, tenant, seq, attempt, rev, at, next_at, reason; when the event
was created, when the attempt began, and what the log keeps of it."""


def commit(
    conn: sqlite3.Connection,
    worker: str,
    epochs: Mapping[int, int],
    writes: Sequence[Write],
    short: Sequence[Ack] = (),
    held: Sequence[Held] = (),
) -> CommitReport:
    """Make *writes* durable, and of ordered lanes the acks that are given in *short* and the heads that are *held*."""
    pids = {_pid_of(write) for write in writes}.union([ack[1] for ack in short], [one[1] for one in held])
    now, fenced = _fence(conn, worker, {pid: epochs.get(pid, NO_EPOCH) for pid in pids})
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
    for one in held:
        if one[1] in fenced:
            continue
        if _hold(conn, one, now):
            log.append((one[9], one[0], one[3], one[10], one[4], one[2], *one[11:]))
        else:
            stale.add(one[0])
    for write in writes:
        if fenced and _pid_of(write) in fenced:
            continue
        lane_id = write.send.lane_id if isinstance(write, Settlement) else write.lane_id
        if is_redelivery(lane_id):
            if not run(conn, redeliveries.write(write)):
                stale.add(lane_id)
            elif isinstance(write, Settlement):
                if isinstance(write.outcome, Gone) and not _is_logged(conn, write):
                    run(conn, disable_endpoint(write.send.endpoint.id))
                log.append(_log_row(write))
            continue
        if isinstance(write, Settlement):
            send = write.send
            if isinstance(write.outcome, Delivered) and not send.is_loose:
                acks.append((send.lane_id, send.event.tenant, send.seq + 1, send.seq, write.at))
            elif not _settle(conn, write, now):
                stale.add(send.lane_id)
                continue
            log.append(_log_row(write))
        elif not (_start(conn, write) if isinstance(write, Start) else _cancel(conn, write)):
            stale.add(write.lane_id)
    _move_heads(conn, acks)
    _LOG_PLAIN.run(conn, plain + [row[:PLAIN] for row in log if row[PLAIN:] == NOTHING_SAID])
    _LOG.run(conn, [row for row in log if row[PLAIN:] != NOTHING_SAID])
    return CommitReport(now, fenced, frozenset(stale))


def _fence(conn: sqlite3.Connection, worker: str, claimed: Mapping[int, int]) -> tuple[Instant, frozenset[int]]:
    """What time it is, and which of the partitions are not *worker*'s under these epochs."""
    if len(claimed) == 1:
        ((pid, epoch),) = claimed.items()
        now, is_ours = conn.execute(SQL["fenced_one"], (pid, worker, epoch)).fetchone()
        return now, frozenset() if is_ours else frozenset((pid,))
    now, lost = conn.execute(SQL["fenced"], (_encode(claimed), worker)).fetchone()
    return now, frozenset(_decode(lost))


def _hold(conn: sqlite3.Connection, held: Held, now: Instant) -> bool:
    """Write that a head is tried again; False when the lane was recovered meanwhile."""
    params = {
        "lane_id": held[0],
        "tenant": held[2],
        "seq": held[3],
        "state": "retrying",
        "attempt": held[4],
        "rev": held[5],
        "at": held[6],
        "next_at": next_at_of(Instant(held[7]), Instant(held[6]), now),
        "reason": held[8],
    }
    return conn.execute(SQL["hold_head"], params).fetchone() is not None


def _move_heads(conn: sqlite3.Connection, acks: Sequence[Row]) -> None:
    """Rows of `ack_lanes`; a lane has no row before its first ack."""
    moves = [(head, acked, since, lane_id) for lane_id, _, head, acked, since in acks if acked > 1]
    if len(_MOVE.run(conn, moves)) == len(moves):
        acks = [ack for ack in acks if ack[3] == 1] if len(moves) < len(acks) else ()
    _ACK.run(conn, acks)


def _pid_of(write: Write) -> int:
    return write.send.pid if isinstance(write, Settlement) else write.pid


def _params(settlement: Settlement, now: Instant) -> dict[str, object]:
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
        "next_at": next_at_of(outcome.at, settlement.at, now) if isinstance(outcome, Retry) else 0,
        "reason": None if isinstance(outcome, Delivered) else outcome.reason,
    }


def _settle(conn: sqlite3.Connection, settlement: Settlement, now: Instant) -> bool:
    """Write any outcome but an ordered ack; False when the lane was recovered meanwhile."""
    params, outcome = _params(settlement, now), settlement.outcome
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
        done = conn.execute(SQL["settle_loose"], params).fetchone()
    elif params["state"] == "skipped":
        done = conn.execute(SQL["pass_head"], params).fetchone()
    else:
        done = conn.execute(SQL["hold_head"], params).fetchone()
    if not done:
        return False
    if isinstance(outcome, Dead):
        _add_letter(conn, settlement, params)
    elif isinstance(outcome, Gone) and not _is_logged(conn, settlement):
        run(conn, disable_endpoint(settlement.send.endpoint.id))
    return True


def _add_letter(conn: sqlite3.Connection, settlement: Settlement, params: dict[str, object]) -> None:
    send, skipped = settlement.send, params["state"] == "skipped"
    is_new = not (skipped and _is_logged(conn, settlement))
    params["id"] = dead_letter_id(send.event.id, send.event.created_at, send.endpoint.id)
    params["letter_state"] = "skipped" if skipped else "open"
    conn.execute(SQL["add_letter"], params)
    if not skipped:
        return
    note = skip_note(str(params["reason"]))
    if not send.is_loose:
        conn.execute(SQL["note_passed"], {**params, "kind": "skipped", "note": note, "actor": "policy"})
    if is_new:
        act = act_of(send.event.tenant, str(params["id"]), "skipped", note, "policy", settlement.at)
        run(conn, audit.append(act))


def _is_logged(conn: sqlite3.Connection, settlement: Settlement) -> bool:
    """Whether this very write was made before: a person may have resumed the endpoint since."""
    send = settlement.send
    lane_id, seq = redeliveries.place_of(send)
    place = {"event_at": send.event.created_at, "lane_id": lane_id, "seq": seq}
    found = conn.execute(SQL["attempt_is_logged"], {**place, "started_at": send.at, "attempt": send.attempt})
    return found.fetchone() is not None


def _start(conn: sqlite3.Connection, start: Start) -> bool:
    params = {
        "lane_id": start.lane_id,
        "seq": start.seq,
        "attempt": start.attempt,
        "rev": start.rev,
        "starts": start.starts,
        "at": store_now(conn),
    }
    return bool(conn.execute(SQL["start_loose" if start.lane_id < 0 else "start_head"], params).fetchone())


def _cancel(conn: sqlite3.Connection, cancel: Cancel) -> bool:
    lane = {"lane_id": cancel.lane_id}
    if cancel.lane_id < 0:
        done = conn.execute(SQL["cancel_loose"], lane).fetchone()
        if done:
            run(conn, cancel_letters([cancel.lane_id]))
        return bool(done)
    row = conn.execute(SQL["lane_to_cancel"], lane).fetchone()
    params = {
        "lane_id": cancel.lane_id,
        "tenant": row[1],
        "seq": cancel.seq,
        "upto": min(row[0], cancel.tail),
        "at": store_now(conn),
        "rev": cancel.rev,
    }
    if not conn.execute(SQL["pass_head"], params).fetchone():
        return False
    conn.execute(SQL["note_passed"], {**params, "kind": "cancelled", "note": "endpoint deleted", "actor": "api"})
    run(conn, cancel_letters([cancel.lane_id]))
    return True


def _log_row(settlement: Settlement) -> Row:
    send = settlement.send
    outcome, took_ms, status, failure, said, detail = attempt_fields(settlement)
    lane_id, seq = redeliveries.place_of(send)
    where = (send.event.created_at, lane_id, seq, send.at, send.attempt, send.event.tenant)
    return (*where, took_ms, outcome, status, failure, said, detail)
