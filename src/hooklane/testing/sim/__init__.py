"""The deterministic simulator of the sender: the real engine, and everything around it from one seed."""

from hooklane.testing.sim.faults import NONE, POISONED, ROUGH, SLOW, Faults
from hooklane.testing.sim.run import Report, simulate

__all__ = ["NONE", "POISONED", "ROUGH", "SLOW", "Faults", "Report", "simulate"]
