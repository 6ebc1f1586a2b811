"""Webhooks that arrive in order, count once, and never vanish: sender and receiver."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooklane.sender.outbox import Outbox
    from hooklane.sender.relay import Relay

__version__ = "0.1.0"

_HOME_OF = {
    "Outbox": "hooklane.sender.outbox",
    "Relay": "hooklane.sender.relay",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that a receiver does not pay for the sender, nor the other way round."""
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'hooklane' has no attribute {name!r}")


__all__ = ["Outbox", "Relay", "__version__"]
