"""The overview (totals and a verdict), as the API, the live stream and the page show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import LaneState
from hooklane.server import views
from hooklane.server.totals import Counted


def overview_of(counted: Counted, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    """The totals that say whether anything is stuck."""
    lanes = counted.lanes
    return {
        "ledger": {str(state): count for state, count in counted.ledger.items()},
        "lanes": {str(state): count for state, count in lanes.items()},
        "oldest_pending_at": views.when(counted.oldest_pending_at),
        "store_bytes": counted.store_bytes,
        "endpoints": [{"id": one.id, "name": one.name, "state": one.state} for one in endpoints.values()],
        "verdict": verdict(lanes.get(LaneState.BLOCKED, 0), lanes.get(LaneState.RETRYING, 0)),
    }


def verdict(blocked: int, retrying: int) -> str:
    """Is anything stuck? In a few words."""
    if blocked:
        return f"{blocked} {'lane is' if blocked == 1 else 'lanes are'} blocked by a dead letter"
    if retrying:
        return f"Healthy, {retrying} {'lane is' if retrying == 1 else 'lanes are'} retrying"
    return "Healthy"
