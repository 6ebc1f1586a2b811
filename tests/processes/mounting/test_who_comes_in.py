"""The mounted dashboard: what is no yes lets nobody in, and half a body is no body."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import Flask, redirect
from starlette.responses import RedirectResponse
from tests.support.pace import scaled_s
from tests.support.tree import ROOT

import hooklane.dashboard
from hooklane.errors import UsageError
from hooklane.fastapi import dashboard as asgi_dashboard
from hooklane.flask import dashboard


async def nobody(*_: Any) -> bool:
    return False


class Nobody:
    """Async, and nothing says so before it is called."""

    async def __call__(self, *_: Any) -> None:
        return None


def flask_app(folder: Path, **options: Any) -> Flask:
    app = Flask(__name__)
    app.register_blueprint(dashboard(f"sqlite:///{folder}/hooklane.db", **options), url_prefix="/hooklane")
    return app


@pytest.mark.parametrize("options", [{"may": nobody}, {"may": lambda: True, "tenant": nobody}], ids=["may", "tenant"])
def test_flask_refuses_an_async_function_where_nothing_awaits_it(tmp_path: Path, options: dict[str, Any]) -> None:
    """Naive: a coroutine is true, so everybody is an operator."""
    with pytest.raises(UsageError, match="must be a plain function"):
        flask_app(tmp_path, **options)


@pytest.mark.parametrize(
    "options", [{"may": Nobody()}, {"may": lambda: True, "tenant": Nobody()}], ids=["may", "tenant"]
)
def test_flask_lets_nobody_in_by_an_answer_that_nobody_awaited(tmp_path: Path, options: dict[str, Any]) -> None:
    answer = flask_app(tmp_path, **options).test_client().get("/hooklane/api/v1/endpoints")

    assert answer.status_code == 500


TURNED_AWAY: dict[str, Callable[[], Any]] = {
    "redirect": lambda: redirect("/login"),
    "pair": lambda: ("Unauthorized", 401),
}


@pytest.mark.parametrize("answer", TURNED_AWAY)
@pytest.mark.parametrize("asked", ["may", "tenant"])
def test_flask_lets_nobody_in_whom_a_decorator_turned_away(tmp_path: Path, asked: str, answer: str) -> None:
    """Naive: a redirect to the login, which `login_required` gives back, is true."""
    options: dict[str, Any] = {"may": lambda: True} | {asked: TURNED_AWAY[answer]}
    got = flask_app(tmp_path, **options).test_client().get("/hooklane/api/v1/endpoints")

    assert (got.status_code, got.get_json(force=True)["code"]) == (401, "login_required")


@pytest.mark.parametrize("asked", ["may", "tenant"])
async def test_fastapi_lets_nobody_in_whom_a_decorator_turned_away(tmp_path: Path, asked: str) -> None:
    async def away(request: Any) -> Any:
        return RedirectResponse("/login")

    options: dict[str, Any] = {"may": lambda request: True} | {asked: away}
    mounted = asgi_dashboard(f"sqlite:///{tmp_path}/hooklane.db", **options)
    transport = httpx.ASGITransport(mounted)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        got = await client.get("/api/v1/endpoints")

    assert (got.status_code, got.json()["code"]) == (401, "login_required")


@pytest.mark.parametrize("asked", ["may", "tenant"])
async def test_a_live_stream_ends_when_its_person_may_not_come_in_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Naive: who has logged out is told everything for as long as the page is open."""
    monkeypatch.setattr(hooklane.dashboard, "ASK_AGAIN_S", 0.05)
    here, told, ended = ["default"], asyncio.Event(), asyncio.Event()
    options: dict[str, Any] = {"may": lambda request: True} | {asked: lambda request: here[0]}
    mounted = asgi_dashboard(f"sqlite:///{tmp_path}/hooklane.db", **options)

    incoming: list[Any] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if incoming:
            return incoming.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        told.set()
        if message["type"] == "http.response.body" and not message.get("more_body"):
            ended.set()

    headers = [(b"host", b"localhost")]
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/stream",
        "raw_path": b"/api/v1/stream",
        "headers": headers,
    }
    scope |= {"query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1", "asgi": {"version": "3.0"}}
    request = asyncio.ensure_future(mounted(scope, receive, send))
    await asyncio.wait_for(told.wait(), scaled_s(20))
    here[0] = ""
    await asyncio.wait_for(request, scaled_s(20))

    assert ended.is_set()
    await mounted.aclose()


DJANGO = """
import sys
from django.conf import settings
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], DATABASES={})
import django
django.setup()
from django.test import RequestFactory
from hooklane.django.dashboard import dashboard
from hooklane.errors import UsageError

class Nobody:
    async def __call__(self, request):
        return None

async def nobody(request):
    return False

for option in ("may", "tenant"):
    plain = {} if option == "may" else {"may": lambda request: True}
    try:
        dashboard(sys.argv[1], **plain, **{option: nobody})
    except UsageError as error:
        assert "must be a plain function" in str(error)
    else:
        raise AssertionError(f"an async {option} was taken")
    (patterns, _) = dashboard(sys.argv[1], **plain, **{option: Nobody()})
    try:
        answer = patterns[0].callback(RequestFactory().get("/api/v1/endpoints"), rest="api/v1/endpoints")
    except UsageError as error:
        assert "must be a plain function" in str(error)
    else:
        raise AssertionError(f"an async {option} let a stranger in: {answer.status_code}")
    from django.http import HttpResponseRedirect
    away = lambda request: HttpResponseRedirect("/login")
    (patterns, _) = dashboard(sys.argv[1], **plain, **{option: away})
    answer = patterns[0].callback(RequestFactory().get("/api/v1/endpoints"), rest="api/v1/endpoints")
    assert answer.status_code == 401, f"{option}: {answer.status_code}"
print("nobody came in")
"""


def test_django_lets_nobody_in_by_an_answer_that_nobody_awaited(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", DJANGO, f"sqlite:///{tmp_path}/hooklane.db"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
        check=False,
    )

    assert (ran.stdout, ran.returncode) == ("nobody came in\n", 0), ran.stderr


class Breaks(io.BytesIO):
    """A client that leaves, as servers tell of it that raise."""

    def readinto(self, buffer: Any, /) -> int:
        raise OSError("the client left")


@pytest.mark.parametrize("stream", [io.BytesIO, Breaks], ids=["short", "raises"])
def test_a_batch_that_broke_off_at_the_end_of_a_line_is_not_published(
    tmp_path: Path, stream: Callable[[bytes], Any]
) -> None:
    """Naive: the lines that came are a whole batch, of which all or nothing was promised."""
    client = flask_app(tmp_path, may=lambda: True).test_client()
    lines = b"".join(json.dumps({"type": "t", "data": n}).encode() + b"\n" for n in range(4))
    answer = client.post(
        "/hooklane/api/v1/events/batch",
        input_stream=stream(lines[: len(lines) // 2]),
        content_type="application/x-ndjson",
        environ_overrides={"CONTENT_LENGTH": str(len(lines))},
    )

    assert answer.status_code == 400
    assert client.get("/hooklane/api/v1/events").get_json()["items"] == []
