"""An endpoint that answers 204 after a while, as far ones do: `python -m bench.slow_sink 0.05` prints its port.

`GET /figures` tells, as JSON, how many deliveries it has answered, and when the first and the last came.
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
    deliveries = 0
    first_at = 0.0
    last_at = 0.0


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
                told = json.dumps({name: getattr(Figures, name) for name in ("deliveries", "first_at", "last_at")})
                self._transport.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(told)}\r\n\r\n{told}".encode())
            else:
                Figures.first_at = Figures.first_at or time.monotonic()
                asyncio.get_running_loop().call_later(self._delay_s, self._answer)

    def _answer(self) -> None:
        Figures.deliveries += 1
        Figures.last_at = time.monotonic()
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
