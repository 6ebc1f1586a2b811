"""What happened to events? The failures of late, and what is on record of an event beside its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.ids import attempt_id
from hooklane.model.lane import LaneId
from hooklane.store.codec import decode_detail
from hooklane.store.dashboard import Failure, Passing, PlaceHistory
from hooklane.store.reads import AttemptRow
from hooklane.store.sql.outbox.steps import Batch, Flow, sql

WINDOW = 500
"""Heads that are looked at: those whose state changed last."""
PASSED_MAX = 1_000
"""How far back what was passed over is looked at."""


def failures(tenant: str, endpoint_id: str | None, limit: int) -> Flow[list[Failure]]:
    found: dict[LaneId, Failure] = {}
    for name in ("failures_blocked", "failures_retrying"):
        rows = yield sql(name, tenant=tenant, endpoint=endpoint_id, window=WINDOW, limit=limit)
        for row in rows:
            one = _failure(row)
            known = found.get(row[4])
            # After a replay an attempt of the same number is on record twice.
            if known is None or known.attempt.started_at < one.attempt.started_at:
                found[row[4]] = one
    return list(found.values())


def _failure(row: Sequence[Any]) -> Failure:
    event_id, type_, endpoint_id, key, lane_id, seq, started_at, attempt, took_ms, outcome, *answered = row
    status, failure, said, detail = answered
    return Failure(
        AttemptRow(
            id=attempt_id(lane_id, seq, attempt, started_at),
            event_id=event_id,
            endpoint_id=endpoint_id,
            seq=seq,
            attempt=attempt,
            started_at=Instant(started_at),
            took_ms=took_ms,
            outcome=outcome,
            status=status,
            failure=failure,
            detail=decode_detail(detail, said),
        ),
        type_,
        key,
    )


def history(places: Sequence[tuple[LaneId, int]]) -> Flow[dict[LaneId, PlaceHistory]]:
    """One place of each lane."""
    here = [{"lane_id": lane_id, "seq": seq} for lane_id, seq in places]
    before = [{"lane_id": lane_id, "seq": seq - 1} for lane_id, seq in places if seq > 1]
    passed = {row[0]: Passing(*row[1:]) for row in (yield Batch("passed_at", here))}
    free: dict[LaneId, Instant] = {row[0]: Instant(int(row[1])) for row in (yield Batch("ended_in_lane", before))}
    for lane_id, _, _, _, at in (yield Batch("passed_at", before)):
        free[lane_id] = Instant(max(at, free.get(lane_id, 0)))
    ranges = [
        {"lane_id": lane_id, "first": max(1, seq - PASSED_MAX), "last": seq - 1} for lane_id, seq in places if seq > 1
    ]
    prev_seqs = {lane_id: seq - 1 for lane_id, seq in places}
    for lane_id, first, last, _ in sorted((yield Batch("passed_between", ranges)), key=lambda row: -row[1]):
        if first <= prev_seqs[lane_id] <= last:
            prev_seqs[lane_id] = first - 1
    return {lane_id: PlaceHistory(passed.get(lane_id), free.get(lane_id), prev_seqs[lane_id]) for lane_id, _ in places}
