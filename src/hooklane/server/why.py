"""Why does a lane or a delivery wait? Reads the facts that core/why.py makes a sentence of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooklane.core.why import why_delivery, why_lane
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.health import Health
from hooklane.server.call import Call
from hooklane.store.reads import Delivery, LaneView

LANES_A_READ = 100


async def lane_sentence(call: Call, lane: LaneView) -> str:
    """What a lane waits for."""
    return await (await _facts(call)).of_lane(lane)


async def delivery_sentences(call: Call, deliveries: Sequence[Delivery]) -> list[str]:
    """What each of some deliveries waits for: often an event before it in its lane."""
    facts = await _facts(call)
    in_lanes = [(one.endpoint_id, one.key) for one in deliveries if one.key is not None and one.seq is not None]
    lanes: dict[tuple[str, str], LaneView] = {}
    for first in range(0, len(in_lanes), LANES_A_READ):
        found = await call.services.store.lanes_named(call.tenant, in_lanes[first : first + LANES_A_READ])
        lanes.update({(lane.endpoint_id, lane.key): lane for lane in found})
    return [await facts.of_delivery(one, lanes.get((one.endpoint_id, one.key or ""))) for one in deliveries]


async def _facts(call: Call) -> _Facts:
    store = call.services.store
    endpoints = {one.id: one for one in await store.endpoints(call.tenant)}
    return _Facts(call, endpoints, await store.health(call.tenant))


@dataclass(slots=True)
class _Facts:
    """What several sentences are made of, each read once: an event may wait at a thousand endpoints."""

    call: Call
    endpoints: Mapping[str, Endpoint]
    health: Mapping[str, Health]
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each event what each endpoint answered to the last try."""

    async def of_lane(self, lane: LaneView) -> str:
        endpoint = self.endpoints.get(lane.endpoint_id)
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
            now=self.call.services.now(),
            endpoint_state=_state(endpoint),
            suspended=endpoint is not None and endpoint.suspended,
            said=await self._said(lane.head_event_id, lane.endpoint_id) if lane.attempts else None,
            health=self.health.get(lane.endpoint_id),
        )

    async def of_delivery(self, delivery: Delivery, lane: LaneView | None) -> str:
        endpoint = self.endpoints.get(delivery.endpoint_id)
        return why_delivery(
            state=delivery.state,
            seq=delivery.seq,
            lane=None if lane is None else await self.of_lane(lane),
            head=lane.head if lane else None,
            attempts=delivery.attempts,
            reason=delivery.reason,
            next_at=delivery.next_at,
            dead_letter_id=delivery.dead_letter_id,
            now=self.call.services.now(),
            endpoint_state=_state(endpoint),
            suspended=endpoint is not None and endpoint.suspended,
            said=await self._said(delivery.event_id, delivery.endpoint_id) if delivery.attempts else None,
            health=self.health.get(delivery.endpoint_id),
        )

    async def _said(self, event_id: str | None, endpoint_id: str) -> str | None:
        """What the endpoint answered to the last try, in its own words."""
        if event_id is None:
            return None
        if event_id not in self.answers:
            rows = await self.call.services.store.attempts(self.call.tenant, event_id)
            self.answers[event_id] = {row.endpoint_id: row.detail.get("response_body") for row in rows}
        body = self.answers[event_id].get(endpoint_id)
        return str(body) if body else None


def _state(endpoint: Endpoint | None) -> EndpointState:
    return endpoint.state if endpoint is not None else EndpointState.ACTIVE
