"""An endpoint that answers 204 after a while, as far ones do: `python -m bench.slow_sink 0.05` prints its port.

`GET /figures` tells, as JSON, how many deliveries it has answered, how many different ones, when the first and the last
came, and how many were in flight on average from the first to the last.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Figures:
    """What came so far."""

    def __init__(self) -> None:
        self.deliveries = 0
        self.first_at = self.last_at = 0.0
        self.seen: set[bytes] = set()
        self._in_flight = 0
        self._summed = 0.0
        """In flight, by the seconds it was so."""

    def came(self, where_and_id: bytes) -> None:
        self._move(1)
        self.seen.add(where_and_id)

    def answered(self) -> None:
        self._move(-1)
        self.deliveries += 1

    def _move(self, by: int) -> None:
        now = time.monotonic()
        self.first_at = self.first_at or now
        self._summed += self._in_flight * (now - (self.last_at or now))
        self._in_flight += by
        self.last_at = now

    def told(self) -> dict[str, float]:
        took_s = self.last_at - self.first_at
        return {
            "deliveries": self.deliveries,
            "distinct": len(self.seen),
            "first_at": self.first_at,
            "last_at": self.last_at,
            "in_flight": self._summed / took_s if took_s else 0.0,
        }


FIGURES = Figures()


class Sink(asyncio.Protocol):
    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no common class

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            _, _, rest = head.partition(b"content-length: ")
            whole = end + 4 + int(rest.split(b"\r\n")[0] or 0)
            if len(self._data) < whole:
                return
            self._data = self._data[whole:]
            if head.startswith(b"get /figures"):
                told = json.dumps(FIGURES.told())
                self._transport.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(told)}\r\n\r\n{told}".encode())
            else:
                _, _, event_id = head.partition(b"webhook-id: ")
                FIGURES.came(head.split(b"\r\n")[0] + event_id.split(b"\r\n")[0])
                asyncio.get_running_loop().call_later(self._delay_s, self._answer)

    def _answer(self) -> None:
        FIGURES.answered()
        if not self._transport.is_closing():
            self._transport.write(ANSWER)


async def main() -> None:
    delay_s = float(sys.argv[1])
    server = await asyncio.get_running_loop().create_server(lambda: Sink(delay_s), "127.0.0.1", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
