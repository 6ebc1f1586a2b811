"""The playground's engine: the real sender in a simulated network, and four receivers that get the same traffic."""

from hooklane.testing.play.run import play
from hooklane.testing.play.scenarios import SCENARIOS
from hooklane.testing.play.trace import Faults, Play, Trace

__all__ = ["SCENARIOS", "Faults", "Play", "Trace", "play"]
