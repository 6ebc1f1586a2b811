"""The receiver: verified, claimed once, applied in the application's transaction, in the right order."""

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
