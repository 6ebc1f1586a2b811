"""Simulator, invariants, conformance suites and the pytest plugin: shipped to users, imported by nothing else.

What a test imports by hand is loaded on first use: the plugin is part of every run of pytest, and must cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooklane.testing.clock import Clock
    from hooklane.testing.provider import Webhook
    from hooklane.testing.scheduling import reordered, schedules
    from hooklane.testing.webhooks import Answers, Webhooks

_HOME_OF = {
    "Answers": "webhooks",
    "Clock": "clock",
    "Webhook": "provider",
    "Webhooks": "webhooks",
    "reordered": "scheduling",
    "schedules": "scheduling",
}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"hooklane.testing.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'hooklane.testing' has no attribute {name!r}")


__all__ = ["Answers", "Clock", "Webhook", "Webhooks", "reordered", "schedules"]
