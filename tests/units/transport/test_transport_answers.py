"""What a caller of the transport is told, and when."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import time

import pytest
from tests.support.pace import scaled_ms, scaled_s
from tests.units.transport.peers import OK, answering, closed_port, post, serving, silent, transporting

from hooklane.model.exchange import Answer, Failure, NoAnswer


async def test_a_2xx_is_an_answer_and_the_connection_is_kept_for_the_next_request() -> None:
    async with serving(answering(OK)) as peer, transporting() as transport:
        first = await post(transport, peer.url("/hooks?a=1"), body=b'{"n":1}', own=(("X-Own", "yes"),))
        second = await post(transport, peer.url("/hooks?a=1"), body=b'{"n":2}', own=(("X-Own", "yes"),))

    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert (first.status, first.body) == (200, b"ok")
    assert first.head == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    assert first.timings.connect_ms is not None
    assert second.timings.connect_ms is None
    assert peer.accepted == 1
    head, _, body = peer.requests[0].partition(b"\r\n\r\n")
    assert body == b'{"n":1}'
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /hooks?a=1 HTTP/1.1"
    assert {
        b"Host: %b:%d" % (peer.host.encode(), peer.port),
        b"Accept-Encoding: identity",
        b"X-Own: yes",
        b"Content-Length: 7",
        b"Content-Type: application/json",
    } <= set(lines)


async def test_a_peer_that_never_answers_ends_at_the_deadline() -> None:
    async with serving(lambda _: silent) as peer, transporting() as transport:
        deadline_ms = scaled_ms(200)
        started = time.monotonic()
        result = await post(transport, peer.url(), timeout_ms=deadline_ms)
        took_s = time.monotonic() - started

    assert isinstance(result, NoAnswer)
    assert (result.failure, result.sent) == (Failure.TIMEOUT, True)
    assert deadline_ms / 1000 <= took_s < deadline_ms / 1000 + scaled_s(0.5)
    assert transport.in_flight == 0


async def test_a_closed_port_is_a_connect_failure_and_nothing_was_sent() -> None:
    async with transporting() as transport:
        result = await post(transport, f"http://127.0.0.2:{closed_port()}/")

    assert isinstance(result, NoAnswer)
    assert (result.failure, result.sent) == (Failure.CONNECT, False)
    assert result.detail == f"no connection: {os.strerror(errno.ECONNREFUSED)}", "and not the address"


async def test_a_peer_that_does_not_even_answer_the_first_packet_ends_at_the_deadline() -> None:
    """F22. The queue of a listener that accepts nobody is full, and the kernel drops who comes then, without a word."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.create_server(("127.0.0.2", 0), backlog=0))
        port = listener.getsockname()[1]
        guests = [sockets.enter_context(socket.socket()) for _ in range(8)]
        for guest in guests:
            guest.setblocking(False)
            guest.connect_ex(("127.0.0.2", port))
        _, connected, _ = select.select([], guests, [], 0.2)
        assert len(connected) < len(guests), "the queue has room: this system does not drop"

        async with transporting() as transport:
            started = time.monotonic()
            result = await post(transport, f"http://127.0.0.2:{port}/", timeout_ms=300)
            took_s = time.monotonic() - started

    assert isinstance(result, NoAnswer)
    assert (result.failure, result.sent) == (Failure.TIMEOUT, False)
    assert 0.3 <= took_s < scaled_s(0.8)
    assert transport.in_flight == 0


@pytest.mark.parametrize("status", [301, 400, 409, 410, 429, 500, 503])
async def test_what_is_not_2xx_comes_with_its_hints_and_an_excerpt_of_its_body(status: int) -> None:
    response = (
        b"HTTP/1.1 %d Whatever\r\nRetry-After:  120 \r\nWEBHOOK-EXPECTED-SEQ: 8\r\nhooklane-outcome: stale\r\n"
        b"Content-Length: 20000\r\n\r\n" % status
    ) + b"x" * 20_000
    async with serving(answering(response)) as peer, transporting() as transport:
        result = await post(transport, peer.url())

    assert isinstance(result, Answer)
    assert (result.status, result.retry_after, result.expected_seq, result.outcome) == (status, "120", "8", "stale")
    assert result.body == b"x" * 16_384
