"""Why does a lane or a delivery wait? Reads the facts that core/why.py makes a sentence of."""

from __future__ import annotations

from hooklane.core.why import why_delivery, why_lane
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.server.call import Call
from hooklane.store.reads import Delivery, LaneView


async def lane_sentence(call: Call, lane: LaneView) -> str:
    """What a lane waits for."""
    endpoint = await call.services.store.endpoint(call.tenant, lane.endpoint_id)
    return why_lane(
        state=lane.state,
        key=lane.key,
        head=lane.head,
        waiting=lane.waiting,
        attempts=lane.attempts,
        attempts_max=endpoint.attempts_max if endpoint else 0,
        next_at=lane.next_at,
        reason=lane.reason,
        dead_letter_id=lane.dead_letter_id,
        now=call.services.now(),
        endpoint_state=_state(endpoint),
        suspended=endpoint is not None and endpoint.suspended,
        said=await _said(call, lane.head_event_id, lane.endpoint_id) if lane.attempts else None,
        health=(await call.services.store.health(call.tenant)).get(lane.endpoint_id),
    )


async def delivery_sentence(call: Call, delivery: Delivery) -> str:
    """What one delivery waits for: often an event before it in its lane."""
    store = call.services.store
    lane = None
    if delivery.key is not None and delivery.seq is not None:
        lane = await store.lane(call.tenant, delivery.endpoint_id, delivery.key)
    endpoint = await store.endpoint(call.tenant, delivery.endpoint_id)
    return why_delivery(
        state=delivery.state,
        seq=delivery.seq,
        lane=None if lane is None else await lane_sentence(call, lane),
        head=lane.head if lane else None,
        attempts=delivery.attempts,
        reason=delivery.reason,
        next_at=delivery.next_at,
        dead_letter_id=delivery.dead_letter_id,
        now=call.services.now(),
        endpoint_state=_state(endpoint),
        suspended=endpoint is not None and endpoint.suspended,
        said=await _said(call, delivery.event_id, delivery.endpoint_id) if delivery.attempts else None,
        health=(await store.health(call.tenant)).get(delivery.endpoint_id),
    )


def _state(endpoint: Endpoint | None) -> EndpointState:
    return endpoint.state if endpoint is not None else EndpointState.ACTIVE


async def _said(call: Call, event_id: str | None, endpoint_id: str) -> str | None:
    """What the endpoint answered to the last try, in its own words."""
    if event_id is None:
        return None
    rows = await call.services.store.attempts(call.tenant, event_id)
    bodies = [row.detail.get("response_body") for row in rows if row.endpoint_id == endpoint_id]
    return str(bodies[-1]) if bodies and bodies[-1] else None
