"""A lane is the line of events of one key at one endpoint; its head is the next event to be acked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hooklane.model.clock import START, Instant
from hooklane.model.event import Event

LaneId = int
"""Positive: an ordered lane. Negative: a loose delivery, a lane of one event that orders nothing."""

GLOBAL_KEY = "*"
PARTITIONS = 256


class LaneState(StrEnum):
    IDLE = "idle"
    ACTIVE = "active"
    RETRYING = "retrying"
    BLOCKED = "blocked"
    PAUSED = "paused"  # derived from the endpoint when shown, never stored


class DeliveryState(StrEnum):
    QUEUED = "queued"
    IN_FLIGHT = "in_flight"
    RETRYING = "retrying"
    DELIVERED = "delivered"
    DEAD = "dead"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class LaneRow:
    """A lane as the store knows it. *attempts*, *next_at*, *starts* and *state* belong to *head* alone."""

    id: LaneId
    pid: int
    endpoint_id: str
    key: str | None
    head: int
    tail: int
    state: LaneState = LaneState.IDLE
    attempts: int = 0
    next_at: Instant = START
    rev: int = 0
    """Bumped by each recovery, so that an owner's late write cannot undo it."""
    acked: int = 0
    """The last seq that was really delivered: `head - 1` unless something was skipped."""
    starts: int = 0
    """Announced attempts at the head that came to nothing: so many workers may have died of it."""


class Place(NamedTuple):
    """Where an event stands at one endpoint: in the lane of *key*, or loose when that is None."""

    endpoint_id: str
    key: str | None
    pid: int


@dataclass(slots=True)
class Grown:
    """A lane has a committed event at *seq* (made for every event, hence not frozen).

    *event* comes along where this process published it; otherwise it is read when it is due.
    """

    lane_id: LaneId
    pid: int
    endpoint_id: str
    key: str | None
    seq: int
    event: Event | None = None
