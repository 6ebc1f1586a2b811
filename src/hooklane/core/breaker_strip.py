"""What did a breaker do in each slot of the last hour? The state that held most back, from the turns on record."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState

Change = tuple[Instant, BreakerState]
_HOLDS_BACK = (BreakerState.CLOSED, BreakerState.RAMPING, BreakerState.PROBING, BreakerState.OPEN)
"""The states, each holding back more than the one before."""


def states_by_slot(
    before: BreakerState | None, changes: Sequence[Change], slots: Sequence[Instant], step_ms: int
) -> list[BreakerState | None]:
    """Of each slot the state that held most back, if only for a moment; *before* is how it stood at the first one.

    *changes* are oldest first, *slots* begin one *step_ms* after the other; None is not known.
    """
    states: list[BreakerState | None] = []
    at, state = 0, before
    for slot in slots:
        seen = [state]
        while at < len(changes) and changes[at][0] < slot + step_ms:
            state = changes[at][1]
            if changes[at][0] >= slot:
                seen.append(state)
            else:
                seen = [state]  # a change of before the first slot
            at += 1
        known = [one for one in seen if one is not None]
        states.append(max(known, key=_HOLDS_BACK.index) if known else None)
    return states
