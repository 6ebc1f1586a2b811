"""Simulator, invariants, conformance suites and the pytest plugin: shipped to users, imported by nothing else.

What a test imports by hand is loaded on first use: the plugin is part of every run of pytest, and must cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooklane.testing.answers import Answers
    from hooklane.testing.arrivals import Arrival, Tally, tally
    from hooklane.testing.clock import Clock
    from hooklane.testing.invariants import Invariants
    from hooklane.testing.provider import Webhook
    from hooklane.testing.scheduling import reordered, schedules
    from hooklane.testing.sim import Faults, Report, simulate
    from hooklane.testing.violation import Violation
    from hooklane.testing.webhooks import Webhooks

_HOME_OF = {
    "Answers": "answers",
    "Arrival": "arrivals",
    "Clock": "clock",
    "Faults": "sim",
    "Invariants": "invariants",
    "Report": "sim",
    "Tally": "arrivals",
    "Violation": "violation",
    "Webhook": "provider",
    "Webhooks": "webhooks",
    "reordered": "scheduling",
    "schedules": "scheduling",
    "simulate": "sim",
    "tally": "arrivals",
}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"hooklane.testing.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'hooklane.testing' has no attribute {name!r}")


__all__ = [
    "Answers",
    "Arrival",
    "Clock",
    "Faults",
    "Invariants",
    "Report",
    "Tally",
    "Violation",
    "Webhook",
    "Webhooks",
    "reordered",
    "schedules",
    "simulate",
    "tally",
]
