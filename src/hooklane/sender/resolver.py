"""Which addresses does a host name have? Asked once for each new connection, with a bound, never cached.

`getaddrinfo` cannot be cancelled, so a name server that never answers keeps a thread for as long as it likes. Three
rules keep that from the other endpoints: lookups of one name share one thread; a thread that overran is written off
and replaced; and a name that overran before waits in a small lane of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

LOOKUP_LIMIT_S = 3.0
_IDLE_S = 30.0
_SLOW_FOR_S = 600.0
_SLOW_NAMES_MAX = 10_000


class DnsError(Exception):
    """The name has no addresses now: it does not exist, or its servers failed or did not answer."""


class Resolver(Protocol):
    """What the guard asks; tests hand in a script."""

    async def lookup(self, host: str) -> Sequence[str]:
        """The addresses of *host* as text, in the order of preference; DnsError when there are none."""


class ThreadResolver:
    """The system's own resolver (`getaddrinfo`, so hosts file and all) in a few daemon threads."""

    def __init__(self, *, threads_max: int = 16, slow_threads_max: int = 4, written_off_max: int = 256) -> None:
        self._quick = _Lane("hooklane-dns", threads_max, written_off_max)
        self._slow = _Lane("hooklane-dns-slow", slow_threads_max, 0)
        self._slow_until: OrderedDict[str, float] = OrderedDict()
        self._under_way: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Future[list[str]]] = {}

    async def lookup(self, host: str) -> Sequence[str]:
        """Joins a lookup of the same name that is under way; one that overran is not asked a second time beside it."""
        loop = asyncio.get_running_loop()
        key = (loop, host)
        answer = self._under_way.get(key)
        if answer is None:
            answer = self._under_way[key] = loop.create_future()
            answer.add_done_callback(lambda settled: self._forget(key, settled))
            lane = self._slow if self._slow_until.get(host, 0.0) > time.monotonic() else self._quick
            job = _Job(host, loop, answer)
            loop.call_later(LOOKUP_LIMIT_S, self._overrun, job, lane)
            lane.put(job)
        return await asyncio.shield(answer)

    def _forget(self, key: tuple[asyncio.AbstractEventLoop, str], answer: asyncio.Future[list[str]]) -> None:
        del self._under_way[key]
        if not answer.cancelled():
            answer.exception()  # the caller may be gone; then the answer is not wanted

    def _overrun(self, job: _Job, lane: _Lane) -> None:
        if job.answer.done():
            return
        if not job.started:  # it waits for a thread; the caller has given up, and so will the lane
            job.loop.call_later(LOOKUP_LIMIT_S, self._overrun, job, lane)
            return
        lane.write_off(job)
        self._slow_until[job.host] = time.monotonic() + _SLOW_FOR_S
        self._slow_until.move_to_end(job.host)
        while len(self._slow_until) > _SLOW_NAMES_MAX:
            self._slow_until.popitem(last=False)


class _Job:
    """One question, and where its answer goes."""

    def __init__(self, host: str, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[list[str]]) -> None:
        self.host = host
        self.loop = loop
        self.answer = answer
        self.started = False
        self.written_off = False
        self._wanted_until = time.monotonic() + LOOKUP_LIMIT_S

    def run(self) -> None:
        """Ask, in this thread, for as long as it takes; not at all when no caller waits any more."""
        addresses: list[str] = []
        error: DnsError | None = None
        if time.monotonic() > self._wanted_until:
            error = DnsError("no thread was free")
        else:
            self.started = True
            try:
                found = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
                addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
            except (OSError, UnicodeError) as refused:
                error = DnsError(str(getattr(refused, "strerror", None) or refused))
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: no caller waits any more
            self.loop.call_soon_threadsafe(self._settle, addresses, error)

    def _settle(self, addresses: list[str], error: DnsError | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(addresses)
        else:
            self.answer.set_exception(error)


class _Lane:
    """A queue with threads that come when they are needed and go when they are idle."""

    def __init__(self, name: str, threads_max: int, written_off_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._written_off_max = written_off_max
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0
        self._written_off = 0

    def put(self, job: _Job) -> None:
        self._jobs.put(job)
        self._grow()

    def write_off(self, job: _Job) -> None:
        """*job*'s thread is lost until its call returns: another may take its place."""
        with self._lock:
            if job.written_off or self._written_off >= self._written_off_max:
                return
            job.written_off = True
            self._written_off += 1
            self._threads -= 1
        self._grow()

    def _grow(self) -> None:
        with self._lock:
            if self._threads >= self._threads_max or self._free >= self._jobs.qsize():
                return
            self._threads += 1
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            with self._lock:
                if job.written_off:
                    self._written_off -= 1
                    return

    def _next(self) -> _Job | None:
        with self._lock:
            self._free += 1
        while True:
            with contextlib.suppress(Empty):
                job = self._jobs.get(timeout=_IDLE_S)
                with self._lock:
                    self._free -= 1
                return job
            with self._lock:
                if self._jobs.empty():  # else it came while we were leaving, and counted on us
                    self._free -= 1
                    self._threads -= 1
                    return None
