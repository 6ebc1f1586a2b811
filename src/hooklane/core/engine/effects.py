"""What the engine asks for: the shell does it and tells the engine how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hooklane.model.attempt import Send, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.health import Health
from hooklane.model.lane import LaneId


class Fetch(NamedTuple):
    """Read up to *many* events of a lane, from *seq* on."""

    lane_id: LaneId
    seq: int
    many: int


@dataclass(slots=True)
class Effects:
    """The effects of one step, in no order but that of each list."""

    sends: list[Send] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    fetches: list[Fetch] = field(default_factory=list)
    reloads: list[LaneId] = field(default_factory=list)
    health: list[Health] = field(default_factory=list)
    """Turns of breakers to be written, unless another worker was first; the answer comes as `HealthSeen`."""
    missed: int = 0
    """Lanes of which a sweep knew more than all that was told before: the polls have missed something."""
    wake_at: Instant = FOREVER
    """When to step again though nothing has happened."""
