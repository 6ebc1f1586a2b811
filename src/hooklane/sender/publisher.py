"""How do many publishes share one commit? What queued while the last one ran goes into the next: no delay is added."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hooklane.batching.tasks import BatchTask
from hooklane.errors import Overloaded, StoreBusy, StoreError
from hooklane.sender.store_trouble import StoreTrouble
from hooklane.store.outbox import BUSY, Draft, OutboxStore, Published, PublishReport, Refused

log = logging.getLogger("hooklane.publisher")

Done = Callable[[Published | Refused | StoreError], None]
BATCH_MAX = 1_000
QUEUE_BYTES_MAX = 64 * 1024 * 1024
"""So much may wait for the store; what comes beyond that is refused at once. One tenant alone may fill half of it."""
DRAFT_BYTES: Final = 512
"""What a draft takes besides its data."""
ASIDE_MAX = 50_000
AGAIN_MS = 50
AGAIN_MAX = 100
"""An application may hold a lane in a transaction of its own: its events are tried again for so long, apart."""
COMMIT_S_MAX = 5.0
"""A commit that takes longer does not end soon; and so long a failed one speaks for the next."""


_Waiting = tuple[Draft, Done, int]
"""A draft, the function that is told what came of it, and how often it met a held lane."""


class Publisher:
    """A line of drafts and one commit under way at a time. No caller is told of success before it is durable."""

    def __init__(
        self,
        store: OutboxStore,
        feed: Callable[[PublishReport], None] | None = None,
        observe: Callable[[Mapping[str, int]], None] | None = None,
        guard: Callable[..., Refused | StoreError | None] | None = None,
    ) -> None:
        """*feed* takes the news for the lanes of this process; *observe* counts what was published, by tenant.

        *guard* says why drafts of a tenant may not come in together, before the store is asked.
        """
        self._store = store
        self._feed = feed
        self._observe = observe
        self._guard = guard
        self.waiting_bytes = 0
        """All drafts that wait, or are being written."""
        self._bytes_of: dict[str, int] = {}
        """The same by tenant."""
        # Drafts that were sent already but not read yet come along: a larger commit, and no later.
        self._drafts: BatchTask[_Waiting] = BatchTask(
            self._group_commit, BATCH_MAX, name="group commit of publishes", pause_s=0, group_of=_tenant
        )
        # Drafts that met a held lane, in commits of their own: no other draft waits for them.
        self._aside: BatchTask[_Waiting] = BatchTask(
            self._commit, ASIDE_MAX, name="publishes set aside", pause_s=AGAIN_MS / 1000
        )
        self._began: float | None = None
        """When the group commit that is under way was begun."""
        self._failed: tuple[float, StoreError] | None = None
        """Why and when the last group commit failed, where it did."""
        self._trouble = StoreTrouble(log, "publishes fail")

    @property
    def trouble(self) -> StoreError | None:
        """Why what is published now would not be kept soon: a commit hangs, or the last one failed a moment ago."""
        now = asyncio.get_running_loop().time()
        if self._began is not None and now - self._began > COMMIT_S_MAX:
            return StoreBusy(f"a commit has not ended for {now - self._began:.0f} s")
        if self._failed is not None and now - self._failed[0] < COMMIT_S_MAX:
            return self._failed[1]
        return None

    def submit(self, draft: Draft, done: Done) -> None:
        """Queue a draft; *done* is called once, after the commit that holds it, or with the error that refused it."""
        if not self._has_room(draft.event.tenant, len(draft.event.data) + DRAFT_BYTES):
            done(Overloaded("too many publishes are waiting for the store"))
            return
        if self._guard is not None and (refusal := self._guard(draft)) is not None:
            done(refusal)
            return
        self._count_in(draft)
        self._drafts.add((draft, done, 0))

    def _has_room(self, tenant: str, size: int) -> bool:
        """Whether so much more may wait. A tenant that fills as much as is free leaves the rest to the others."""
        free = QUEUE_BYTES_MAX - self.waiting_bytes
        return size <= free and self._bytes_of.get(tenant, 0) + size <= free

    def _count_in(self, draft: Draft) -> None:
        size, tenant = len(draft.event.data) + DRAFT_BYTES, draft.event.tenant
        self.waiting_bytes += size
        self._bytes_of[tenant] = self._bytes_of.get(tenant, 0) + size

    def _count_out(self, batch: Sequence[_Waiting]) -> None:
        of, total = self._bytes_of, 0
        for draft, _, _ in batch:
            size = len(draft.event.data) + DRAFT_BYTES
            of[draft.event.tenant] -= size
            total += size
        self.waiting_bytes -= total

    async def publish(self, draft: Draft) -> Published | Refused:
        """Publish one event and wait for its commit."""
        future: asyncio.Future[Published | Refused | StoreError] = asyncio.get_running_loop().create_future()
        self.submit(draft, lambda result: None if future.done() else future.set_result(result))
        result = await future
        if isinstance(result, StoreError):
            raise result
        return result

    async def publish_batch(self, drafts: Sequence[Draft]) -> Sequence[Published | Refused]:
        """Publish all of them in one commit of their own, or none: one refusal refuses the batch."""
        if self._guard is not None and drafts:
            refusal = self._guard(*drafts)
            if isinstance(refusal, StoreError):
                raise refusal
            if refusal is not None:
                return [refusal] * len(drafts)
        report = await self._store.publish_all(drafts)
        self._tell(drafts, report)
        return report.results

    async def close(self) -> None:
        """Wait until everything that was queued is answered."""
        while not (self._drafts.is_idle and self._aside.is_idle):
            await self._drafts.drained()
            await self._aside.drained()

    async def _group_commit(self, batch: list[_Waiting]) -> None:
        """A commit that no lane of another transaction can hold up: how it goes is how the store does."""
        clock = asyncio.get_running_loop().time
        self._began = clock()
        failure = await self._commit(batch)
        self._began = None
        self._failed = None if failure is None else (clock(), failure)

    async def _commit(self, batch: list[_Waiting]) -> StoreError | None:
        """Write *batch* and tell each of its callers; the error that all of them were told, if so."""
        try:
            report = await self._store.publish([draft for draft, _, _ in batch])
        except StoreError as error:
            self._trouble.tell(error)
            return _told(batch, error)
        except Exception as error:
            # It was not foreseen, but a publish that is never answered is worse: its caller repeats it.
            log.exception("a commit of %d publishes failed; each is told that its outcome is unknown", len(batch))
            return _told(batch, StoreError(f"the publish failed: {type(error).__name__}"))
        finally:
            self._count_out(batch)
        self._tell([draft for draft, _, _ in batch], report)
        for (draft, done, tries), result in zip(batch, report.results, strict=True):
            if not (isinstance(result, Refused) and result.code == BUSY):
                done(result)
            elif tries >= AGAIN_MAX:
                done(StoreBusy(_held(draft, result)))
            else:
                self._count_in(draft)
                self._aside.add((draft, done, tries + 1))
        return None

    def _tell(self, drafts: Sequence[Draft], report: PublishReport) -> None:
        if self._feed is not None and report.grown:
            self._feed(report)
        if self._observe is not None:
            counts: dict[str, int] = {}
            for draft, result in zip(drafts, report.results, strict=True):
                if isinstance(result, Published) and not result.repeated:
                    tenant = draft.event.tenant
                    counts[tenant] = counts.get(tenant, 0) + 1
            self._observe(counts)


def _told(batch: Sequence[_Waiting], error: StoreError) -> StoreError:
    for _, done, _ in batch:
        done(error)
    return error


def _tenant(waiting: _Waiting) -> str:
    return waiting[0].event.tenant


def _held(draft: Draft, result: Refused) -> str:
    what = "what this event needs" if draft.event.key is None else f"the key {draft.event.key!r}"
    return f"a transaction elsewhere that is still open holds {what} ({result.detail})"
