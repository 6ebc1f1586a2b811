"""Servers that one test run shares: each is started when the first test asks, once, and ended with the run.

The main pytest process owns them. Workers of pytest-xdist ask it over a loopback connection, whose port they find in
the environment, and get back an address. So a worker may crash, and its servers stay for the others.
"""

import asyncio
import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.dynamodb import dynamodb_server
from tests.support.pace import scaled_s
from tests.support.postgres import postgres_server
from tests.support.valkey import valkey_server

from hooklane.core.fanout import places
from hooklane.store.open_inbox import open_inbox
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox

WITH_TABLES = "with_tables"
"""The name of a database on each shared PostgreSQL that has the tables of outbox and inbox, and no rows."""
PORT_VARIABLE = "HOOKLANE_TEST_SERVERS_PORT"
START_WITHIN_S = 110.0

Address = dict[str, Any]


class ServerFailed(RuntimeError):
    """A server that a test needs did not start; the message says why."""


def make_tables(url: str) -> None:
    """All tables of ours, so that a test may begin with a copy of them: to make them takes longer than most tests."""

    async def of_the_outbox() -> None:
        store = PostgresOutbox(url, StoreOptions(placer=places))
        await store.open()
        await store.close()

    asyncio.run(of_the_outbox())
    open_inbox(url).close()


@contextmanager
def _postgres(major: int) -> Iterator[Address]:
    with postgres_server(major) as server:
        make_tables(server.address.create_database(WITH_TABLES))
        yield {"port": server.address.port, "major": server.address.major, "stays": True}


@contextmanager
def _valkey(program: str) -> Iterator[Address]:
    with valkey_server(Path(program)) as server:
        yield {"port": server.address.port}


@contextmanager
def _dynamodb() -> Iterator[Address]:
    with dynamodb_server() as port:
        yield {"port": port}


KINDS: dict[str, Callable[..., AbstractContextManager[Address]]] = {
    "postgres": _postgres,
    "valkey": _valkey,
    "dynamodb": _dynamodb,
}


class SharedServers:
    """Starts what is asked for, remembers it, and ends it all in `close`."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._answers: dict[str, Address] = {}
        self._starting = threading.Lock()
        owner = self

        class Answer(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                kind, *arguments = json.loads(self.rfile.readline())
                self.wfile.write(json.dumps(owner._address(kind, arguments)).encode() + b"\n")

        self._listener = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer)
        self._listener.daemon_threads = True
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        os.environ[PORT_VARIABLE] = str(self._listener.server_address[1])

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()
        with self._starting:
            self._running.close()

    def _address(self, kind: str, arguments: list[Any]) -> Address:
        name = json.dumps([kind, *arguments])
        with self._starting:
            if name not in self._answers:
                try:
                    self._answers[name] = self._running.enter_context(KINDS[kind](*arguments))
                except Exception as error:  # whatever went wrong, the test that asked must say it
                    self._answers[name] = {"failed": f"{kind} did not start: {error}"}
            return self._answers[name]


def shared(kind: str, *arguments: str | int) -> Address:
    """The address of the run's server of this *kind*, started now if nobody asked before."""
    port = int(os.environ[PORT_VARIABLE])
    with socket.create_connection(("127.0.0.1", port), timeout=scaled_s(START_WITHIN_S)) as connection:
        connection.sendall(json.dumps([kind, *arguments]).encode() + b"\n")
        with connection.makefile("rb") as reader:
            answer: Address = json.loads(reader.readline())
    if "failed" in answer:
        raise ServerFailed(answer["failed"])
    return answer
