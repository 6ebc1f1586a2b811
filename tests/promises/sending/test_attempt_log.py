"""What can be read of an attempt afterwards: the phases and the class of a failure, and no secret."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace
from pathlib import Path

import psycopg
from tests.support.pace import scaled_ms
from tests.support.receiver import Answer, Drop
from tests.support.running_sender import running_sender

from hooklane.model.attempt import Send
from hooklane.model.clock import START
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.event import Event
from hooklane.model.exchange import Answer as Got
from hooklane.model.exchange import Timings
from hooklane.sender.signed_request import SignedRequests

TOKEN, BEARER, QUERY = "canary-header-0815", "canary-bearer-4711", "canary-query-1234"
CANARIES = (TOKEN, BEARER, QUERY)


async def attempts_of(sender, event):
    return await sender.store.attempts("default", event.event_id)


async def test_a_failure_is_kept_in_full_and_a_success_in_one_slim_row(sender, sink):
    sink.follow([Answer(status=500, body=b"x" * 40_000, headers={"hooklane-outcome": "rejected"}), Answer()])
    await sender.endpoint(sink.url("/hooks"))

    event = await sender.publish("order.created", key="order:7")
    await sender.delivered(event.event_id)
    failed, delivered = await attempts_of(sender, event)

    assert (failed.outcome, failed.status, failed.failure, failed.attempt) == ("retry", 500, None, 1)
    detail = failed.detail
    assert set(detail) >= {"timings", "reason", "next_at", "request_head", "response_head", "response_body"}
    assert len(str(detail["response_body"])) == 16 * 1024
    assert detail["receiver_outcome"] == "rejected"
    timings = detail["timings"]
    assert 0 < timings["connect_ms"] <= timings["first_byte_ms"] <= timings["total_ms"]
    assert timings["tls_ms"] is None  # it was plain http
    assert (delivered.outcome, delivered.status, dict(delivered.detail)) == ("delivered", 200, {})


async def test_each_failure_has_its_class(sender, sink, unused_tcp_port):
    timeout_ms = scaled_ms(300)  # within which a busy machine must have answered
    moved = Answer(status=301, headers={"Location": "http://10.0.0.1/"})
    sink.follow([Drop(reset=True), Answer(after_s=3 * timeout_ms / 1000), moved])
    endpoint = await sender.endpoint(sink.url(), timeout_ms=timeout_ms, attempts_max=3)
    nobody = await sender.endpoint(f"http://127.0.0.1:{unused_tcp_port}/", attempts_max=1)
    refused = await sender.endpoint("https://10.0.0.1/", attempts_max=1)

    event = await sender.publish("order.created", key="order:7")
    await sender.until(lambda: len(sender.settled) == 5)
    found = await attempts_of(sender, event)

    by_endpoint = {
        one.id: [row.failure or row.status for row in found if row.endpoint_id == one.id]
        for one in (endpoint, nobody, refused)
    }
    assert by_endpoint == {
        endpoint.id: ["reset", "timeout", 301],
        nobody.id: ["connect"],
        refused.id: ["target_not_allowed"],
    }
    assert "10.0.0.1" not in repr([row.detail.get("error") for row in found])  # G9: the text is a constant


async def test_no_secret_of_an_endpoint_is_in_its_log(store_url, sink, caplog):
    """K6: planted in the query and in headers, and an endpoint that throws the whole request back at us."""
    caplog.set_level(logging.DEBUG)

    def mirror(request):
        lines = "\n".join(f"{name}: {value}" for name, value in request.raw_headers)
        return Answer(status=500, body=f"{request.path}\n{lines}".encode(), headers={"X-Seen": request.path})

    sink.react = mirror
    async with running_sender(store_url) as sender:
        await sender.endpoint(
            sink.url(f"/hooks?token={QUERY}&x=1"),
            headers=(("X-Token", TOKEN), ("Authorization", f"Bearer {BEARER}")),
            attempts_max=2,
        )
        event = await sender.publish("order.created", key="order:7")
        letter = await sender.letter()
        rows = await attempts_of(sender, event)
        signatures = [one.headers["webhook-signature"] for one in sink.requests]
        secret = sender.settled[0].send.endpoint.keys[0].secret
    stored = logged_bytes(store_url)

    assert len(rows) == 2
    assert TOKEN in sink.requests[0].headers["x-token"]
    assert "x-seq: 1" in str(rows[0].detail["response_body"]).lower()  # the rest of it is there
    told = repr((rows, letter)) + caplog.text
    for canary in (*CANARIES, secret, *signatures, *(one.removeprefix("v1,") for one in signatures)):
        assert canary not in told
        assert canary.encode() not in stored


def logged_bytes(url):
    """The attempt log as it is on disk."""
    if url.startswith("sqlite"):
        with sqlite3.connect(Path(url.removeprefix("sqlite:///"))) as conn:
            rows = conn.execute("SELECT detail FROM hooklane_attempt WHERE detail IS NOT NULL").fetchall()
            return b"".join(bytes(row[0]) for row in rows)
    with psycopg.connect(url) as conn:
        return b"".join(bytes(row[0]) for row in conn.execute("SELECT detail FROM hooklane.attempt"))


async def test_a_key_that_cannot_sign_holds_its_endpoint_and_no_other(sender, sink, caplog):
    """Written into the store by hand, or sealed with another master key: nobody's tries are used up by it."""
    broken = await sender.endpoint(sink.url("/broken"), attempts_max=1)
    healthy = await sender.endpoint(sink.url("/healthy"))
    unsigned = await sender.change(broken, broken_keys(broken))
    await sender.until(lambda: broken.id in sender.relay.engine.queues)
    await sender.until(lambda: sender.relay.engine.queues[broken.id].endpoint == unsigned)

    event = await sender.publish("order.created", key="order:7")
    await sender.until(lambda: [one.send.endpoint.id for one in sender.settled] == [healthy.id])
    await sender.until(lambda: "nothing can be sent" in caplog.text)
    await sender.change(unsigned, broken)
    await sender.delivered(event.event_id)

    assert {one.path for one in sink.requests} == {"/broken", "/healthy"}
    assert "not-a-secret" not in caplog.text


def broken_keys(endpoint):
    return replace(endpoint, keys=(SigningKey("whsec_not-a-secret!"),))


def test_hiding_leaves_short_words_alone():
    endpoint = Endpoint(id="ep", url="https://x.example/?a=1", created_at=START, headers=(("X-A", "ab"),))
    send = Send(1, 0, 1, 0, "k", 1, 0, 1, Event("evt_1", "t", "k", b"{}", START), endpoint, START)
    got = Got(500, Timings(1.0), body=b"about a=1 cabs")

    SignedRequests().hide(send, got)

    assert got.body == b"about a=1 cabs"
