"""How do many publishes share one commit? What queued while the last one ran goes into the next: no delay is added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hooklane.errors import StoreError, StoreUnavailable
from hooklane.store.outbox import BUSY, Draft, OutboxStore, Published, PublishReport, Refused

Done = Callable[[Published | Refused | StoreError], None]
BATCH_MAX = 1_000
QUEUE_MAX = 50_000
AGAIN_MS = 50
AGAIN_MAX = 100
"""An application may hold a lane in a transaction of its own: its events are tried again for so long, apart."""


class Publisher:
    """A line of drafts and one commit under way at a time. Nobody is told of success before it is durable."""

    def __init__(
        self,
        store: OutboxStore,
        feed: Callable[[PublishReport], None] | None = None,
        observe: Callable[[int], None] | None = None,
        guard: Callable[[Draft], Refused | StoreError | None] | None = None,
    ) -> None:
        """*feed* takes the news for the lanes of this process; *observe* counts what was published.

        *guard* says why a draft may not come in, before the store is asked.
        """
        self._store = store
        self._feed = feed
        self._observe = observe
        self._guard = guard
        self._line: list[tuple[Draft, Done]] = []
        self._running: asyncio.Task[None] | None = None
        self._aside: list[tuple[Draft, Done, int]] = []
        self._retrying: asyncio.Task[None] | None = None

    def submit(self, draft: Draft, done: Done) -> None:
        """Queue a draft; *done* is called once, after the commit that holds it, or with the error that refused it."""
        if len(self._line) >= QUEUE_MAX:
            done(StoreUnavailable("too many publishes are waiting for the store"))
            return
        if self._guard is not None and (refusal := self._guard(draft)) is not None:
            done(refusal)
            return
        self._line.append((draft, done))
        if self._running is None:
            # One task per busy period, not per event: it goes on until the line is empty.
            self._running = asyncio.get_running_loop().create_task(self._run(), name="group commit of publishes")

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
        if self._guard is not None:
            for draft in drafts:
                refusal = self._guard(draft)
                if isinstance(refusal, StoreError):
                    raise refusal
                if refusal is not None:
                    return [refusal] * len(drafts)
        report = await self._store.publish_all(drafts)
        self._tell(report)
        return report.results

    async def close(self) -> None:
        """Wait until everything that was queued is answered."""
        while (task := self._running or self._retrying) is not None:
            await task

    async def _run(self) -> None:
        try:
            while self._line:
                # Who has asked already and was not read yet comes along: a larger commit, and no later.
                await asyncio.sleep(0)
                batch, self._line = self._line[:BATCH_MAX], self._line[BATCH_MAX:]
                await self._commit([(draft, done, 0) for draft, done in batch])
        finally:
            self._running = None

    async def _retry(self) -> None:
        """Those that met a held lane, in commits of their own: nobody else waits for them."""
        try:
            while self._aside:
                await asyncio.sleep(AGAIN_MS / 1000)
                batch, self._aside = self._aside, []
                await self._commit(batch)
        finally:
            self._retrying = None

    async def _commit(self, batch: list[tuple[Draft, Done, int]]) -> None:
        try:
            report = await self._store.publish([draft for draft, _, _ in batch])
        except StoreError as error:
            for _, done, _ in batch:
                done(error)
            return
        self._tell(report)
        for (draft, done, tries), result in zip(batch, report.results, strict=True):
            if not (isinstance(result, Refused) and result.code == BUSY):
                done(result)
            elif tries >= AGAIN_MAX:
                done(StoreUnavailable(result.detail))
            else:
                self._aside.append((draft, done, tries + 1))
        if self._aside and self._retrying is None:
            self._retrying = asyncio.get_running_loop().create_task(self._retry(), name="publishes set aside")

    def _tell(self, report: PublishReport) -> None:
        if self._feed is not None and report.grown:
            self._feed(report)
        if self._observe is not None:
            self._observe(sum(isinstance(one, Published) and not one.repeated for one in report.results))
