"""Does the place of a delivery still hold the event that was sent?

A failover can lose an event that was sent already, and the next one gets its place: the same lane and seq, the same
number. The outcome of the lost one must not become that of the other, which would never be sent and count as delivered.
"""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.attempt import Settlement
from hooklane.model.lane import LaneId
from hooklane.model.redelivery import REDELIVERIES, is_redelivery, redelivery_lane
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.postgres.outbox.statements import SQL


def lost_places(settlements: Sequence[Settlement]) -> Flow[set[LaneId]]:
    """The lanes of those whose place holds another event than the one that was sent, or none."""
    lost: set[LaneId] = set()
    ordered = [one for one in settlements if one.send.lane_id > 0]
    loose = [one for one in settlements if REDELIVERIES <= one.send.lane_id < 0]
    again = [one for one in settlements if is_redelivery(one.send.lane_id)]
    for name, some, places in (
        ("lost_in_lanes", ordered, [one.send.lane_id for one in ordered]),
        ("lost_loose", loose, [-one.send.lane_id for one in loose]),
        ("lost_redeliveries", again, [redelivery_lane(one.send.lane_id) for one in again]),
    ):
        if some:
            params = {
                "lanes": [one.send.lane_id for one in some],
                "places": places,
                "seqs": [one.send.seq for one in some],
                "ids": [one.send.event.id for one in some],
            }
            lost |= {lane_id for (lane_id,) in (yield Statement(SQL[name], params))}
    return lost
