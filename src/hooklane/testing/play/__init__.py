"""The playground's engine: the real sender in a simulated network, and four receivers that get the same traffic."""

from hooklane.testing.play.run import play
from hooklane.testing.play.scenarios import SCENARIOS, Scenario
from hooklane.testing.play.trace import EVENTS_MAX, Faults, Play, Trace

__all__ = ["EVENTS_MAX", "SCENARIOS", "Faults", "Play", "Scenario", "Trace", "play"]
