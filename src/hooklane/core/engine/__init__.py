"""The sender's engine: `step(now, inputs) -> Effects`, the same for every store and for the simulator."""

from hooklane.core.engine.effects import Effects, Fetch
from hooklane.core.engine.engine import Engine
from hooklane.core.engine.inputs import (
    Committed,
    Draining,
    Dropped,
    EndpointChanged,
    EndpointsGone,
    Fetched,
    HealthSeen,
    Input,
    Jumped,
    LeaseSet,
    Leaving,
    Loaded,
    Reloaded,
    Settled,
    StartedAnew,
    Swept,
)

__all__ = [
    "Committed",
    "Draining",
    "Dropped",
    "Effects",
    "EndpointChanged",
    "EndpointsGone",
    "Engine",
    "Fetch",
    "Fetched",
    "HealthSeen",
    "Input",
    "Jumped",
    "LeaseSet",
    "Leaving",
    "Loaded",
    "Reloaded",
    "Settled",
    "StartedAnew",
    "Swept",
]
