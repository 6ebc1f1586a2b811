"""`python -m bench.tenants [--store sqlite] [--seconds 8]`: does a tenant that misbehaves slow another?

One tenant publishes at ten times its quota and has 1,000 endpoints that never answer; another publishes evenly. Told is
how long the other's events take from publish to arrival, alone and beside it, and how quickly the flood is refused.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

from bench import stores
from bench.gateway import Gateway, gateway
from bench.machine import described, load_average, scratch

DEAD = 1_000
QUOTA = 50
"""Events a second that the loud tenant may publish; it tries ten times as many."""
QUIET_PER_S = 40
CLIENTS = 20
TIMES_MAX = 1.5


async def _sink(arrived: dict[str, float], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An endpoint that answers at once, and notes when what arrived."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            fields = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:] if ": " in line)
            names = {name.lower(): value for name, value in fields.items()}
            await reader.readexactly(int(names["content-length"]))
            arrived.setdefault(names["webhook-id"], time.monotonic())
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        writer.close()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An endpoint that takes a request and never answers."""
    try:
        while await reader.read(65_536):
            pass
    except (ConnectionError, asyncio.CancelledError):
        pass  # the bench is over
    writer.close()


class Client:
    """One connection of a tenant to the server."""

    def __init__(self, port: int, tenant: str) -> None:
        self._port, self._tenant = port, tenant

    async def publish(self, type_: str) -> tuple[int, str, float, float]:
        """Status, id, when it was sent and how long the answer took."""
        if not hasattr(self, "_reader"):
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        body = json.dumps({"type": type_, "data": {"n": 1}}).encode()
        head = f"POST /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\nhooklane-tenant: {self._tenant}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        began = time.monotonic()
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        size = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        text = await self._reader.readexactly(size)
        status = int(answer.split(b" ", 2)[1])
        return status, json.loads(text).get("id", ""), began, time.monotonic() - began


async def _quiet(port: int, arrived: dict[str, float], seconds: float) -> list[float]:
    """What the well-behaved tenant's events took to arrive, in milliseconds."""
    client, sent, end = Client(port, "quiet"), {}, time.monotonic() + seconds
    while time.monotonic() < end:
        status, event, at, _ = await client.publish("order.created")
        assert status == 202
        sent[event] = at
        await asyncio.sleep(1 / QUIET_PER_S)
    for _ in range(600):
        if sent.keys() <= arrived.keys():
            break
        await asyncio.sleep(0.05)
    return sorted((arrived[event] - at) * 1000 for event, at in sent.items())


class Loud:
    """The tenant that misbehaves, in a process of its own: what it costs to play it is not the server's time."""

    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_play_loud, args=(port, theirs), daemon=True)
        self._process.start()
        self.endpoint_port: int = self._ours.recv()

    def begin(self) -> None:
        self._ours.send("begin")

    def end(self) -> tuple[int, list[float]]:
        """How many were accepted, and how long each refusal took in milliseconds."""
        self._ours.send("end")
        told: tuple[int, list[float]] = self._ours.recv()
        self._process.join(30)
        return told


def _play_loud(port: int, pipe: Connection) -> None:
    asyncio.run(_loud(port, pipe))


async def _loud(port: int, pipe: Connection) -> None:
    silent = await asyncio.start_server(_silent, "127.0.0.1", 0, backlog=2_048)
    pipe.send(silent.sockets[0].getsockname()[1])
    await asyncio.to_thread(pipe.recv)
    accepted, refused = [0], list[float]()
    clients = [asyncio.create_task(_flood(port, accepted, refused, number)) for number in range(CLIENTS)]
    await asyncio.to_thread(pipe.recv)
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    pipe.send((accepted[0], refused))


async def _flood(port: int, accepted: list[int], refused: list[float], number: int) -> None:
    client, turn = Client(port, "loud"), number
    while True:
        status, _, _, took = await client.publish(f"dead.{turn % DEAD}")
        if status == 202:
            accepted[0] += 1
        else:
            refused.append(took * 1000)
        turn += CLIENTS
        await asyncio.sleep(max(0.0, CLIENTS / (10 * QUOTA) - took))


def _p(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0.0


async def _measure(server: Gateway, seconds: float) -> bool:
    arrived: dict[str, float] = {}
    sink = await asyncio.start_server(lambda r, w: _sink(arrived, r, w), "127.0.0.1", 0)
    loud = await asyncio.to_thread(Loud, server.port)
    for tenant, quota in (("quiet", {}), ("loud", {"events_per_s": QUOTA})):
        await asyncio.to_thread(server.call, "POST", "/api/v1/tenants", {"id": tenant, "quota": quota})
    setup = Setup(server)
    await asyncio.to_thread(setup.add, "quiet", f"http://127.0.0.1:{sink.sockets[0].getsockname()[1]}/", ["order.*"])
    for n in range(DEAD):
        await asyncio.to_thread(setup.add, "loud", f"http://127.0.0.1:{loud.endpoint_port}/{n}", [f"dead.{n}"])
    await _quiet(server.port, arrived, 2.0)  # warm
    alone, cost, began = await _quiet(server.port, arrived, seconds), server.cost, time.monotonic()
    loud.begin()
    await asyncio.sleep(3)
    beside = await _quiet(server.port, arrived, seconds)
    used = (server.cost.total_s - cost.total_s) / (time.monotonic() - began)
    accepted, refused = await asyncio.to_thread(loud.end)
    times = _p(beside, 0.99) / _p(alone, 0.99)
    for name, took in (("alone ", alone), ("beside", beside)):
        figures = "   ".join(
            f"{word} {_p(took, part):6.1f} ms" for word, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        )
        print(f"  {name}  {figures}   {len(took)} events")
    print(f"  p99 {times:.2f} x (wanted: at most {TIMES_MAX} x); the server used {100 * used:.0f} % of a core")
    print(f"  {accepted} of the loud tenant accepted, {len(refused)} refused, refusals p99 {_p(refused, 0.99):.1f} ms")
    return times <= TIMES_MAX


class Setup:
    """Makes endpoints for tenants; the bench's gateway knows only the default one."""

    def __init__(self, server: Gateway) -> None:
        self._server = server

    def add(self, tenant: str, url: str, types: list[str]) -> None:
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        body = json.dumps({"url": url, "types": types})
        connection.request("POST", "/api/v1/endpoints", body, {"hooklane-tenant": tenant})
        assert connection.getresponse().status == 201
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tenants", description=__doc__)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    parser.add_argument("--seconds", type=float, default=8.0)
    asked = parser.parse_args()
    print(f"{described()}, load average {load_average():.1f} before")
    is_fair = True
    with ExitStack() as stack:
        folder: Path = stack.enter_context(scratch())
        for name in asked.store or ["sqlite", "postgres"]:
            store = stack.enter_context(getattr(stores, name)(folder))
            mine = folder / f"tenants-{name}"
            mine.mkdir()
            with gateway(store.fresh(), mine) as server:
                print(f"{name}: one tenant at 10 x its quota of {QUOTA} events/s, {DEAD} endpoints never answer")
                is_fair &= asyncio.run(_measure(server, asked.seconds))
    sys.exit(0 if is_fair else 1)


if __name__ == "__main__":
    main()
