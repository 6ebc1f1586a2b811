"""The receiver over real HTTP: uvicorn serves the ASGI application, the worker runs beside it."""

from __future__ import annotations

import asyncio
import http.client
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.promises.receiving.kit import SECRET, signed
from tests.support.pace import scaled_s

from hooklane import asgi
from hooklane.model.message import Request
from hooklane.receiver import Inbox


class Served:
    def __init__(self, port: int, path: Path, inbox: Inbox) -> None:
        self.port, self.path, self.inbox = port, path, inbox

    async def post(self, request: Request, path: str = "/hooklane") -> tuple[int, dict[str, str], bytes]:
        return await asyncio.to_thread(self._post, request, path)

    def _post(self, request: Request, path: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=scaled_s(10))
        connection.request(request.method, path, request.body, dict(request.headers))
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

    async def announce(self, length: int, path: str = "/hooklane") -> int:
        """The status of a request with a body of *length*, of which nothing is sent."""
        return await asyncio.to_thread(self._announce, length, path)

    def _announce(self, length: int, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=scaled_s(10))
        connection.putrequest("POST", path)
        connection.putheader("content-length", str(length))
        connection.endheaders()
        status = connection.getresponse().status
        connection.close()
        return status


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE effects (event_id TEXT)")
    conn.close()
    inbox = Inbox(f"sqlite:///{path}")
    applied = asyncio.Event()

    @inbox.source("hooklane", [SECRET]).on("order.*")
    async def effect(event: Any, tx: Any) -> None:
        tx.execute("INSERT INTO effects VALUES (?)", (event.id,))
        event.on_commit(applied.set)

    config = uvicorn.Config(asgi.app(inbox), host="127.0.0.1", port=0, log_level="error", lifespan="on")
    server = Server(config)
    task = asyncio.create_task(server.serve())
    await server.up.wait()
    served = Served(server.servers[0].sockets[0].getsockname()[1], path, inbox)
    served.applied = applied  # type: ignore[attr-defined]
    yield served
    server.should_exit = True
    await task
    inbox.close()


async def test_events_posted_over_http_are_stored_answered_and_applied_once(served: Any) -> None:
    status, headers, body = await served.post(signed())
    await asyncio.wait_for(served.applied.wait(), scaled_s(10))
    again, headers_again, body_again = await served.post(signed())

    assert (status, headers["hooklane-outcome"], body) == (200, "stored", b'{"status": "ok"}')
    assert (again, headers_again["hooklane-outcome"]) == (200, "duplicate")
    assert body_again == b'{"status": "already_processed"}'
    conn = sqlite3.connect(served.path)
    assert conn.execute("SELECT count(*) FROM effects").fetchone() == (1,)
    conn.close()


async def test_a_body_over_the_limit_is_refused_without_being_read_to_its_end(served: Any) -> None:
    assert await served.announce(1_048_577) == 413


async def test_an_unknown_source_and_a_bad_signature_are_told_apart_by_status_only(served: Any) -> None:
    request = signed()
    forged = Request("POST", request.url, request.headers, b"{}")

    assert (await served.post(request, "/nobody"))[0] == 404
    status, _, body = await served.post(forged)
    assert (status, body) == (401, b'{"error": "unauthorized"}')


async def test_an_answer_without_content_says_nothing_of_its_length(served: Served) -> None:
    """What Discord is greeted with: a 204 may not have the header (RFC 9110, section 8.6)."""
    served.inbox.source("discord", unsafe=True)
    ping = Request.of("POST", "/discord", {"content-type": "application/json"}, b'{"type": 0}')
    status, headers, body = await served.post(ping, "/discord")

    assert (status, "content-length" in headers, body) == (204, False, b"")
