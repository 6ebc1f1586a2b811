"""What does an owner write? Outcomes of attempts in one commit, fenced by the epoch of each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Settlement, Start, Write
from hooklane.model.audit import Act
from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import LaneId
from hooklane.model.lost import skip_note
from hooklane.model.redelivery import REDELIVERIES, is_redelivery
from hooklane.store.caller.flow import Statement
from hooklane.store.codec import attempt_fields
from hooklane.store.outbox import CommitReport
from hooklane.store.postgres.outbox.acks import fenced_acks, is_ack, pid_of, report_of
from hooklane.store.postgres.outbox.places import lost_places
from hooklane.store.postgres.outbox.statements import SQL
from hooklane.store.sql.outbox import audit, redeliveries
from hooklane.store.sql.outbox.endpoints import cancel_letters, disable_endpoint
from hooklane.store.sql.outbox.recovery import act_of
from hooklane.store.sql.outbox.steps import Flow


def commit(worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> Flow[CommitReport]:
    """Make *writes* durable as far as their partitions are still ours; a lane that was recovered meanwhile is stale.

    So is one in whose place another event stands now than the one that was sent.
    """
    lost = yield from lost_places([write for write in writes if isinstance(write, Settlement)])
    rows = yield fenced_acks(worker, epochs, writes, again=True, lost=lost)
    void = report_of(rows, writes).fenced
    others = [w for w in writes if pid_of(w) not in void and lane_of(w) not in lost and not is_ack(w)]
    ordered = [write for write in others if lane_of(write) > 0]
    loose = [write for write in others if REDELIVERIES <= lane_of(write) < 0]
    again = [write for write in others if is_redelivery(lane_of(write))]
    stale = (yield from _write_ordered(ordered)) | (yield from _write_loose(loose))
    for write in again:
        if not (yield from redeliveries.write(write)):
            stale.add(lane_of(write))
    written = [w for w in others if isinstance(w, Settlement) and w.send.lane_id not in stale]
    # A redelivery that fails is a result of its job: the event itself was delivered.
    dead = [one for one in written if isinstance(one.outcome, Dead) and not is_redelivery(one.send.lane_id)]
    yield from _add_letters(dead)
    logged = yield from _log(written)
    # Only by a write that is made for the first time: a person may have resumed the endpoint since.
    yield from _disable({one.send.endpoint.id for one in logged if isinstance(one.outcome, Gone)})
    # Last, as everywhere: a transaction that holds the end of the chain waits for no other lock.
    if given_up := [_act(one) for one in logged if _is_pass(one)]:
        yield from audit.append_all(given_up)
    return report_of(rows, writes, stale | lost)


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
        rows = yield Statement(SQL["start_heads"], _start_rows(starts) | heads)
        done |= {lane_id for (lane_id,) in rows}
    if holds := [write for write in writes if not (_is_pass(write) or isinstance(write, Start))]:
        rows = yield Statement(SQL["hold_heads"], _hold_rows(holds))
        done |= {lane_id for (lane_id,) in rows}
    if passes := [write for write in writes if _is_pass(write)]:
        rows = yield Statement(SQL["pass_heads"], _pass_rows(passes))
        done |= {lane_id for (lane_id,) in rows}
    if cancelled := [write.lane_id for write in writes if isinstance(write, Cancel) and write.lane_id in done]:
        yield from cancel_letters(cancelled)
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
            note = skip_note(_reason(write))
            return send.lane_id, send.seq, send.seq, send.rev, at, "skipped", note, "policy"
    raise AssertionError(f"not a write that passes a head: {write}")


# --- loose deliveries ---


def _write_loose(writes: Sequence[Write]) -> Flow[set[LaneId]]:
    done: set[int] = set()
    delivered = [-lane_of(w) for w in writes if isinstance(w, Settlement) and isinstance(w.outcome, Delivered)]
    if delivered:
        yield Statement(SQL["loose_delivered"], {"ns": delivered})
        done |= set(delivered) - {n for (n,) in (yield Statement(SQL["loose_left"], {"ns": delivered}))}
    if cancelled := [-write.lane_id for write in writes if isinstance(write, Cancel)]:
        done |= {n for (n,) in (yield Statement(SQL["cancel_loose"], {"ns": cancelled}))}
        yield from cancel_letters([-n for n in cancelled])
    if starts := [write for write in writes if isinstance(write, Start)]:
        done |= {n for (n,) in (yield Statement(SQL["start_loose"], _start_rows(starts)))}
    if held := [w for w in writes if isinstance(w, Settlement) and -lane_of(w) not in delivered]:
        rows = _hold_rows(held)
        rows["ns"] = [-lane_id for lane_id in rows["lanes"]]
        done |= {n for (n,) in (yield Statement(SQL["hold_loose"], rows))}
    return {lane_of(write) for write in writes if -lane_of(write) not in done}


# --- what goes with an outcome ---


def _add_letters(settlements: Sequence[Settlement]) -> Flow[None]:
    if not settlements:
        return
    sends = [one.send for one in settlements]
    yield Statement(
        SQL["add_letters"],
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
    event, note = settlement.send.event, skip_note(_reason(settlement))
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
        SQL["log_attempts"],
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
