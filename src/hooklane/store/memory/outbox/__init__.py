"""The outbox in memory: the reference that every other store is compared with, and the store of the simulator."""

from hooklane.store.memory.outbox.outbox import MemoryOutbox

__all__ = ["MemoryOutbox"]
