"""Endpoints that misbehave on purpose: rows R1-R10 and R13 of the attack table, and redirects (S38, S39).

R11 (Retry-After out of bounds) and R12 (410) are decided by the judge: here only what is handed to it.
"""

from __future__ import annotations

import asyncio
import gzip
import time

import pytest
from tests.support.pace import scaled_ms, scaled_s
from tests.units.transport.peers import (
    CANARY,
    OK,
    Behaviour,
    Peer,
    answering,
    closing_after,
    dripping,
    post,
    read_request,
    serving,
    silent,
    transporting,
)

from hooklane.model.exchange import Answer, Failure, NoAnswer, Result


async def closed_by_us(peer: Peer, within_s: float) -> float:
    """How long the peer's connection lived after now."""
    started = time.monotonic()
    async with asyncio.timeout(scaled_s(within_s)):
        await peer.all_ended.wait()
    return time.monotonic() - started


def failure_of(result: Result) -> Failure:
    assert isinstance(result, NoAnswer), result
    return result.failure


@pytest.mark.parametrize("row", ["R1"])
async def test_a_peer_that_never_replies_ends_at_the_deadline_and_frees_its_place(row: str) -> None:
    async with serving(lambda _: silent) as peer, transporting(connections_max=1) as transport:
        started = time.monotonic()
        results = [await post(transport, peer.url(), timeout_ms=300) for _ in range(2)]
        took_s = time.monotonic() - started

    assert [failure_of(result) for result in results] == [Failure.TIMEOUT, Failure.TIMEOUT]
    assert 0.6 <= took_s < scaled_s(1.6)


@pytest.mark.parametrize("row", ["R2"])
async def test_a_body_that_drips_after_200_is_delivered_at_once_and_the_socket_closed_within_2_s(row: str) -> None:
    behave = dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x", 0.1)
    async with serving(behave) as peer, transporting() as transport:
        result = await post(transport, peer.url(), timeout_ms=20_000)
        lived_s = await closed_by_us(peer, 3)

    assert isinstance(result, Answer)
    assert (result.status, result.timings.total_ms < scaled_ms(500)) == (200, True)
    assert 1.5 < lived_s < scaled_s(2.5)


@pytest.mark.parametrize("row", ["R2"])
async def test_an_excerpt_of_a_dripping_error_body_is_taken_inside_the_deadline(row: str) -> None:
    deadline_ms = min(scaled_ms(300), 1_500)  # from 2 s on, the wait for an excerpt has a limit of its own
    behave = dripping(b"HTTP/1.1 500 Oops\r\nContent-Length: 1000\r\n\r\n", b"x", 0.02)
    async with serving(behave) as peer, transporting() as transport:
        result = await post(transport, peer.url(), timeout_ms=deadline_ms)
        await closed_by_us(peer, 1)

    assert isinstance(result, Answer)
    assert result.status == 500
    assert 2 <= len(result.body) <= deadline_ms / 20 + 5  # a byte each 20 ms
    assert deadline_ms <= result.timings.total_ms < deadline_ms + scaled_ms(300)


@pytest.mark.parametrize("row", ["R3"])
async def test_headers_that_drip_end_at_the_deadline(row: str) -> None:
    async with serving(dripping(b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n", 0.02)) as peer, transporting() as transport:
        result = await post(transport, peer.url(), timeout_ms=300)

    assert failure_of(result) is Failure.TIMEOUT
    assert 300 <= result.timings.total_ms < scaled_ms(800)


@pytest.mark.parametrize("row", ["R4-chunked", "R4-gibibyte"])
async def test_an_endless_body_is_delivered_by_its_headers_and_at_most_16_kib_are_kept(row: str) -> None:
    start, drop = {
        "R4-chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"2000\r\n" + b"x" * 0x2000 + b"\r\n"),
        "R4-gibibyte": (b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", b"x" * 65_536),
    }[row]
    async with serving(dripping(start, drop, 0)) as peer, transporting() as transport:
        delivered = await post(transport, peer.url())
        await closed_by_us(peer, 1)
    async with serving(dripping(start.replace(b"200 OK", b"500 No"), drop, 0)) as peer, transporting() as transport:
        failed = await post(transport, peer.url())
        await closed_by_us(peer, 1)

    assert isinstance(delivered, Answer)
    assert isinstance(failed, Answer)
    assert (delivered.status, failed.status, failed.body) == (200, 500, b"x" * 16_384)


@pytest.mark.parametrize("row", ["R5-gzip", "R5-gzip-gzip"])
async def test_a_compressed_bomb_is_never_inflated(row: str) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    coding = b"gzip"
    if row == "R5-gzip-gzip":
        bomb, coding = gzip.compress(bomb), b"gzip, gzip"
    response = b"HTTP/1.1 500 No\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (coding, len(bomb), bomb)
    async with serving(answering(response)) as peer, transporting() as transport:
        result = await post(transport, peer.url())

    assert isinstance(result, Answer)
    assert result.body == bomb[:16_384]
    assert b"Accept-Encoding: identity" in peer.requests[0]


HEAD = b"HTTP/1.1 200 OK\r\n"
EMPTY = b"Content-Length: 0\r\n\r\n"
BAD_RESPONSES = {
    "R6-500-headers": HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(500)) + EMPTY,
    "R6-101-headers": HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(100)) + EMPTY,
    "R6-header-of-200000-bytes": HEAD + b"X-Long: " + b"y" * 200_000 + b"\r\n" + EMPTY,
    "R6-header-that-never-ends": HEAD + b"X-Long: " + b"y" * 70_000,
    "R6-no-colon": HEAD + b"nothing here\r\n" + EMPTY,
    "R6-folded": HEAD + b"X-Folded: a\r\n b\r\n" + EMPTY,
    "R6-space-before-colon": HEAD + b"X-Odd : a\r\n" + EMPTY,
    "R6-nul-in-value": HEAD + b"X-Odd: a\x00b\r\n" + EMPTY,
    "R6-bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n" + b" " * 10,
    "R7-100-for-ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 9 + HEAD + EMPTY,
    "R7-103-for-ever": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 9 + HEAD + EMPTY,
    "R7-interims-of-64-KiB": (b"HTTP/1.1 100 Continue\r\nX: " + b"y" * 16_384 + b"\r\n\r\n") * 4 + HEAD + EMPTY,
    "R7-101-switching": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "R7-interim-with-a-body": b"HTTP/1.1 103 Early\r\nContent-Length: 5\r\n\r\nhello" + HEAD + EMPTY,
    "R8-two-lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "R8-lengths-in-a-list": HEAD + b"Content-Length: 1, 2\r\n\r\nab",
    "R8-length-and-chunked": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "R8-chunked-and-length": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "R8-length-with-sign": HEAD + b"Content-Length: +2\r\n\r\nab",
    "R8-length-that-overflows": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nab",
    "R8-nul-in-status-line": b"HTTP/1.1 200 OK\x00evil\r\n" + EMPTY,
    "R8-http-9.9": b"HTTP/9.9 200 OK\r\n" + EMPTY,
    "R8-http-2": b"HTTP/2 200 OK\r\n" + EMPTY,
    "R8-rtsp": b"RTSP/1.0 200 OK\r\n" + EMPTY,
    "R8-status-099": b"HTTP/1.1 099 Odd\r\n" + EMPTY,
    "R8-status-of-4-digits": b"HTTP/1.1 2000 OK\r\n" + EMPTY,
    "R8-line-end-first": b"\r\n" + HEAD + EMPTY,
    "R8-ssh": b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
    "R8-binary": bytes(range(256)),
}


@pytest.mark.parametrize("row", BAD_RESPONSES)
async def test_a_broken_head_is_a_bad_response_at_once_and_nothing_of_the_connection_is_used_again(row: str) -> None:
    async with serving(answering(BAD_RESPONSES[row], OK)) as peer, transporting() as transport:
        bad = await post(transport, peer.url())
        good = await post(transport, peer.url())

    assert isinstance(bad, NoAnswer)
    assert (bad.failure, bad.sent) == (Failure.BAD_RESPONSE, True)
    assert bad.timings.total_ms < scaled_ms(1_000)
    assert isinstance(good, Answer)
    assert good.status == 200
    assert peer.accepted == 2


@pytest.mark.parametrize("row", BAD_RESPONSES)
async def test_a_broken_head_is_the_same_when_it_comes_byte_by_byte(row: str) -> None:
    response = BAD_RESPONSES[row][:3_000]
    if row.startswith(("R6-500", "R6-header", "R7-interims")):
        response = BAD_RESPONSES[row]

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            step = 1 if len(response) < 500 else 997
            for at in range(0, len(response), step):
                writer.write(response[at : at + step])
                await asyncio.sleep(0)
            await reader.read()

        return behave

    async with serving(of) as peer, transporting() as transport:
        result = await post(transport, peer.url())

    assert failure_of(result) is Failure.BAD_RESPONSE


async def test_eight_interim_responses_are_patience_enough_and_the_final_one_counts() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * 7 + b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    response = interim + b"HTTP/1.1 202 Accepted\r\nhooklane-outcome: stored\r\nContent-Length: 0\r\n\r\n"
    async with serving(answering(response)) as peer, transporting() as transport:
        results = [await post(transport, peer.url()) for _ in range(3)]

    for result in results:
        assert isinstance(result, Answer)
        assert (result.status, result.outcome) == (202, "stored")
        assert result.head.startswith(b"HTTP/1.1 202 ")
    assert peer.accepted == 1


POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
STRAY = {
    "R9-a-second-response": b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno" + POISON,
    "R9-a-second-response-after-chunks": b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + POISON,
    "R9-a-second-response-after-no-body": b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n" + POISON,
    "R9-half-a-response": b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno" + POISON[:20],
    "R9-one-byte": b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nnoH",
    "R9-garbage": b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno" + b"\x00" * 10,
}


@pytest.mark.parametrize("row", STRAY)
async def test_bytes_after_the_response_poison_nothing(row: str) -> None:
    own = b"HTTP/1.1 503 Own\r\nContent-Length: 3\r\n\r\nown"
    async with serving(answering(STRAY[row], own)) as peer, transporting() as transport:
        first = await post(transport, peer.url())
        second = await post(transport, peer.url())

    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert first.status in {500, 503}
    assert (second.status, second.body) == (503, b"own")
    assert peer.accepted == 2


@pytest.mark.parametrize("row", ["R9-seen-before", "R9-late"])
async def test_bytes_that_come_while_nobody_asks_cost_the_connection(row: str) -> None:
    poison_now = asyncio.Event()
    poisoned = asyncio.Event()

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(3):
                peer.requests.append(await read_request(reader))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown")
                if len(peer.requests) == 2:
                    if row == "R9-late":
                        await poison_now.wait()
                    writer.write(POISON)
                    poisoned.set()

        return behave

    async with serving(of) as peer, transporting() as transport:
        for _ in range(2):
            await post(transport, peer.url())
        poison_now.set()
        await poisoned.wait()
        third = await post(transport, peer.url())

    assert isinstance(third, Answer)
    assert third.body == b"own"
    assert peer.accepted == 2


@pytest.mark.parametrize("row", ["R10-complete", "R10-incomplete"])
async def test_a_200_before_the_request_was_read_counts_only_with_complete_headers(row: str) -> None:
    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK if row == "R10-complete" else OK[:20])
            await writer.drain()
            await (reader.read() if row == "R10-complete" else asyncio.sleep(0.05))

        return behave

    async with serving(of) as peer, transporting() as transport:
        results = [await post(transport, peer.url(), body=b"x" * (16 << 20)) for _ in range(2)]

    if row == "R10-complete":
        assert [isinstance(result, Answer) and result.status for result in results] == [200, 200]
    else:
        assert [failure_of(result) for result in results] == [Failure.RESET, Failure.RESET]
    assert peer.accepted == 2  # a connection with an unread request on it is not used again


@pytest.mark.parametrize("hint", ["99999999999", "-1", "nan", "Fri, 31 Dec 9999 23:59:59 GMT", "x" * 1_000])
async def test_a_hint_is_handed_on_as_it_came_but_bounded(hint: str) -> None:
    response = f"HTTP/1.1 429 Slow\r\nRetry-After: {hint}\r\nContent-Length: 0\r\n\r\n".encode()
    async with serving(answering(response)) as peer, transporting() as transport:
        result = await post(transport, peer.url())

    assert isinstance(result, Answer)
    assert result.retry_after == hint[:128]


@pytest.mark.parametrize("row", ["R13"])
async def test_hostile_text_is_kept_as_bytes_and_hints_are_printable(row: str) -> None:
    body = "<script>alert(1)</script>\x1b[31m\u202e".encode() + b"\xff\xfe"
    response = b"HTTP/1.1 500 \x9b31m\r\nhooklane-outcome: \x9b31mred\xe2\x80\xae\r\nContent-Length: %d\r\n\r\n%b"
    async with serving(answering(response % (len(body), body))) as peer, transporting() as transport:
        result = await post(transport, peer.url())

    assert isinstance(result, Answer)
    assert result.body == body
    assert result.outcome is not None
    assert result.outcome.isascii()
    assert result.outcome.isprintable()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308], ids=lambda status: f"S38-{status}")
async def test_a_redirect_is_a_failure_and_is_not_followed(status: int) -> None:
    async with serving(answering(OK), host=CANARY) as canary:
        location = canary.url("/latest/meta-data/").encode()
        response = b"HTTP/1.1 %d Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, location)
        async with serving(answering(response)) as peer, transporting() as transport:
            result = await post(transport, peer.url())

    assert isinstance(result, Answer)
    assert result.status == status
    assert location in result.head
    assert canary.accepted == 0


@pytest.mark.parametrize("row", ["S39"])
async def test_refresh_link_and_alt_svc_are_ignored(row: str) -> None:
    async with serving(answering(OK), host=CANARY) as canary:
        there = canary.url().encode()
        page = b'<meta http-equiv="refresh" content="0; url=%b">' % there
        response = (
            b"HTTP/1.1 200 OK\r\nRefresh: 0; url=%b\r\nLink: <%b>; rel=preload\r\n"
            b'Alt-Svc: h3="127.0.0.1:%d"\r\nContent-Length: %d\r\n\r\n%b'
        ) % (there, there, canary.port, len(page), page)
        async with serving(answering(response)) as peer, transporting() as transport:
            results = [await post(transport, peer.url()) for _ in range(2)]

    assert [isinstance(result, Answer) and result.status for result in results] == [200, 200]
    assert canary.accepted == 0


@pytest.mark.parametrize("length", [b"", b"Content-Length: 0\r\n", b"Content-Length: 5\r\n"])
@pytest.mark.parametrize("status", [200, 204, 304, 500])
async def test_every_way_to_end_a_body_is_understood(status: int, length: bytes) -> None:
    body = b"hello" if b"5" in length and status not in {204, 304} else b""
    response = b"HTTP/1.1 %d Fine\r\n%b\r\n%b" % (status, length, body)
    async with serving(closing_after(response)) as peer, transporting() as transport:
        results = [await post(transport, peer.url()) for _ in range(2)]

    assert [isinstance(result, Answer) and (result.status, result.body) for result in results] == [(status, body)] * 2
