"""How does a row of a query become what people see? The same for every back-end that speaks SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneId, LaneState
from hooklane.store.reads import DeadLetter, Delivery

RANKED = (LaneState.BLOCKED, LaneState.RETRYING, LaneState.PAUSED, LaneState.ACTIVE, LaneState.IDLE)
"""Lanes are listed in this order: those that need attention first."""
RANKS = {state: rank for rank, state in enumerate(RANKED)}


def ranks_of(states: Sequence[LaneState] | None, first: int) -> list[int]:
    """The places of *states* in the list, from *first* on; all of them where none are named."""
    return [rank for rank, state in enumerate(RANKED) if rank >= first and (states is None or state in states)]


def state_at(seq: int, head: int, head_state: str, passed: str | None) -> str:
    """The state of a delivery follows from where it stands: behind, at or before the head."""
    if passed is not None:
        return passed
    if seq < head:
        return "delivered"
    if seq > head or head_state == "active":
        return "queued"
    return "dead" if head_state == "blocked" else "retrying"


def delivery_of(event_id: str, endpoint_id: str, lane_id: LaneId, seq: int | None, row: Sequence[Any]) -> Delivery:
    """From (key, state, attempts, next_at, reason, dead letter); what is said of the head is not said of the others."""
    key, state, attempts, next_at, reason, letter = row
    return Delivery(
        event_id=event_id,
        endpoint_id=endpoint_id,
        lane_id=lane_id,
        key=key,
        seq=seq,
        state=DeliveryState(state),
        attempts=attempts,
        next_at=next_at or None,
        reason=reason,
        dead_letter_id=letter,
    )


def dead_letter_of(row: Sequence[Any]) -> DeadLetter:
    """From the columns of a dead letter in the order of the queries; a loose delivery has no seq to show."""
    letter, event_id, type_, endpoint_id, lane_id, key, seq, tried, reason, died_at, waiting, note, *marks = row
    assignee, event_at = marks
    return DeadLetter(
        id=letter,
        event_id=event_id,
        type=type_,
        endpoint_id=endpoint_id,
        lane_id=lane_id,
        key=key,
        seq=seq if lane_id > 0 else None,
        attempts=tried,
        reason=reason,
        died_at=Instant(died_at),
        waiting=waiting,
        note=note,
        assignee=assignee,
        event_at=event_at,
    )


EXCERPT_BYTES = 200


def excerpt_of(data: bytes) -> str:
    """The beginning of an event's data, for people."""
    text = data[:EXCERPT_BYTES].decode("utf-8", "ignore")
    return f"{text}…" if len(data) >= EXCERPT_BYTES else text
