"""Networks with a planted bug."""

from __future__ import annotations

from hooklane.model.attempt import Send
from hooklane.testing.sim.network import Network


class BodyChangesWithTheAttempt(Network):
    """Two copies of an event are not the same bytes."""

    def body(self, send: Send, seq: int | None) -> bytes:
        return super().body(send, seq) + b" " * send.attempt
