"""The memory store keeps the promises of an outbox."""

from __future__ import annotations

import pytest

from hooklane.core.fanout import places
from hooklane.model.clock import Instant
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import StoreOptions
from hooklane.testing.conformance_outbox import ManyWorkersConformance, Outbox, OutboxConformance


class TestMemoryOutbox(OutboxConformance, ManyWorkersConformance):
    @pytest.fixture
    async def store(self):
        self.now = Instant(1_760_000_000_000)
        return MemoryOutbox(StoreOptions(placer=places), clock=lambda: self.now)

    async def wait_for_expiry(self, store: Outbox, lease_ms: int) -> None:
        self.now = Instant(self.now + lease_ms)
