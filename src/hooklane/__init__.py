"""Webhooks that arrive in order, count once, and never vanish: sender and receiver."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hooklane import errors

if TYPE_CHECKING:
    from hooklane.core.admission.breaker import BreakerPolicy
    from hooklane.core.admission.failures import RetryPolicy
    from hooklane.core.verify.custom import profile_of, signature_scheme, token_scheme
    from hooklane.errors import Reject, Retry
    from hooklane.model.message import Reply, Request
    from hooklane.model.tx import AsyncTx, SyncTx
    from hooklane.receiver.event import Event
    from hooklane.receiver.fields import insert_once, ledger_entry, transition
    from hooklane.receiver.inbox import Inbox
    from hooklane.receiver.order import latest, refetch, sequence
    from hooklane.receiver.source import Source
    from hooklane.sender.outbox import Outbox, Publish
    from hooklane.sender.relay import Relay
    from hooklane.store.dynamodb.tx import DynamoTx
    from hooklane.store.outbox import Published

__version__ = "0.2.0"

_HOME_OF = {
    "AsyncTx": "hooklane.model.tx",
    "BreakerPolicy": "hooklane.core.admission.breaker",
    "DynamoTx": "hooklane.store.dynamodb.tx",
    "Event": "hooklane.receiver.event",
    "Inbox": "hooklane.receiver.inbox",
    "Outbox": "hooklane.sender.outbox",
    "Publish": "hooklane.sender.outbox",
    "Published": "hooklane.store.outbox",
    "Reject": "hooklane.errors",
    "Relay": "hooklane.sender.relay",
    "Reply": "hooklane.model.message",
    "Request": "hooklane.model.message",
    "Retry": "hooklane.errors",
    "RetryPolicy": "hooklane.core.admission.failures",
    "Source": "hooklane.receiver.source",
    "SyncTx": "hooklane.model.tx",
    "insert_once": "hooklane.receiver.fields",
    "latest": "hooklane.receiver.order",
    "ledger_entry": "hooklane.receiver.fields",
    "profile_of": "hooklane.core.verify.custom",
    "refetch": "hooklane.receiver.order",
    "sequence": "hooklane.receiver.order",
    "signature_scheme": "hooklane.core.verify.custom",
    "token_scheme": "hooklane.core.verify.custom",
    "transition": "hooklane.receiver.fields",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that a receiver does not pay for the sender, nor the other way round."""
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'hooklane' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, "errors", "__version__"])


__all__ = [
    "AsyncTx",
    "BreakerPolicy",
    "DynamoTx",
    "Event",
    "Inbox",
    "Outbox",
    "Publish",
    "Published",
    "Reject",
    "Relay",
    "Reply",
    "Request",
    "Retry",
    "RetryPolicy",
    "Source",
    "SyncTx",
    "__version__",
    "errors",
    "insert_once",
    "latest",
    "ledger_entry",
    "profile_of",
    "refetch",
    "sequence",
    "signature_scheme",
    "token_scheme",
    "transition",
]
