"""Both ends of a sender under fire: who publishes and does not give up, and who receives and forgets nothing."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from tests.support.pace import scaled_s

from hooklane.testing.arrivals import Arrival

WITHIN_S = 60.0
LOOPBACK = "127.0.0.1"
KNOCK = "\r\n\r\n"
"""What the receiver asks of itself; no sender says so."""
Place = int | tuple[str, int, str]
"""A port of the loopback, or an address, a port, and the header lines of every request."""


def at(place: Place) -> tuple[str, int, str]:
    return (LOOPBACK, place, "") if isinstance(place, int) else place


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request that reached the receiver, during the *life*-th life of the sender."""

    life: int
    key: str
    seq: int
    event_id: str
    attempt: int
    digest: int
    status: int


class Receiver:
    """An endpoint that logs every delivery and answers as `react` says; 0 hangs up without a word."""

    def __init__(self, react: Callable[[str, int], int] = lambda _key, _seq: 200, *, address: str = LOOPBACK) -> None:
        self.react = react
        self._address = address
        self.life = 0
        self.log: list[Delivery] = []
        self.taken: dict[str, set[int]] = defaultdict(set)
        self.held: asyncio.Event | None = None
        """While set to an event that is not set: answers wait for it."""
        self._grew = asyncio.Event()
        self._open = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._address, 0)
        self.url = f"http://{self._address}:{self._server.sockets[0].getsockname()[1]}/hook"
        return self

    async def __aexit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        if self.held is not None:
            self.held.set()
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                if head == KNOCK:
                    break
                headers = {
                    name.lower(): value
                    for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:-2])
                }
                body = await reader.readexactly(int(headers["content-length"]))
                key, seq = unquote(headers["x-key"]), int(headers["x-seq"])
                status = self.react(key, seq)
                delivery = Delivery(
                    *(self.life, key, seq, headers["webhook-id"], int(headers["x-attempt"])), zlib.crc32(body), status
                )
                self.log.append(delivery)
                if 200 <= status < 300:
                    self.taken[key].add(seq)
                self._grew.set()
                if self.held is not None:
                    await self.held.wait()
                if status == 0:
                    break
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: 0\r\n\r\n" % status)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the sender died or hung up
        finally:
            writer.close()
            self._open -= 1
            self._grew.set()

    async def next_life(self) -> None:
        """The sender is dead: what it had sent is still read, and counts for the life in which it was sent."""
        # What the dead one opened may still wait to be accepted, and is served before this: in the order of arrival.
        reader, writer = await asyncio.open_connection(*self._server.sockets[0].getsockname()[:2])
        writer.write(KNOCK.encode())
        await reader.read()
        writer.close()
        await self.until(lambda: self._open == 0)
        self.life += 1

    async def until(self, holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        """Returns as soon as *holds* does, asked again after each delivery."""
        async with asyncio.timeout(scaled_s(within_s)):
            while not holds():
                self._grew.clear()
                await self._grew.wait()

    async def has(self, accepted: dict[str, list[str]], within_s: float = WITHIN_S) -> None:
        await self.until(lambda: all(len(ids) == len(self.taken[key]) for key, ids in accepted.items()), within_s)

    def arrivals(self) -> list[Arrival]:
        return [Arrival(one.key, one.seq, one.event_id, one.digest, 200 <= one.status < 300) for one in self.log]

    def copies(self) -> list[Delivery]:
        """The deliveries that were taken though an earlier copy had been taken."""
        seen: set[tuple[str, int]] = set()
        found = []
        for one in self.log:
            if not 200 <= one.status < 300:
                continue
            if (one.key, one.seq) in seen:
                found.append(one)
            seen.add((one.key, one.seq))
        return found


class Client:
    """One connection that publishes; what was not answered is asked again, under the same idempotency key."""

    def __init__(self, place: Place, *, answered_within_s: float | None = None) -> None:
        self._address, self._port, self._headers = at(place)
        self._within_s = answered_within_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: Any = None, headers: str = "") -> tuple[int, Any]:
        """One request and its answer; an OSError when the server went away, or took too long."""
        try:
            async with asyncio.timeout(self._within_s):
                return await self._call(method, path, body, headers)
        except TimeoutError:
            self.close()
            raise

    async def _call(self, method: str, path: str, body: Any, headers: str) -> tuple[int, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._address, self._port)
        reader, writer = self._streams
        data = b"" if body is None else json.dumps(body).encode()
        writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: {self._address}:{self._port}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(data)}\r\n{self._headers}{headers}\r\n".encode()
            + data
        )
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            size = int(head.split("content-length: ")[1].split("\r\n")[0]) if "content-length: " in head else 0
            answer = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.close()
            raise ConnectionError("no answer") from error
        return int(head.split()[1]), json.loads(answer) if answer else None

    async def publish(self, key: str, data: Any, name: str) -> tuple[str, int]:
        """Publish until there is an answer; the event's id and seq."""
        event = {"type": "order.changed", "key": key, "data": data}
        async with asyncio.timeout(scaled_s(WITHIN_S)):
            while True:
                try:
                    status, answer = await self.call("POST", "/api/v1/events", event, f"idempotency-key: {name}\r\n")
                except OSError:
                    self.close()
                    await asyncio.sleep(0.002)  # nobody listens: the server is being started again
                    continue
                if status in (503, 507):
                    await asyncio.sleep(0.01)
                    continue
                assert status == 202, answer
                return answer["id"], answer["lanes"][0]["seq"]

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Load:
    """Many clients that publish to keys of their own, one event after the other, until told to stop."""

    def __init__(
        self,
        places: Sequence[Place],
        *,
        clients: int,
        keys_each: int,
        rest_s: float = 0.0,
        answered_within_s: float | None = None,
        on_accepted: Callable[[str, int, str], None] = lambda _key, _seq, _id: None,
    ) -> None:
        """Each client keeps to one of the *places*, and rests after each event; each answer is told at once."""
        self.accepted: dict[str, list[str]] = {}
        self._stopping = False
        self._places = places
        self._rest_s = rest_s
        self._on_accepted = on_accepted
        self._within_s = answered_within_s
        self._clients = clients
        self._keys_each = keys_each

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._clients):
                group.create_task(self._publish(number))

    def stop(self) -> None:
        """Let each client get the answer to what it has asked."""
        self._stopping = True

    @property
    def events(self) -> int:
        return sum(map(len, self.accepted.values()))

    async def _publish(self, number: int) -> None:
        client = Client(self._places[number % len(self._places)], answered_within_s=self._within_s)
        count = 0
        while not self._stopping:
            key = f"client {number}/{count % self._keys_each}"
            ids = self.accepted.setdefault(key, [])
            event_id, seq = await client.publish(key, {"count": count}, f"{number}-{count}")
            assert seq == len(ids) + 1, f"{key}: {seq} after {len(ids)}, so a publish was stamped twice or lost"
            ids.append(event_id)
            self._on_accepted(key, seq, event_id)
            count += 1
            if self._rest_s:
                await asyncio.sleep(self._rest_s)
        client.close()
