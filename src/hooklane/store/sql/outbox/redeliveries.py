"""How is a delivered event sent again? In redelivery lanes: lines with a head of their own, beside what is owed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Send, Settlement, Start, Write
from hooklane.model.lane import LaneId
from hooklane.model.redelivery import Redelivery, redelivery_lane
from hooklane.store.sql.outbox.steps import Batch, Flow, sql


def fetch(wants: Sequence[tuple[LaneId, int, int]]) -> Flow[list[tuple[LaneId, int, Redelivery]]]:
    """For each (lane, place, many): up to *many* events from that place on, each as it was sent at first."""
    rows = yield Batch(
        "redelivered_events",
        [{"lane_id": lane, "n": redelivery_lane(lane), "seq": seq, "many": many} for lane, seq, many in wants],
    )
    passed = yield sql("passed_over", lanes=sorted({row[-3] for row in rows if row[-3] > 0}))
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


def write(wanted: Write) -> Flow[bool]:
    """Make an owner's write durable; False when the line is over or not where the owner believed it to be."""
    match wanted:
        case Settlement(send=send, outcome=outcome, at=judged_at):
            params: dict[str, Any] = {"n": redelivery_lane(send.lane_id), "seq": send.seq}
            match outcome:
                case Delivered():
                    done = yield sql("redelivery_ack", **params)
                    return bool(done) or bool((yield sql("redelivery_is_behind", **params)))
                case Retry(at=at, reason=reason):
                    held = {"state": "retrying", "next_at": at, "reason": reason}
                case Gone(reason=reason):
                    held = {"state": "retrying", "next_at": 0, "reason": reason}
                case Dead(reason=reason):
                    held = {"state": "blocked", "next_at": 0, "reason": reason}
            return bool((yield sql("redelivery_hold", **params, **held, attempt=send.attempt, judged_at=judged_at)))
        case Start(lane_id=lane_id, seq=seq, attempt=attempt, starts=starts):
            n = redelivery_lane(lane_id)
            return bool((yield sql("redelivery_start", n=n, seq=seq, attempt=attempt, starts=starts)))
        case Cancel(lane_id=lane_id):
            yield sql("redelivery_cancel", n=redelivery_lane(lane_id))
            return True


def place_of(send: Send) -> tuple[LaneId, int]:
    """Where an attempt is logged: that of a redelivery beside the first ones of its event."""
    event = send.event
    return (event.lane_id, event.seq or 1) if isinstance(event, Redelivery) else (send.lane_id, send.seq)
