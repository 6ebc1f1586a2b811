"""The receiver inside other frameworks, called as they call it: Starlette, Litestar, FastAPI and Flask."""

from __future__ import annotations

import asyncio
import base64
import hmac
import io
import json
import threading
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from flask import Flask
from litestar import Litestar
from litestar.handlers import asgi as litestar_asgi
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.support.pace import scaled_s

import hooklane.asgi
import hooklane.fastapi
import hooklane.flask
from hooklane import Inbox
from hooklane.core.admission.breaker import BreakerPolicy
from hooklane.core.profiles import find_profile
from hooklane.model.clock import wall_now
from hooklane.telemetry.events import Refused
from hooklane.testing import Webhooks
from hooklane.testing.build_request import build_request
from hooklane.testing.credentials import credentials

SECRET = "whsec_" + "a secret of an example, long enough"
TRELLO = credentials(find_profile("trello"))
TOO_LARGE = Refused(source="stripe", reason="too_large", status=413)


class Applied(list[str]):
    """Ids of what was applied; *done* when there is one."""

    def __init__(self):
        super().__init__()
        self.done = threading.Event()


@pytest.fixture
def applied():
    return Applied()


@pytest.fixture
def inbox(applied):
    inbox = Inbox("memory://")

    @inbox.source("stripe", secrets=[SECRET]).on("*")
    def paid(event, tx):
        applied.append(event.id)
        event.on_commit(applied.done.set)

    inbox.source("trello", [TRELLO.secret], **TRELLO.options)
    return inbox


def starlette(inbox):
    @asynccontextmanager
    async def lifespan(_):
        async with hooklane.asgi.working(inbox):
            yield

    return Starlette(routes=[Mount("/webhooks", hooklane.asgi.app(inbox))], lifespan=lifespan)


def litestar(inbox):
    @litestar_asgi("/webhooks", is_mount=True, copy_scope=False)
    async def webhooks(scope: Any, receive: Any, send: Any) -> None:
        await hooklane.asgi.app(inbox)(scope, receive, send)

    @asynccontextmanager
    async def lifespan(_):
        async with hooklane.asgi.working(inbox):
            yield

    return Litestar([webhooks], lifespan=[lifespan])


def fastapi(inbox):
    app = FastAPI()
    app.include_router(hooklane.fastapi.router(inbox), prefix="/webhooks")
    return app


def plain(inbox):
    return hooklane.asgi.app(inbox)


def event(number=1):
    return build_request(
        find_profile("stripe"), [SECRET], "invoice.paid", {"object": {}}, id=f"evt_{number}", at=wall_now()
    )


class Asgi:
    """Calls an ASGI application as a server does, lifespan included."""

    def __init__(self, app):
        self._app = app
        self._to: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __aenter__(self):
        self._life = asyncio.create_task(
            self._app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self._to.get, self._from.put)
        )
        await self._to.put({"type": "lifespan.startup"})
        assert (await self._from.get())["type"] == "lifespan.startup.complete"
        return self

    async def __aexit__(self, *_):
        await self._to.put({"type": "lifespan.shutdown"})
        assert (await self._from.get())["type"] == "lifespan.shutdown.complete"
        await self._life

    async def call(self, method, path, body=b"", headers=(), chunks=None):
        parts = [body] if chunks is None else chunks
        sent: list[dict[str, Any]] = []
        incoming = [
            {"type": "http.request", "body": part, "more_body": number < len(parts) - 1}
            for number, part in enumerate(parts)
        ]
        read = []

        async def receive():
            read.append(1)
            return incoming.pop(0) if incoming else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        named = [(b"host", b"app.test"), *((name.lower().encode(), value.encode()) for name, value in headers)]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": named,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        await self._app(scope, receive, send)
        status = sent[0]["status"]
        answer = b"".join(message.get("body", b"") for message in sent[1:])
        return status, answer, len(read)


@pytest.mark.parametrize("framework", [starlette, litestar, fastapi, plain])
async def test_an_event_is_stored_answered_and_applied_once(framework, inbox, applied):
    async with Asgi(framework(inbox)) as app:
        request = event()
        first = await app.call("POST", "/webhooks/stripe", request.body, request.headers)
        assert await asyncio.to_thread(applied.done.wait, 10)
        again = await app.call("POST", "/webhooks/stripe", request.body, request.headers)

        assert (first[0], json.loads(first[1])) == (200, {"status": "ok"})
        assert (again[0], json.loads(again[1])) == (200, {"status": "already_processed"})
    assert applied == ["evt_1"]
    assert not inbox.worker.is_running, "the application's end is the worker's end"


@pytest.mark.parametrize("framework", [starlette, litestar, fastapi, plain])
async def test_a_body_in_pieces_is_whole_and_one_that_is_too_large_is_not_read(framework, inbox, applied):
    told: list[Any] = []
    inbox.emit = told.append
    async with Asgi(framework(inbox)) as app:
        request = event()
        half = len(request.body) // 2
        pieces = [request.body[:half], request.body[half:]]
        in_pieces = await app.call("POST", "/webhooks/stripe", headers=request.headers, chunks=pieces)
        said = await app.call("POST", "/webhooks/stripe", b"x" * 9, [("content-length", "99999999")])
        endless = await app.call("POST", "/webhooks/stripe", chunks=[b"x" * 600_000] * 9)

    assert in_pieces[0] == 200
    assert (said[0], said[2]) == (413, 0)
    assert endless[0] == 413
    assert endless[2] < 9
    assert [each for each in told if isinstance(each, Refused)] == 2 * [TOO_LARGE]


@pytest.mark.parametrize("framework", [starlette, litestar, fastapi, plain])
async def test_greetings_unknown_sources_and_other_methods_are_answered(framework, inbox):
    async with Asgi(framework(inbox)) as app:
        assert (await app.call("HEAD", "/webhooks/trello"))[0] == 200
        assert (await app.call("POST", "/webhooks/nobody"))[0] == 404
        assert (await app.call("PUT", "/webhooks/stripe"))[0] == 405
        assert (await app.call("GET", "/webhooks/stripe"))[0] == 405


async def test_what_is_not_http_is_refused(inbox):
    with pytest.raises(RuntimeError, match="websocket"):
        await hooklane.asgi.app(inbox)({"type": "websocket"}, None, None)


# WSGI


@pytest.fixture
def flask_client(inbox):
    app = Flask(__name__)
    app.register_blueprint(hooklane.flask.blueprint(inbox, worker=False), url_prefix="/webhooks")
    return app.test_client()


def test_flask_answers_greetings_unknown_sources_and_other_methods(flask_client):
    assert flask_client.head("/webhooks/trello").status_code == 200
    assert flask_client.post("/webhooks/nobody").status_code == 404
    assert flask_client.put("/webhooks/stripe").status_code == 405
    assert flask_client.options("/webhooks/stripe").status_code == 405


def test_flask_hands_on_the_url_as_it_was_called(flask_client, inbox):
    """Flask's own `request.url` decodes what Twilio signed encoded."""
    inbox.source("twilio", "auth token", url="https://shop.example/webhooks/twilio")
    query = "to=https%3A%2F%2Fx%2F%7Ey&name=%C3%A9&a=b+c%20d"
    signed = f"https://shop.example/webhooks/twilio?{query}BodyhiMessageSidSM1"
    signature = base64.b64encode(hmac.digest(b"auth token", signed.encode(), "sha1")).decode()
    answer = flask_client.post(
        f"/webhooks/twilio?{query}",
        data=b"MessageSid=SM1&Body=hi",
        headers={"x-twilio-signature": signature, "content-type": "application/x-www-form-urlencoded"},
    )

    assert answer.status_code == 200


def test_a_chunked_body_is_read_whole_and_no_header_of_the_connection_is_set(flask_client, inbox):
    """A WSGI application may not set them: some servers end the request with an error."""
    told: list[Any] = []
    inbox.emit = told.append
    request = event()
    environ = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    chunked = flask_client.post(
        "/webhooks/stripe",
        headers=list(request.headers),
        input_stream=io.BytesIO(request.body),
        environ_overrides=environ,
    )
    large = flask_client.post("/webhooks/stripe", data=b" " * 1_100_000)
    endless = flask_client.post(
        "/webhooks/stripe", input_stream=io.BytesIO(b" " * 1_100_000), environ_overrides=environ
    )

    assert chunked.status_code == 200
    assert (large.status_code, endless.status_code) == (413, 413)
    assert large.headers["hooklane-outcome"] == "rejected"
    assert [each for each in told if isinstance(each, Refused)] == 2 * [TOO_LARGE]
    assert "connection" not in large.headers


def test_inline_what_an_open_breaker_postponed_is_applied_by_the_worker():
    """GitHub never comes back: its event is stored, acknowledged, and must not lie there."""
    inbox = Inbox("memory://", "inline")
    breaker = BreakerPolicy(calls_min=1, open_ms=200, probes=1)
    done = threading.Event()

    @inbox.source("github", ["a secret of the hub"], breaker=breaker).on("*")
    def handler(event, tx):
        if event.type == "push":
            raise RuntimeError("down")
        event.on_commit(done.set)

    app = Flask(__name__)
    app.register_blueprint(hooklane.flask.blueprint(inbox), url_prefix="/webhooks")
    with Webhooks(inbox) as webhooks:

        def post(event):
            request = event.request
            answer = app.test_client().post("/webhooks/github", data=request.body, headers=list(request.headers))
            return answer.status_code, answer.headers["hooklane-outcome"]

        assert post(webhooks.github("push"))[0] == 503
        assert post(webhooks.github("ping")) == (200, "stored")
        assert done.wait(scaled_s(10))
    inbox.close()
