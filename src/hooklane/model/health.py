"""How an endpoint does, as far as the workers know together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hooklane.model.clock import Instant


class BreakerState(StrEnum):
    """Closed: it is sent to. Open: it is left alone. Probing: one worker tries one delivery. Ramping: slow start."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"
    RAMPING = "ramping"


@dataclass(frozen=True, slots=True)
class Health:
    """The *turn*-th turn of an endpoint's breaker. The first worker to write turn n+1 decides it; others follow."""

    endpoint_id: str
    turn: int
    state: BreakerState
    until: Instant
    """Open: nothing is sent before. Probing: the worker *by* has until then, and after it another may try."""
    probes: int = 0
    """How many probes have failed since it was closed: each makes the next wait longer."""
    by: str = ""
