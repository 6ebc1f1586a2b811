"""How does it stand, in a few numbers and words? What the page, the stream and the command line show alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hooklane.model.attempt import Dead, Delivered, Gone, Retry, Settlement
from hooklane.model.clock import rfc3339
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.exchange import Answer, NoAnswer
from hooklane.model.lane import LaneState
from hooklane.server import views
from hooklane.store.reads import OutboxReads


async def overview_of(reads: OutboxReads, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    """The totals that say whether anything is stuck."""
    ledger = await reads.ledger(DEFAULT_TENANT)
    lanes = await reads.lane_counts(DEFAULT_TENANT)
    oldest = await reads.oldest_pending_at(DEFAULT_TENANT)
    return {
        "ledger": {str(state): count for state, count in ledger.items()},
        "lanes": {str(state): count for state, count in lanes.items()},
        "oldest_pending_at": views.when(oldest),
        "store_bytes": await reads.size_bytes(),
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


def attempt_of(settlement: Settlement) -> dict[str, Any]:
    """One settled attempt, as a line of a log."""
    send, result = settlement.send, settlement.result
    line: dict[str, Any] = {
        "v": 1,
        "ts": rfc3339(settlement.at),
        "kind": "attempt",
        "event": send.event.id,
        "type": send.event.type,
        "endpoint": send.endpoint.id,
        "endpoint_name": send.endpoint.name,
        "key": send.key,
        "seq": None if send.is_loose else send.seq,
        "try": send.attempt,
        "tries_max": send.endpoint.attempts_max,
        "status": result.status if isinstance(result, Answer) else None,
        "failure": result.failure if isinstance(result, NoAnswer) else None,
        "receiver": result.outcome if isinstance(result, Answer) else None,
        "ms": round(result.timings.total_ms, 1) if result is not None else None,
        "next": None,
    }
    match settlement.outcome:
        case Delivered():
            line["outcome"] = "delivered"
        case Retry(at=at):
            line["outcome"], line["next"] = "retry", rfc3339(at)
        case Dead(skip=skip):
            line["outcome"] = "skipped" if skip else "dead"
        case Gone():
            line["outcome"] = "gone"
    return line
