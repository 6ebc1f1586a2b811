"""Known ways to read a request wrongly. In each test the naive version, written here, fails; ours does not."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import outcome, own_source, signed, signed_bytes

from hooklane.model.clock import wall_now
from hooklane.model.message import Request
from hooklane.testing.conformance_inbox import together

SECRET = "a-shared-secret-of-the-stack"


def stacked(body: bytes, signature: str | None = "right") -> Request:
    right = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {} if signature is None else {"X-SportsStack-Signature": right if signature == "right" else signature}
    return Request.of("POST", "http://x/webhooks/sportsstack", headers, body)


def naive_verify(body: bytes, signature: Any, secret: Any = SECRET) -> bool:
    return hmac.compare_digest(hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(), signature)


@pytest.mark.parametrize("signature", [None, "ü" * 64, "", "00", "\ud800"])
def test_trap_17_a_missing_or_strange_signature_is_401_and_never_500(world: World, signature: Any) -> None:
    with pytest.raises(TypeError):
        naive_verify(b"{}", None)
    with pytest.raises(TypeError):
        naive_verify(b"{}", "ü")

    inbox = world.inbox()
    inbox.source("sportsstack", [SECRET])
    assert inbox.receive(stacked(b"{}", signature)).status == 401


def test_trap_18_a_body_that_is_no_utf8_is_verified_as_bytes(world: World) -> None:
    body = b'{"name": "\xff"}'
    with pytest.raises(UnicodeDecodeError):
        body.decode("utf-8")

    inbox = world.inbox()
    inbox.source("sportsstack", [SECRET]).on("*")(world.effect)
    reply = inbox.receive(stacked(body))
    assert (reply.status, outcome(reply)) == (200, "rejected")
    assert [row.message.body for row in inbox.rows()] == [body]


@pytest.mark.parametrize("body", [b'{"events": [1]}', b"[]", b'{"event": null}', b"nonsense", b'"text"', b"1"])
def test_trap_19_an_unexpected_shape_is_kept_and_not_answered_500(world: World, body: bytes) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        json.loads(body)["event"]["hash"]

    inbox = world.inbox()
    inbox.source("sportsstack", [SECRET]).on("*")(world.effect)
    assert inbox.receive(stacked(body)).status == 200


def test_trap_19_a_batch_is_split(world: World) -> None:
    batch: Any = {
        "events": [
            {"event": {"hash": f"h{n}", "common_model_id": f"m{n}", "type": "odds"}, "data": {}} for n in (1, 2)
        ],
    }
    with pytest.raises(KeyError):
        batch["event"]["hash"]

    inbox = world.inbox()
    inbox.source("sportsstack", [SECRET], order="none").on("*")(world.effect)
    inbox.receive(stacked(json.dumps(batch).encode()))
    inbox.run_once()
    assert sorted(world.effects()) == ["h1", "h2"]


def test_trap_20_nothing_is_parsed_before_it_is_verified(world: World) -> None:
    deep = b"[" * 100_000
    with pytest.raises(RecursionError):
        json.loads(deep)  # what anybody can send to the naive version

    inbox = world.inbox()
    inbox.source("sportsstack", [SECRET]).on("*")(world.effect)
    assert inbox.receive(stacked(deep, "0" * 64)).status == 401
    assert inbox.rows() == []


def test_trap_32_key_and_seq_in_headers_that_nobody_signed(world: World) -> None:
    request = signed("evt_1", key="order:7", seq=1)
    forged = Request(
        request.method, request.url, (*request.headers, ("X-Key", "order:8"), ("X-Seq", "99")), request.body
    )
    believed = {name.lower(): value for name, value in forged.headers}
    assert (believed["x-key"], believed["x-seq"]) == ("order:8", "99"), "the naive version applies it elsewhere"

    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    inbox.receive(forged)
    (row,) = inbox.rows()
    assert (row.message.key, row.message.seq) == ("order:7", 1)


def test_a_captured_request_is_harmless_now_and_refused_later(world: World) -> None:
    """V13 and V14."""
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    captured = signed()
    inbox.receive(captured)
    inbox.run_once()
    world.clock.pass_ms(10_000)
    assert ((soon := inbox.receive(captured)).status, outcome(soon)) == (200, "duplicate")
    world.clock.pass_ms(350_000)
    assert inbox.receive(captured).status == 401
    assert world.effects() == ["evt_1"]


def test_a_hundred_concurrent_deliveries_of_one_id_have_one_effect(world: World) -> None:
    """V16."""
    inbox = world.inbox("inline", clock=wall_now, inline_wait_ms=20_000)
    own_source(inbox).on("*")(world.effect)
    request = signed_bytes("evt_1", b'{"id": "evt_1", "type": "a", "timestamp": "2026-01-01T00:00:00Z", "data": 1}')
    replies = together(100, lambda _: inbox.receive(request))

    assert world.effects() == ["evt_1"]
    assert {reply.status for reply in replies} <= {200, 503}
    assert [outcome(reply) for reply in replies].count("applied") == 1
