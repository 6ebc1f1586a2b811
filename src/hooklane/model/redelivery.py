"""An event that was delivered before and is sent once more, because a person asked for it."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.model.event import Event
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
