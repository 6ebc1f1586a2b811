"""Webhooks that arrive in order, count once, and never vanish: sender and receiver."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hooklane import errors

if TYPE_CHECKING:
    from hooklane.errors import Reject, Retry
    from hooklane.model.message import Reply, Request
    from hooklane.receiver.event import Event
    from hooklane.receiver.fields import insert_once, ledger_entry, transition
    from hooklane.receiver.inbox import Inbox
    from hooklane.receiver.order import latest, refetch, sequence
    from hooklane.receiver.source import Source
    from hooklane.sender.outbox import Outbox
    from hooklane.sender.relay import Relay

__version__ = "0.1.0"

_HOME_OF = {
    "Event": "hooklane.receiver",
    "Inbox": "hooklane.receiver",
    "Outbox": "hooklane.sender.outbox",
    "Reject": "hooklane.errors",
    "Relay": "hooklane.sender.relay",
    "Reply": "hooklane.model.message",
    "Request": "hooklane.model.message",
    "Retry": "hooklane.errors",
    "Source": "hooklane.receiver",
    "insert_once": "hooklane.receiver",
    "latest": "hooklane.receiver",
    "ledger_entry": "hooklane.receiver",
    "refetch": "hooklane.receiver",
    "sequence": "hooklane.receiver",
    "transition": "hooklane.receiver",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that a receiver does not pay for the sender, nor the other way round."""
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'hooklane' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, "errors", "__version__"])


__all__ = [
    "Event",
    "Inbox",
    "Outbox",
    "Reject",
    "Relay",
    "Reply",
    "Request",
    "Retry",
    "Source",
    "__version__",
    "errors",
    "insert_once",
    "latest",
    "ledger_entry",
    "refetch",
    "sequence",
    "transition",
]
