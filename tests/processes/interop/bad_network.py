"""An HTTP proxy that is a bad network, by a seed: some answers are lost, some requests arrive twice, some also late.

The fault proxy of tests/support acts on whole connections. This one reads requests, so that each has its own fate.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tests.support.pace import scaled_s

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
FATES = ("pass", "lose the answer", "twice", "again later")


class BadNetwork:
    """Listens on `port`, passes requests to *upstream*; of a hundred, *percent* meet each of the three faults."""

    def __init__(self, upstream: int, *, percent: int, seed: int) -> None:
        self._upstream = upstream
        self._weights = (100 - 3 * percent, percent, percent, percent)
        self._chance = random.Random(seed)
        self._late: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.fates: Counter[str] = Counter()
        self.port = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bad network", daemon=True)
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def deliver_late(self) -> int:
        """Lets everything arrive that was kept for later, in any order; returns how much that was."""
        return self._do(self._deliver_late())

    def _do(self, act: Coroutine[Any, Any, int]) -> int:
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(scaled_s(60))

    async def _open(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def _close(self) -> int:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return 0

    async def _deliver_late(self) -> int:
        late, self._late = self._late, []
        self._chance.shuffle(late)
        for request in late:
            await self._exchange(request)
        return len(late)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                request = await _message(reader)
                fate = self._chance.choices(FATES, self._weights)[0]
                self.fates[fate] += 1
                copies = [self._exchange(request) for _ in range(2 if fate == "twice" else 1)]
                reply, *_ = await asyncio.gather(*copies)
                if fate == "again later":
                    self._late.append(request)
                if fate == "lose the answer" or reply is None:
                    end: socket.socket = writer.get_extra_info("socket")
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                writer.write(reply)
                # What was kept arrives between later requests, now and then.
                if self._late and self._chance.random() < 0.3:
                    await self._exchange(self._late.pop(self._chance.randrange(len(self._late))))
        except (OSError, asyncio.IncompleteReadError):
            pass  # either side may go at any time
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _exchange(self, request: bytes) -> bytes | None:
        """What the upstream answers; None where it does not."""
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            writer.write(request)
            return await _message(reader)
        except (OSError, asyncio.IncompleteReadError):
            return None
        finally:
            if writer is not None:
                with suppress(OSError):
                    writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """One request or response, whole, its length told by its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)
