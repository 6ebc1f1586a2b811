"""What the simulator found in the shell: partitions that nobody works on, and reports that come too late."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hooklane.core.engine import EndpointChanged, Engine, Leaving, Loaded
from hooklane.core.engine.inputs import Input
from hooklane.core.fanout import places
from hooklane.errors import StoreError
from hooklane.model.clock import Instant
from hooklane.model.lane import PARTITIONS
from hooklane.sender.ownership import Ownership
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import StoreOptions, Taken


class LossyOutbox(MemoryOutbox):
    """A store that carries calls out, or does not, and loses the reply."""

    lost: frozenset[str] = frozenset()

    async def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        taken = await super().acquire(worker, most)
        if "acquire" in self.lost:
            raise StoreError("the reply was lost")
        return taken

    async def release(self, worker: str, pids: Sequence[int]) -> None:
        if "release" in self.lost:
            raise StoreError("the call was lost")
        await super().release(worker, pids)


class Listener:
    """Takes note of what ownership tells."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.told: list[Input] = []
        self.dropped: frozenset[int] = frozenset()

    def set_time(self, store_now: Instant) -> None: ...
    def now(self) -> Instant:
        return Instant(0)

    def put(self, *inputs: Input) -> None:
        self.told.extend(inputs)

    def loaded(self, inputs: Sequence[Loaded | EndpointChanged]) -> None: ...
    def lease(self, until: Instant, share: float) -> None: ...
    def drop(self, pids: frozenset[int]) -> None:
        self.dropped |= pids


@pytest.fixture
def store() -> LossyOutbox:
    return LossyOutbox(StoreOptions(placer=places))


async def test_an_acquire_whose_reply_was_lost_leaves_no_partition_without_an_owner(store: LossyOutbox) -> None:
    own = Ownership(store, Listener(), 60_000)
    store.lost = frozenset({"acquire"})
    with pytest.raises(StoreError):
        await own.begin()
    store.lost = frozenset()
    assert (await store.roster()).free == 0, "they are ours and we do not know it"

    await own._balance()
    await own._balance()

    assert len(own.epochs) == PARTITIONS


async def test_a_release_that_was_lost_is_made_up_for(store: LossyOutbox) -> None:
    own, other = Ownership(store, Listener(), 60_000), Ownership(store, Listener(), 60_000)
    await own.begin()
    await other.begin()
    store.lost = frozenset({"release"})
    with pytest.raises(StoreError):
        await own._balance()
    store.lost = frozenset()

    await own._balance()
    await other._balance()

    assert (len(own.epochs), len(other.epochs)) == (PARTITIONS // 2, PARTITIONS // 2)


async def test_a_worker_that_was_robbed_without_noticing_starts_anew(store: LossyOutbox) -> None:
    listener = Listener()
    own = Ownership(store, listener, 60_000)
    await own.begin()
    before = own.worker
    await store.release(before, [1, 2, 3])

    await own._balance()

    assert own.worker != before
    assert listener.dropped == frozenset(range(PARTITIONS))


async def test_a_late_report_about_an_old_epoch_takes_no_partition_away(store: LossyOutbox) -> None:
    own = Ownership(store, Listener(), 60_000)
    await own.begin()

    own.fenced(frozenset({7, 8}), {7: own.epochs[7], 8: own.epochs[8] - 1})

    assert (7 in own.epochs, 8 in own.epochs) == (False, True)


async def test_what_is_not_given_back_after_all_goes_on(store: LossyOutbox) -> None:
    listener = Listener()
    own = Ownership(store, listener, 60)
    await own.begin()
    await store.join("other", 60_000)

    await own._balance()

    leaving = [one.pids for one in listener.told if isinstance(one, Leaving)]
    assert [len(pids) for pids in leaving] == [PARTITIONS // 2, 0]
