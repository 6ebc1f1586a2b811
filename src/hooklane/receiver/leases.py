"""Leases of what a worker has in hand: while it lives they are renewed, however long a handler takes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hooklane.batching.locks import open_in_forks
from hooklane.errors import StoreError
from hooklane.model.inbox import Claimed
from hooklane.receiver.flows.claims import renew_all
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.steps import transaction
from hooklane.receiver.threads import closing

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

RENEW_S_MIN = 0.05


class Leases:
    """A thread of its own, so that neither a blocking handler nor a busy event loop keeps a lease from being renewed.

    With a single writer there is nothing to renew: no other worker can take over while a handler's transaction is open.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._lock = open_in_forks(threading.Lock())
        self._in_hand: dict[tuple[object, str], Claimed] = {}
        self._stopping = open_in_forks(threading.Event())
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def hold(self, claims: Sequence[Claimed]) -> None:
        """These were claimed."""
        if self._inbox.store.capabilities.single_writer:
            return
        with self._lock:
            if self._pid != os.getpid():
                self._in_hand, self._thread, self._pid = {}, None, os.getpid()
            for each in claims:
                self._in_hand[each.id, each.handler] = each
            with contextlib.suppress(RuntimeError):  # a worker in a thread has no loop, and needs none
                self._loop = asyncio.get_running_loop()
            if self._thread is None:
                self._stopping = open_in_forks(threading.Event())
                self._thread = threading.Thread(target=closing(self._renew), name="hooklane-leases", daemon=True)
                self._thread.start()

    def let_go(self, claimed: Claimed) -> None:
        """This one is settled."""
        with self._lock:
            self._in_hand.pop((claimed.id, claimed.handler), None)

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopping.set()
        if thread is not None and self._pid == os.getpid() and self._loop is None:
            thread.join()  # one that may be waiting for this very loop ends by itself

    def _renew(self) -> None:
        stopping = self._stopping
        # A third: one renewal may fail, and the next still comes in time.
        while not stopping.wait(max(RENEW_S_MIN, self._inbox.lease_ms / 3000)):
            with self._lock:
                # Both at once: a claim may be let go, and the lease changed after it, before this thread runs on.
                claims, lease_ms = list(self._in_hand.values()), self._inbox.lease_ms
            if not claims:
                continue
            with contextlib.suppress(StoreError):  # the next round tries again, and the fence keeps the effect single
                self._run(claims, lease_ms)

    def _run(self, claims: Sequence[Claimed], lease_ms: int) -> None:
        runner, loop = self._inbox.runner, self._loop
        if self._inbox.store.capabilities.sync or loop is None:
            runner.run(self._plan(claims, lease_ms))
        elif not loop.is_closed():  # an async pool or engine belongs to the loop that made it
            asyncio.run_coroutine_threadsafe(runner.arun(self._plan(claims, lease_ms)), loop).result()

    def _plan(self, claims: Sequence[Claimed], lease_ms: int) -> Plan[None]:
        yield Run(transaction(renew_all(self._inbox.context, claims, lease_ms)))
