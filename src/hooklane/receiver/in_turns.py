"""Async handlers on a store with a single writer: tasks of one event loop pass an open transaction on.

In a loop that costs no switch of threads, so each task runs its own part, in its own context, and can be cancelled in
it. Whoever has done its part while another one waits leaves the commit to that one, and is answered after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from weakref import WeakKeyDictionary

from hooklane.errors import StoreBusy, StoreError
from hooklane.receiver import parts
from hooklane.store.inbox import AsyncShared, SingleWriter


class InTurns:
    """The transactions of async flows, those of one loop in turns."""

    def __init__(self, store: SingleWriter) -> None:
        self._store = store
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()

    @property
    def waiting(self) -> int:
        """How many wait for their turn in this event loop."""
        here = self._of.get(asyncio.get_running_loop())
        return 0 if here is None else here.waiting

    async def abegin(self, *, wait_ms: int | None = None) -> Turn:
        """A transaction, or a part of one that is open; `StoreBusy` when it is not our turn within *wait_ms*."""
        loop = asyncio.get_running_loop()
        here = self._of.get(loop)
        if here is None:
            here = self._of[loop] = _Loop()
        wait_ms = self._store.busy_wait_ms if wait_ms is None else wait_ms
        share: _Share | None = None
        if here.is_taken:
            asked = time.monotonic()
            share = await here.wait(wait_ms / 1000)
            wait_ms = max(1, wait_ms - int((time.monotonic() - asked) * 1000))
        here.is_taken = True
        try:
            if share is None:
                share = _Share(here, await self._store.abegin(wait_ms=wait_ms))
            else:
                await share.session.save()
        except BaseException:
            await _settle(here, share)
            raise
        return Turn(here, share)


class _Loop:
    """Who waits in one event loop."""

    def __init__(self) -> None:
        self.is_taken = False
        self.alone_until = 0.0
        self._waiting: deque[asyncio.Future[_Share | None]] = deque()
        self.endings: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        return sum(not turn.done() for turn in self._waiting)

    @property
    def is_wanted(self) -> bool:
        return any(not turn.done() for turn in self._waiting)

    async def wait(self, wait_s: float) -> _Share | None:
        """Until it is our turn; what is open, if something is."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[_Share | None] = loop.create_future()
        timer = loop.call_later(wait_s, _give_up, turn)
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # it was given at that very moment
                await _settle(self, turn.result())
            raise
        finally:
            timer.cancel()
            with contextlib.suppress(ValueError):
                self._waiting.remove(turn)

    def pass_on(self, share: _Share | None) -> bool:
        """It is the turn of who has waited longest, with what is open; False when nobody waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(share)
                return True
        if share is None:
            self.is_taken = False
        return False


class _Share:
    """An open transaction, and those who have done their part in it."""

    def __init__(self, here: _Loop, session: AsyncShared) -> None:
        self._here = here
        self.session = session
        self.began = time.monotonic()
        self.parts = 1
        self.kept: list[asyncio.Future[None]] = []

    def may_grow(self, now: float) -> bool:
        return (
            self._here.is_wanted
            and self.parts < parts.PARTS_MAX
            and now - self.began < parts.TOGETHER_S
            and now >= self._here.alone_until
        )

    async def end(self, *, commit: bool) -> None:
        """Commit for all who have a part in it, or for none; then it is over."""
        error: StoreError | None = None
        try:
            if commit and self.kept and not self.session.is_whole:
                raise StoreBusy("another one undid the whole transaction")
            if commit:
                await self.session.commit()
        except StoreError as raised:
            error = raised
            if self.kept:  # one of them may be to blame: all try again, each for itself
                self._here.alone_until = time.monotonic() + parts.ALONE_S
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
                        done.exception()  # whoever was cancelled does not ask
                self._here.pass_on(None)
        if error is not None:
            raise error


class Turn:
    """One task's part of a transaction: the session that its flow is given."""

    def __init__(self, here: _Loop, share: _Share) -> None:
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
        """Durable when it returns, perhaps together with the parts of those who come next."""
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
            # At once: handlers that fail one after the other must not keep those waiting who have done their part.
            await _settle(self._here, self._share)

    def _note_pace(self) -> float:
        now = time.monotonic()
        if now - self._began > parts.SLOW_S:
            self._here.alone_until = now + parts.ALONE_S
        return now


async def _settle(here: _Loop, share: _Share | None) -> None:
    """Whose turn it was has nothing (more) to write, but others may wait for the commit."""
    if share is None:
        here.pass_on(None)
    else:
        with contextlib.suppress(StoreError):  # those who wait are told
            await _end(here, share, commit=bool(share.kept))


async def _end(here: _Loop, share: _Share, *, commit: bool) -> None:
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


def _give_up(turn: asyncio.Future[_Share | None]) -> None:
    if not turn.done():
        turn.set_exception(StoreBusy("other transactions of this event loop held the store"))
