"""The totals of the overview, the live page and the metrics, counted once for all callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hooklane.model.clock import START, Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.server.kept import Kept
from hooklane.store.dashboard import EndpointStanding
from hooklane.store.open import Outbox

_OWED = (DeliveryState.QUEUED, DeliveryState.IN_FLIGHT, DeliveryState.RETRYING)


@dataclass(frozen=True, slots=True)
class Counted:
    """The totals of one tenant."""

    ledger: Mapping[DeliveryState | str, int]
    lanes: Mapping[LaneState, int]
    oldest_pending_at: Instant | None
    store_bytes: int
    standing: Mapping[str, EndpointStanding]
    """By endpoint."""
    lanes_by_endpoint: Mapping[str, Mapping[LaneState, int]]
    as_of: Instant = START

    @property
    def backlog(self) -> int:
        return sum(self.ledger.get(state, 0) for state in _OWED)

    @property
    def waiting_behind_blocked(self) -> int:
        return sum(one.waiting_behind_blocked for one in self.standing.values())


class Totals:
    """Counts, and remembers what was counted while counting it anew would cost too much."""

    def __init__(self, store: Outbox) -> None:
        self._store = store
        self._kept = Kept(self._count, "totals")
        self._all = Kept(self._count_all, "totals of all tenants")

    async def of(self, tenant: str) -> Counted:
        made = await self._kept.of(tenant)
        return replace(made.value, as_of=made.as_of)

    async def of_all(self) -> Counted:
        """Of all tenants together, for metrics."""
        made = await self._all.of("")
        return replace(made.value, as_of=made.as_of)

    async def _count_all(self, _: str) -> Counted:
        store = self._store
        ledger, lanes = await store.ledger(None), await store.lane_counts(None)
        return Counted(ledger, lanes, await store.oldest_pending_at(None), await store.size_bytes(), {}, {})

    async def _count(self, tenant: str) -> Counted:
        endpoints = {one.id: one for one in await self._store.endpoints(tenant)}
        survey = await self._store.survey(tenant)
        ledger: dict[DeliveryState | str, int] = dict.fromkeys(DeliveryState, 0)
        ledger["accepted"] = 0
        lanes = dict.fromkeys(LaneState, 0)
        by_endpoint: dict[str, Mapping[LaneState, int]] = {}
        for endpoint_id, standing in survey.endpoints.items():
            for state, many in standing.ledger.items():
                ledger[state] += many
            ledger["accepted"] += standing.accepted
            counted = by_endpoint[endpoint_id] = shown_lanes(standing.lanes, endpoints.get(endpoint_id))
            for lane_state, many in counted.items():
                lanes[lane_state] += many
        return Counted(
            ledger, lanes, survey.oldest_pending_at, await self._store.size_bytes(), survey.endpoints, by_endpoint
        )


def shown_lanes(lanes: Mapping[LaneState, int], endpoint: Endpoint | None) -> dict[LaneState, int]:
    """Lanes by state as people see them: what is owed to an endpoint that is held is paused."""
    shown = {**dict.fromkeys(LaneState, 0), **lanes}
    if endpoint is not None and (endpoint.state.is_held or endpoint.suspended):
        shown[LaneState.PAUSED] = shown[LaneState.ACTIVE] + shown[LaneState.RETRYING]
        shown[LaneState.ACTIVE] = shown[LaneState.RETRYING] = 0
    return shown
