"""What does a worker decide, beside which delivery is next? The second pure machine of the sender.

`sender/relay.py` (asyncio) and `testing/sim/shell.py` (simulated time) perform what it asks for and report how it went.
"""

from hooklane.core.worker.effects import Call, ClockSet, Effects, LeaseLost, Lost, MarkLost, Missed, Note
from hooklane.core.worker.worker import Parts, Worker

__all__ = ["Call", "ClockSet", "Effects", "LeaseLost", "Lost", "MarkLost", "Missed", "Note", "Parts", "Worker"]
