"""The inbox in this process's memory: the reference of what the verbs mean, for tests and for trying things out.

A transaction changes the tables at once and keeps how to undo it; what it touched is locked until it ends, and
others are told so instead of waiting. Nothing outlives the process.
"""

from hooklane.store.memory.inbox.claims import Claims
from hooklane.store.memory.inbox.keeping import Keeping
from hooklane.store.memory.inbox.order import Order
from hooklane.store.memory.inbox.receiving import Receiving
from hooklane.store.memory.inbox.session import MemoryTx


class MemoryInbox(Receiving, Claims, Order, Keeping):
    """Tables in memory. Handlers get a transactional dictionary."""


__all__ = ["MemoryInbox", "MemoryTx"]
