"""How many of each? The ledger, the lanes by state, and the oldest event that waits."""

from __future__ import annotations

from collections.abc import Mapping

from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.store.sql.outbox.steps import Flow, sql


def ledger(tenant: str | None, endpoint_id: str | None = None) -> Flow[Mapping[DeliveryState | str, int]]:
    """Each delivery counted once, by where it stands; run it on one snapshot."""
    counts: dict[DeliveryState | str, int] = dict.fromkeys(DeliveryState, 0)
    params = {"tenant": tenant, "endpoint": endpoint_id}
    ((accepted, passed, retrying, dead),) = yield sql("ledger_of_lanes", **params)
    given_up = 0
    for kind, many in (yield sql("ledger_of_passed", **params)):
        counts[DeliveryState(kind)] += many
        given_up += many
    counts[DeliveryState.DELIVERED] += passed - given_up
    counts[DeliveryState.RETRYING] += retrying
    counts[DeliveryState.DEAD] += dead
    counts[DeliveryState.QUEUED] += accepted - passed - retrying - dead
    for state, many in (yield sql("ledger_of_loose", **params)):
        counts[DeliveryState(state)] += many
        accepted += many
    counts["accepted"] = accepted
    return counts


def lane_counts(tenant: str | None = None) -> Flow[Mapping[LaneState, int]]:
    counts = dict.fromkeys(LaneState, 0)
    for state, many in (yield sql("lane_counts", tenant=tenant)):
        counts[LaneState(state)] = many
    return counts


def oldest_pending_at(tenant: str | None = None) -> Flow[Instant | None]:
    ((at,),) = yield sql("oldest_pending_at", tenant=tenant)
    return None if at is None else Instant(at)


def size_bytes() -> Flow[int]:
    ((size,),) = yield sql("size_bytes")
    return int(size)
