"""Simulator, invariants, conformance suites and the pytest plugin: shipped to users, imported by nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooklane.testing.invariants import Arrival, Invariants, Tally, Violation, tally
    from hooklane.testing.sim import Faults, Report, simulate

_HOME = {
    "Arrival": "invariants",
    "Invariants": "invariants",
    "Tally": "invariants",
    "Violation": "invariants",
    "tally": "invariants",
    "Faults": "sim",
    "Report": "sim",
    "simulate": "sim",
}


def __getattr__(name: str) -> Any:
    # Looked up when asked for: the pytest plugin lives in this package, and every test run of every user imports it.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


__all__ = ["Arrival", "Faults", "Invariants", "Report", "Tally", "Violation", "simulate", "tally"]
