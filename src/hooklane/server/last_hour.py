"""The last hour of some endpoints, in slots of two minutes: what was delivered, what failed, what the breaker did."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.core.breaker_strip import states_by_slot
from hooklane.core.figures import Figures
from hooklane.model.clock import Instant, rfc3339
from hooklane.model.endpoint import Endpoint
from hooklane.model.health import BreakerState
from hooklane.server.series import since_for
from hooklane.server.services import Services
from hooklane.server.views import View
from hooklane.store.dashboard import BreakerTurn

HOUR_S = 3_600
STEP_S = 120
COUNTED_S = 60
"""The slots of the ring that are added up."""
ENDPOINTS_MAX = 20
"""Of one call: an hour of one endpoint is sixty rows of the ring for each process that sends to it."""
TURNS_MAX = 250
"""Of one endpoint, the newest: one that is down turns about four times a minute."""


async def last_hour(services: Services, tenant: str, endpoints: Sequence[Endpoint]) -> View:
    now = services.now()
    since = since_for(now, HOUR_S, STEP_S)
    slots = [Instant(at) for at in range(since, now + 1, 1000 * STEP_S)]
    ids = [one.id for one in endpoints]
    counted = await services.series.read(tenant, ids, COUNTED_S, since)
    turns: dict[str, list[BreakerTurn]] = {id: [] for id in ids}
    for turn in await services.store.breaker_turns_of(tenant, ids, since, TURNS_MAX):
        turns[turn.endpoint_id].append(turn)
    return {
        "from": rfc3339(since),
        "step_s": STEP_S,
        "as_of": rfc3339(now),
        "items": [
            {
                "endpoint": one.id,
                "breaker": _breaker(one, turns[one.id], slots),
                "delivered": [sum(each.delivered for each in _within(counted[one.id], slot)) for slot in slots],
                "failed": [
                    sum(each.attempts - each.delivered for each in _within(counted[one.id], slot)) for slot in slots
                ],
            }
            for one in endpoints
        ],
    }


def _within(counted: dict[Instant, Figures], slot: Instant) -> list[Figures]:
    parts = range(slot, slot + 1000 * STEP_S, 1000 * COUNTED_S)
    return [counted[at] for part in parts if (at := Instant(part)) in counted]


def _breaker(endpoint: Endpoint, turns: Sequence[BreakerTurn], slots: Sequence[Instant]) -> list[BreakerState | None]:
    """None before it was created, and before the oldest turn that is still on record where others went before it."""
    before = BreakerState.CLOSED if not turns or turns[0].turn == 1 else None
    states = states_by_slot(before, [(turn.at, turn.state) for turn in turns], slots, 1000 * STEP_S)
    born = endpoint.created_at - 1000 * STEP_S
    return [state if slot > born else None for slot, state in zip(slots, states, strict=True)]
