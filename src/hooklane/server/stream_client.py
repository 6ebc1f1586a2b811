"""One client of the live stream: an open response of server-sent events, which never holds up the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from hooklane.server.repeating import came

HEARTBEAT_S = 15.0
WAITING_MAX = 100

_RESET = b"event: reset\ndata: {}\n\n"
_HEARTBEAT = b": still here\n\n"


def frame(kind: str, last_id: str, data: bytes) -> bytes:
    """One event of the stream. JSON has no raw newline, so one data line is enough."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), last_id.encode(), data)


class StreamClient:
    """What is still to be written to one client. A client that is too slow loses it all and is told to start anew."""

    def __init__(self, topics: frozenset[str] | None = None) -> None:
        """*topics*: the kinds of events to be told; all of them when None."""
        self.topics = topics
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._ended = False

    def wants(self, kind: str) -> bool:
        return self.topics is None or kind in self.topics

    def put(self, text: bytes) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.clear()
            text = _RESET
        self._waiting.append(text)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """What to write, as it comes; a heartbeat where nothing happens, so that a dead connection is noticed."""
        while not self._ended:
            if not await came(self._news, HEARTBEAT_S):
                yield _HEARTBEAT
                continue
            self._news.clear()
            if self._waiting:
                text = b"".join(self._waiting)
                self._waiting.clear()
                yield text
