"""How does everything stand? Lanes and deliveries counted by endpoint, in one pass over the lanes."""

from __future__ import annotations

from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.store.dashboard import EndpointStanding, Survey
from hooklane.store.sql.outbox.steps import Flow, sql


def survey(tenant: str) -> Flow[Survey]:
    """Each lane and each delivery counted once, by where it stands; run it on one snapshot."""
    lanes: dict[str, dict[LaneState, int]] = {}
    ledgers: dict[str, dict[DeliveryState, int]] = {}
    accepted: dict[str, int] = {}
    behind: dict[str, int] = {}
    firsts: list[int] = []
    for row in (yield sql("survey_of_lanes", tenant=tenant)):
        endpoint_id, idle, active, retrying, blocked, tails, passed, waiting, first = row
        lanes[endpoint_id] = {
            LaneState.IDLE: idle,
            LaneState.ACTIVE: active,
            LaneState.RETRYING: retrying,
            LaneState.BLOCKED: blocked,
        }
        ledgers[endpoint_id] = {
            DeliveryState.QUEUED: tails - passed - retrying - blocked,
            DeliveryState.RETRYING: retrying,
            DeliveryState.DEAD: blocked,
            DeliveryState.DELIVERED: passed,
        }
        accepted[endpoint_id] = tails
        behind[endpoint_id] = waiting
        if first is not None:
            firsts.append(first)
    for endpoint_id, kind, many in (yield sql("survey_of_passed", tenant=tenant)):
        ledger = ledgers.setdefault(endpoint_id, {})
        ledger[DeliveryState(kind)] = ledger.get(DeliveryState(kind), 0) + many
        ledger[DeliveryState.DELIVERED] = ledger.get(DeliveryState.DELIVERED, 0) - many
    for endpoint_id, state, many in (yield sql("survey_of_loose", tenant=tenant)):
        ledger = ledgers.setdefault(endpoint_id, {})
        ledger[DeliveryState(state)] = ledger.get(DeliveryState(state), 0) + many
        accepted[endpoint_id] = accepted.get(endpoint_id, 0) + many
    ((first_loose,),) = yield sql("oldest_loose", tenant=tenant)
    if first_loose is not None:
        firsts.append(first_loose)
    # Events are numbered as they come, so the one with the smallest number has waited longest.
    at = (yield sql("event_created_at", n=min(firsts))) if firsts else ()
    return Survey(
        endpoints={
            endpoint_id: EndpointStanding(
                lanes=lanes.get(endpoint_id, {}),
                ledger=ledger,
                accepted=accepted.get(endpoint_id, 0),
                waiting_behind_blocked=behind.get(endpoint_id, 0),
            )
            for endpoint_id, ledger in ledgers.items()
        },
        oldest_pending_at=Instant(at[0][0]) if at else None,
    )
