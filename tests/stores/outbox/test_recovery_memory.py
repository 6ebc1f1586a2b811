"""The memory store keeps the promises of recovery."""

from __future__ import annotations

import pytest

from hooklane.core.fanout import places
from hooklane.model.clock import Instant
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import StoreOptions
from hooklane.testing.conformance_recovery import RecoveryConformance


class TestMemoryRecovery(RecoveryConformance):
    @pytest.fixture
    async def store(self):
        return MemoryOutbox(StoreOptions(placer=places), clock=lambda: Instant(1_760_000_000_000))
