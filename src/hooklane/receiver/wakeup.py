"""Something arrived: wakes workers, in threads and in event loops alike."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from hooklane.batching.locks import open_in_forks


class Wakeup:
    """A flag that any thread may set. Waiting has a bound: another process may have stored something meanwhile."""

    def __init__(self) -> None:
        self._flag = open_in_forks(threading.Event())
        self._lock = open_in_forks(threading.Lock())
        self._loops: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def set(self) -> None:
        """Wake all workers that wait."""
        if not self._flag.is_set():  # the worker that clears it looks for work after that, and finds what set it
            self._flag.set()
        if not self._loops:
            return
        with self._lock:
            waiting = list(self._loops.items())
        for event, loop in waiting:
            with suppress(RuntimeError):  # its loop has ended
                loop.call_soon_threadsafe(event.set)

    def clear(self) -> None:
        """Before looking for work: what arrives from here on sets it again."""
        self._flag.clear()

    def wait(self, timeout_s: float) -> None:
        """Wait in a thread."""
        self._flag.wait(timeout_s)

    async def wait_async(self, timeout_s: float) -> None:
        """Wait in an event loop."""
        event = asyncio.Event()
        with self._lock:
            self._loops[event] = asyncio.get_running_loop()
        try:
            if not self._flag.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), timeout_s)
        finally:
            with self._lock:
                del self._loops[event]
