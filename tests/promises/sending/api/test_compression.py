"""Answers are compressed where that helps and where the client reads it, and never where they tell a secret."""

import gzip
import json
from typing import Any

from tests.promises.sending.api.conftest import Api
from tests.support.receiver import Sink

GZIP = {"accept-encoding": "br;q=1, gzip"}


async def test_a_long_answer_is_compressed_for_who_reads_it(api: Api) -> None:
    plain = await api.call("GET", "/api/openapi.json")
    small = await api.connection.call("GET", "/api/openapi.json", headers=GZIP)
    unread = await api.connection.call("GET", "/api/openapi.json", headers={"accept-encoding": "gzip;q=0"})

    assert small.headers["content-encoding"] == "gzip"
    assert len(small.body) < len(plain.body) / 3
    assert json.loads(gzip.decompress(small.body)) == plain.json
    assert "content-encoding" not in plain.headers | unread.headers
    assert {one.headers["vary"] for one in (plain, small, unread)} == {"accept-encoding"}


async def test_a_short_answer_is_sent_as_it_is(api: Api) -> None:
    assert "content-encoding" not in (await api.connection.call("GET", "/healthz", headers=GZIP)).headers


async def test_an_answer_that_tells_a_secret_is_never_compressed(api: Api, sink: Sink) -> None:
    long: dict[str, Any] = {"url": sink.url(), "name": "x" * 200, "headers": {f"x-{n}": "y" * 200 for n in range(20)}}
    made = await api.connection.call("POST", "/api/v1/endpoints", long, headers=GZIP)
    path = f"/api/v1/endpoints/{made.json['id']}"
    rotated = await api.connection.call("POST", f"{path}/rotate", {}, headers=GZIP)
    revealed = await api.connection.call("POST", f"{path}/reveal", headers=GZIP)
    shown = await api.connection.call("GET", path, headers=GZIP)

    assert len(made.body) > 1_024
    for answer in (made, rotated, revealed):
        assert "secret" in answer.json or "secrets" in answer.json
        assert "content-encoding" not in answer.headers
    assert b"whsec_" not in gzip.decompress(shown.body) if "content-encoding" in shown.headers else shown.body


async def test_the_files_of_the_page_are_compressed(api: Api) -> None:
    for path in ("/", "/api/docs"):
        plain = await api.connection.call("GET", path)
        small = await api.connection.call("GET", path, headers=GZIP)
        if len(plain.body) > 1_024:
            assert gzip.decompress(small.body) == plain.body
            assert small.headers["content-security-policy"] == plain.headers["content-security-policy"]
