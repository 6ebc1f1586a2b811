"""An event that was delivered before and is sent once more, because a person asked for it."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.model.clock import Instant
from hooklane.model.event import DEFAULT_TENANT, Event
from hooklane.model.lane import LaneId

REDELIVERIES = -(2**52)
"""Below it are the ids of redelivery lanes: lines of old events that order among themselves and move no head."""


def is_redelivery(lane_id: LaneId) -> bool:
    return lane_id < REDELIVERIES


def redelivery_lane(n: int) -> LaneId:
    """The id of the redelivery lane with number *n*, and the other way round."""
    return REDELIVERIES - n


@dataclass(slots=True, unsafe_hash=True)
class Redelivery(Event):
    """The event with the place that it had: its copies carry the same key, seq and prev_seq as the first one."""

    lane_id: LaneId = 0
    """The lane in which it was delivered; negative when it was loose, and then it has no seq."""
    lane_key: str | None = None
    seq: int | None = None
    prev_seq: int = 0

    # By hand, because compiled code calls constructors directly and would take Event's for this one.
    def __init__(
        self,
        id: str,
        type: str,
        key: str | None,
        data: bytes,
        created_at: Instant,
        tenant: str = DEFAULT_TENANT,
        replay_of: str | None = None,
        trace: str | None = None,
        lane_id: LaneId = 0,
        lane_key: str | None = None,
        seq: int | None = None,
        prev_seq: int = 0,
    ) -> None:
        # (No bare super(): with slots a dataclass is made anew, and this is not its class.)
        Event.__init__(self, id, type, key, data, created_at, tenant, replay_of, trace)
        self.lane_id = lane_id
        self.lane_key = lane_key
        self.seq = seq
        self.prev_seq = prev_seq
