"""The receiver: verified, claimed once, applied in the application's transaction, in the right order."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooklane.receiver.event import Event
    from hooklane.receiver.fields import insert_once, ledger_entry, transition
    from hooklane.receiver.inbox import Inbox
    from hooklane.receiver.order import latest, refetch, sequence
    from hooklane.receiver.source import Source

__all__ = [
    "Event",
    "Inbox",
    "Source",
    "insert_once",
    "latest",
    "ledger_entry",
    "refetch",
    "sequence",
    "transition",
]


def __getattr__(name: str) -> Any:
    """Load a name on first use: a server that shows an inbox needs one module of this folder, and not all of them."""
    if name in __all__:
        return getattr(import_module("hooklane"), name)
    raise AttributeError(f"module 'hooklane.receiver' has no attribute {name!r}")
