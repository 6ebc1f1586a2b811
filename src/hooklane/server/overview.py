"""The overview (totals and a verdict), as the API, the live stream and the page show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hooklane.core.figures import Figures, quantiles_ms
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.model.size import counted
from hooklane.server import views
from hooklane.server.totals import Counted

REASONS_SHOWN = 10


def overview_of(counted: Counted, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    """The totals that say whether anything is stuck."""
    lanes = counted.lanes
    return {
        "ledger": {str(state): count for state, count in counted.ledger.items()},
        "lanes": {str(state): count for state, count in lanes.items()},
        "oldest_pending_at": views.when(counted.oldest_pending_at),
        "endpoints": [{"id": one.id, "name": one.name, "state": one.state} for one in endpoints.values()],
        "verdict": verdict(
            lanes.get(LaneState.BLOCKED, 0),
            lanes.get(LaneState.RETRYING, 0),
            counted.ledger.get(DeliveryState.DEAD, 0),
        ),
        "waiting_behind_blocked": counted.waiting_behind_blocked,
    }


def figures_view(figures: Figures, last_minute: Figures, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    """What was counted in the range, and how much is going on now."""
    reasons: list[dict[str, Any]] = [
        {
            "endpoint": endpoint_id,
            "endpoint_name": endpoints[endpoint_id].name if endpoint_id in endpoints else "",
            "reason": reason,
            "count": count,
        }
        for endpoint_id, counts in figures.reasons.items()
        for reason, count in counts.items()
    ]
    return {
        "rates": {"in": round(last_minute.published / 60, 2), "delivered": round(last_minute.delivered / 60, 2)},
        "published": figures.published,
        "delivered": figures.delivered,
        "first_try": figures.first_try,
        "eventual": figures.eventual,
        "attempt_ms": quantiles_ms(figures.attempt),
        "delivery_ms": quantiles_ms(figures.delivery),
        "duplicates": figures.said.get("duplicate", 0),
        "stale": figures.said.get("stale", 0),
        "top_reasons": sorted(reasons, key=lambda one: (-one["count"], one["reason"]))[:REASONS_SHOWN],
    }


def verdict(blocked: int, retrying: int, dead: int) -> str:
    """Is anything stuck? In a few words. A dead letter of an event without a key blocks no lane."""
    if blocked:
        return f"{counted(blocked, 'lane is', 'lanes are')} blocked by a dead letter"
    if dead:
        return (
            f"No lane is blocked, {counted(dead, 'dead letter waits', 'dead letters wait')} to be replayed or skipped"
        )
    if retrying:
        return f"Healthy, {counted(retrying, 'lane is', 'lanes are')} retrying"
    return "Healthy"
