"""Async handlers on a store with a single writer: tasks of one event loop pass an open transaction on.

In a loop that costs no switch of threads, so each task runs its own part, in its own context, and can be cancelled in
it. A task that has done its part while another one waits leaves the commit to that one, and is answered after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from weakref import WeakKeyDictionary

from hooklane.batching.tasks import TaskTurns
from hooklane.errors import StoreBusy, StoreError
from hooklane.receiver.shared_commit import transaction
from hooklane.store.inbox import AsyncShared, SingleWriter


class TaskCommits:
    """The transactions of async flows, those of one loop in turns."""

    def __init__(self, store: SingleWriter) -> None:
        self._store = store
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()

    @property
    def waiting(self) -> int:
        """How many wait for their turn in this event loop."""
        here = self._of.get(asyncio.get_running_loop())
        return 0 if here is None else len(here.turns)

    async def abegin(self, *, wait_ms: int | None = None) -> TaskPart:
        """A transaction, or a part of one that is open; `StoreBusy` when it is not our turn within *wait_ms*."""
        loop = asyncio.get_running_loop()
        here = self._of.get(loop)
        if here is None:
            here = self._of[loop] = _Loop()
        wait_ms = self._store.busy_wait_ms if wait_ms is None else wait_ms
        share: _OpenTransaction | None = None
        if here.is_taken:
            asked = time.monotonic()
            share = await here.wait(wait_ms / 1000)
            wait_ms = max(1, wait_ms - int((time.monotonic() - asked) * 1000))
        here.is_taken = True
        try:
            if share is None:
                share = _OpenTransaction(here, await self._store.abegin(wait_ms=wait_ms))
            else:
                await share.session.save()
        except BaseException:
            await _settle(here, share)
            raise
        return TaskPart(here, share)


class _Loop:
    """Whose turn it is in one event loop."""

    def __init__(self) -> None:
        self.is_taken = False
        self.alone_until = 0.0
        self.turns: TaskTurns[None, _OpenTransaction | None] = TaskTurns()
        self.endings: set[asyncio.Task[None]] = set()

    async def wait(self, wait_s: float) -> _OpenTransaction | None:
        """Until it is our turn; the transaction that is open, if one is."""
        return await self.turns.wait(None, partial(_settle, self), wait_s=wait_s, late=_late)

    def pass_on(self, share: _OpenTransaction | None) -> None:
        """It is the turn of the task that has waited longest, with what is open."""
        if not self.turns.give(share) and share is None:
            self.is_taken = False


class _OpenTransaction:
    """An open transaction, and the tasks that have done their part in it."""

    def __init__(self, here: _Loop, session: AsyncShared) -> None:
        self._here = here
        self.session = session
        self.began = time.monotonic()
        self.parts = 1
        self.kept: list[asyncio.Future[None]] = []

    def may_grow(self, now: float) -> bool:
        return (
            self._here.turns.is_wanted
            and self.parts < transaction.PARTS_MAX
            and now - self.began < transaction.TOGETHER_S
            and now >= self._here.alone_until
            and not self.session.is_marked
        )

    async def end(self, *, commit: bool) -> None:
        """Commit the transaction for all tasks that have a part in it, or for none; then it is over."""
        error: StoreError | None = None
        try:
            if commit and self.kept and not self.session.is_whole:
                raise StoreBusy("another handler made the database roll back the transaction that they shared")
            if commit:
                await self.session.commit()
        except StoreError as raised:
            error = raised
            if self.kept:  # one of them may be to blame: all try again, each for itself
                self._here.alone_until = time.monotonic() + transaction.ALONE_S
                error = StoreBusy(f"a commit that several transactions shared failed: {raised}")
        finally:
            try:
                await self.session.close()
            finally:
                for done in self.kept:
                    if done.done():
                        continue
                    if error is None and commit:
                        done.set_result(None)
                    else:
                        done.set_exception(StoreBusy(str(error or "the transaction was not committed")))
                        done.exception()  # a task that was cancelled does not ask
                self._here.pass_on(None)
        if error is not None:
            raise error


class TaskPart:
    """One task's part of a transaction: the session that its flow is given."""

    def __init__(self, here: _Loop, share: _OpenTransaction) -> None:
        self._here = here
        self._share = share
        self._saved = bool(share.kept)
        self._began = time.monotonic()
        self._is_over = False
        """Whether the transaction is another one's to end, or is ended."""
        self._is_undone = False
        # The session's own, since a coroutine around each of them would be noticed.
        self.tx = share.session.tx
        self.perform = share.session.perform
        self.handing_over = share.session.handing_over
        self.taking_back = share.session.taking_back

    async def commit(self) -> None:
        """Durable when it returns, perhaps together with the parts of the tasks that come next."""
        now = self._note_pace()
        share = self._share
        if self._saved:
            await share.session.keep()
            self._saved = False
        if share.may_grow(now) and share.session.is_whole:
            done = asyncio.get_running_loop().create_future()
            share.kept.append(done)
            share.parts += 1
            self._is_over = True
            self._here.pass_on(share)
            await done
            return
        self._is_over = True
        await _end(self._here, share, commit=True)

    async def rollback(self) -> None:
        if self._is_over or self._is_undone:
            return
        self._note_pace()
        self._is_undone = True
        if self._saved:
            await self._share.session.undo()
        else:
            await self._share.session.rollback()

    async def close(self) -> None:
        if self._is_over:
            return
        try:
            await self.rollback()
        finally:
            self._is_over = True
            # At once: handlers that fail one after the other must not keep tasks waiting that have done their part.
            await _settle(self._here, self._share)

    def _note_pace(self) -> float:
        now = time.monotonic()
        if now - self._began > transaction.SLOW_S:
            self._here.alone_until = now + transaction.ALONE_S
        return now


async def _settle(here: _Loop, share: _OpenTransaction | None) -> None:
    """The task whose turn it was has nothing more to write, but others may wait for the commit."""
    if share is None:
        here.pass_on(None)
    else:
        with contextlib.suppress(StoreError):  # the tasks that wait are told
            await _end(here, share, commit=bool(share.kept))


async def _end(here: _Loop, share: _OpenTransaction, *, commit: bool) -> None:
    """End *share*; where others wait for that, even when cancelled."""
    if not share.kept:
        await share.end(commit=commit)
        return
    ending = asyncio.get_running_loop().create_task(share.end(commit=commit), name="hooklane commit")
    here.endings.add(ending)
    ending.add_done_callback(here.endings.discard)
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait([ending])
        if not ending.cancelled():
            ending.exception()
        raise


def _late() -> StoreBusy:
    return StoreBusy("other transactions of this event loop held the store")
