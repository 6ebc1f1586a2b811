"""Which connections are kept, how many there are, and how requests and connections end (F21-F24, F28)."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from itertools import pairwise
from typing import Any

import pytest
from tests.support.pace import scaled_ms, scaled_s
from tests.units.transport.peers import (
    OK,
    Behaviour,
    Peer,
    answering,
    closing_after,
    post,
    posted,
    read_request,
    serving,
    silent,
    sockets_open,
    transporting,
)

from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Target
from hooklane.sender.egress import EgressGuard
from hooklane.sender.transport import Transport
from hooklane.sender.transport.dialer import DIALS_PER_TURN
from hooklane.sender.transport.pool import make_room_for_files


def failures(results: list[Result]) -> set[tuple[Failure, bool] | None]:
    return {(result.failure, result.sent) if isinstance(result, NoAnswer) else None for result in results}


async def test_endpoints_never_share_a_connection_even_with_the_same_url() -> None:
    async with serving(answering(OK)) as peer, transporting() as transport:
        for endpoint_id in ("ep_1", "ep_2", "ep_1", "ep_2"):
            await post(transport, peer.url(), endpoint_id=endpoint_id)

    assert peer.accepted == 2


async def test_equal_targets_share_their_connections_whoever_made_them() -> None:
    async with serving(answering(OK)) as peer, transporting() as transport:
        results = [await posted(transport, Target("ep_1", peer.url())) for _ in range(20)]

    assert all(isinstance(result, Answer) for result in results)
    assert peer.accepted == 1


async def test_a_changed_url_or_header_applies_from_the_next_request() -> None:
    async with serving(answering(OK)) as peer, transporting() as transport:
        await post(transport, peer.url("/old"), own=(("X-Own", "old"),))
        await post(transport, peer.url("/new"), own=(("X-Own", "new"),))

    assert [request.split(b" ")[1] for request in peer.requests] == [b"/old", b"/new"]
    assert b"X-Own: new\r\n" in peer.requests[1]
    assert b"old" not in peer.requests[1]


async def test_concurrent_requests_each_get_their_own_answer() -> None:
    def of(peer: Peer) -> Behaviour:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                body = (await read_request(reader)).partition(b"\r\n\r\n")[2]
                await asyncio.sleep(0.001 * (body[0] % 3))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

        return echo

    async with serving(of) as peer, transporting() as transport:
        bodies = [b"%d" % number for number in range(200)]
        target = Target("ep_1", peer.url())
        results = await asyncio.gather(*(posted(transport, target, b"", body) for body in bodies))

    assert [isinstance(result, Answer) and result.body for result in results] == bodies


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000,
        b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok",
    ],
    ids=["close", "http-1.0", "long-body", "keep-alive-of-a-second"],
)
async def test_a_connection_is_not_kept_when_the_peer_or_the_limits_say_so(response: bytes) -> None:
    async with serving(answering(response)) as peer, transporting() as transport:
        results = [await post(transport, peer.url()) for _ in range(3)]

    assert all(isinstance(result, Answer) and len(result.body) <= 16_384 for result in results)
    assert peer.accepted == 3


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX-Trailer: z\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 500 No\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok",
    ],
    ids=["chunked", "chunked-with-trailer", "204", "http-1.0-keep-alive", "500"],
)
async def test_a_clean_answer_keeps_the_connection(response: bytes) -> None:
    async with serving(answering(response)) as peer, transporting() as transport:
        results = [await post(transport, peer.url()) for _ in range(3)]

    assert all(isinstance(result, Answer) for result in results)
    assert peer.accepted == 1


async def test_a_late_end_of_a_200_body_keeps_the_connection_for_the_next_request() -> None:
    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                peer.requests.append(await read_request(reader))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok")
                await told.wait()
                writer.write(b"ay")
                await writer.drain()

        return behave

    told = asyncio.Event()
    async with serving(of) as peer, transporting() as transport:
        first = await post(transport, peer.url())
        told.set()
        await asyncio.sleep(0.05)
        second = await post(transport, peer.url())

    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert peer.accepted == 1


@pytest.mark.parametrize("row", ["F28-seen", "F28-unseen"])
async def test_a_kept_connection_that_the_peer_closed_is_not_used_or_is_a_reset_that_may_have_been_sent(
    row: str,
) -> None:
    async with serving(closing_after(OK)) as peer, transporting() as transport:
        target = Target("ep_1", peer.url())
        first = await posted(transport, target)
        if row == "F28-seen":
            await asyncio.wait_for(peer.all_ended.wait(), scaled_s(2))
        second = await posted(transport, target)

    assert isinstance(first, Answer)
    if row == "F28-seen":
        assert isinstance(second, Answer)
    elif isinstance(second, NoAnswer):  # a race by nature: what counts is that the outcome is not hidden
        assert (second.failure, second.sent) == (Failure.RESET, True)


async def test_a_peer_that_closes_under_a_request_on_a_kept_connection_is_a_reset_and_not_tried_again_in_silence() -> (
    None
):
    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer.requests.append(await read_request(reader))
            writer.write(OK)
            peer.requests.append(await read_request(reader))

        return behave

    async with serving(of) as peer, transporting() as transport:
        await post(transport, peer.url())
        result = await post(transport, peer.url())

    assert isinstance(result, NoAnswer)
    assert (result.failure, result.sent) == (Failure.RESET, True)
    assert "kept connection" in result.detail
    assert (peer.accepted, len(peer.requests)) == (1, 2)


async def test_idle_and_old_connections_are_closed() -> None:
    skipped_s = 0.0
    transport = Transport(EgressGuard(allow=["127.0.0.2/32"]), clock=lambda: time.monotonic() + skipped_s)
    async with serving(answering(OK)) as peer:
        await post(transport, peer.url())
        skipped_s += 14
        await post(transport, peer.url())
        assert peer.accepted == 1  # used in time
        skipped_s += 16
        await asyncio.wait_for(peer.all_ended.wait(), scaled_s(3))  # swept, without any request
        for _ in range(6):
            await post(transport, peer.url())
            skipped_s += 13
        assert peer.accepted == 3  # 60 s are over within the six, however busy it was
        await transport.close(0)


async def test_no_more_connections_than_the_bound_and_whoever_waits_is_served_in_turn() -> None:
    open_now = 0
    open_most = 0

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal open_now, open_most
            open_now += 1
            open_most = max(open_most, open_now)
            try:
                while True:
                    await read_request(reader)
                    await asyncio.sleep(0.01)
                    writer.write(OK)
            finally:
                open_now -= 1

        return behave

    async with serving(of) as peer, transporting(connections_max=3) as transport:
        results = await asyncio.gather(*(post(transport, peer.url(), endpoint_id=f"ep_{n % 7}") for n in range(60)))

    assert all(isinstance(result, Answer) for result in results)
    assert open_most <= 4  # one that was evicted may still be saying goodbye


async def test_a_request_that_found_no_free_connection_was_ours_to_give_up() -> None:
    async with serving(lambda _: silent) as peer, transporting(connections_max=1) as transport:
        first = asyncio.ensure_future(post(transport, peer.url(), timeout_ms=scaled_ms(600)))
        await asyncio.sleep(0)
        second = await post(transport, peer.url(), timeout_ms=100)
        results = [await first, second]

    assert failures(results[:1]) == {(Failure.TIMEOUT, True)}
    assert failures(results[1:]) == {(Failure.ABORTED, False)}


async def test_what_was_given_up_while_it_waited_for_a_connection_is_never_sent() -> None:
    goes_on = asyncio.Event()

    def held(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                peer.requests.append(await read_request(reader))
                await goes_on.wait()
                writer.write(OK)

        return behave

    async with serving(held) as peer, transporting(connections_max=1) as transport:
        target = Target("ep_1", peer.url())
        first = asyncio.ensure_future(posted(transport, target, body=b"first"))
        given_up = asyncio.ensure_future(posted(transport, target, body=b"given up"))
        await asyncio.sleep(0)
        transport._pool.waiting[0].expire()
        goes_on.set()
        await first
        await posted(transport, target, body=b"last")

    assert failures([await given_up]) == {(Failure.ABORTED, False)}
    assert [request.rpartition(b"\r\n\r\n")[2] for request in peer.requests] == [b"first", b"last"]


async def test_what_is_given_up_at_any_step_of_its_dial_is_sent_only_if_it_is_told_so() -> None:
    told: dict[str, list[Result]] = {}
    async with serving(answering(OK)) as peer, transporting() as transport:
        for steps in range(500):  # of the loop, up to where one was sent before it could be given up
            path = f"/{steps}"
            told[path] = []
            transport.send(Target(f"ep_{steps}", peer.url(path)), b"", b"{}", told[path].append)
            for _ in range(steps):
                await asyncio.sleep(0)
            transport._dialer.abort()
            if peer.requests:
                break
        await post(transport, peer.url("/last"))
        await transport.close(5_000)

    unsent = {path for path, (result,) in told.items() if isinstance(result, NoAnswer) and not result.sent}
    seen = {request.split(b" ")[1].decode() for request in peer.requests}
    assert unsent & seen == set()
    assert unsent, "none was given up before it was sent"
    assert seen > {"/last"}, "none was sent"


RESPONSE = b"HTTP/1.1 200 OK\r\nhooklane-outcome: stored\r\nContent-Length: 11\r\n\r\nhello world"
HEAD_LENGTH = RESPONSE.index(b"\r\n\r\n") + 4


@pytest.mark.parametrize("kind", ["fin", "rst", "stall"])
async def test_a_response_that_is_cut_counts_exactly_from_its_complete_headers_on(kind: str) -> None:
    """F24, at every byte."""

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await read_request(reader)
            writer.write(RESPONSE[: int(request.partition(b"\r\n\r\n")[2])])
            await writer.drain()
            if kind == "stall":
                await reader.read()  # until the other side hangs up
            elif kind == "rst":
                await asyncio.sleep(0.05)  # a reset overtakes what was not read yet
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            else:
                writer.close()

        return behave

    async with serving(of) as peer, transporting() as transport:
        cuts = range(len(RESPONSE) + 1)
        results = await asyncio.gather(
            *(
                post(
                    transport,
                    peer.url(),
                    body=b"%d" % cut,
                    endpoint_id=f"ep_{cut}",
                    timeout_ms=scaled_ms(1_500 if kind == "stall" else 4_000),
                )
                for cut in cuts
            )
        )

    for cut, result in zip(cuts, results, strict=True):
        if cut >= HEAD_LENGTH:
            assert isinstance(result, Answer), cut
            assert (result.status, result.outcome) == (200, "stored")
        else:
            expected = Failure.TIMEOUT if kind == "stall" else Failure.RESET
            assert isinstance(result, NoAnswer), cut
            assert (result.failure, result.sent) == (expected, True)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 40])
async def test_an_answer_is_the_same_in_however_many_pieces_it_comes(step: int) -> None:
    response = RESPONSE.replace(b"200 OK", b"400 No")

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await read_request(reader)
                for at in range(0, len(response), step):
                    writer.write(response[at : at + step])
                    await asyncio.sleep(0)

        return behave

    async with serving(of) as peer, transporting() as transport:
        results = [await post(transport, peer.url()) for _ in range(3)]

    for result in results:
        assert isinstance(result, Answer)
        assert (result.outcome, result.body) == ("stored", b"hello world")
        assert result.head == response[:HEAD_LENGTH]
    assert peer.accepted == 1


async def test_a_request_cut_by_the_peer_at_any_byte_is_a_reset() -> None:
    """F23, at a coarse step."""

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(1 + (peer.accepted - 1) * 13)
            writer.transport.abort()

        return behave

    async with serving(of) as peer, transporting() as transport:
        results = [await post(transport, peer.url(), timeout_ms=scaled_ms(1_000)) for _ in range(11)]

    assert failures(results) == {(Failure.RESET, True)}


async def test_close_waits_for_what_is_under_way_and_then_aborts_the_rest_each_told_once() -> None:
    told: list[Result] = []
    before = sockets_open()
    async with serving(answering(OK)) as good, serving(lambda _: silent) as quiet, transporting() as transport:
        for n in range(5):
            transport.send(Target(f"ep_{n}", good.url()), b"", b"{}", told.append)
            transport.send(Target(f"ep_{n}", quiet.url()), b"", b"{}", told.append)
        started = time.monotonic()
        await transport.close(wait_ms := scaled_ms(200))
        took_s = time.monotonic() - started
        transport.send(Target("ep_late", good.url()), b"", b"{}", told.append)
        assert len(told) == 10
        await transport.close(0)

    assert wait_ms / 1000 - 0.01 <= took_s < wait_ms / 1000 + scaled_s(0.5)
    assert len(told) == 11
    assert sum(isinstance(result, Answer) for result in told) == 5
    assert failures([result for result in told if isinstance(result, NoAnswer)]) == {
        (Failure.ABORTED, True),
        (Failure.ABORTED, False),
    }
    assert transport.in_flight == 0
    await asyncio.sleep(0)
    assert sockets_open() <= before + 2


async def test_a_callback_that_raises_is_reported_and_harms_nobody() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))

    def bad(result: Result) -> None:
        raise RuntimeError("the caller's bug")

    async with serving(answering(OK)) as peer, serving(lambda _: silent) as quiet, transporting() as transport:
        transport.send(Target("ep_1", peer.url()), b"", b"{}", bad)
        transport.send(Target("ep_2", quiet.url(), timeout_ms=50), b"", b"{}", bad)
        transport.send(Target("ep_3", "http://10.0.0.1/"), b"", b"{}", bad)
        late = await post(transport, quiet.url(), timeout_ms=scaled_ms(200))
        after = await post(transport, peer.url())

    assert failures([late]) == {(Failure.TIMEOUT, True)}
    assert isinstance(after, Answer)
    assert [str(context["exception"]) for context in reported] == ["the caller's bug"] * 3


async def test_a_request_can_be_sent_from_inside_the_callback_of_another() -> None:
    answers: list[Result] = []
    finished = asyncio.Event()

    async with serving(answering(OK)) as peer, transporting() as transport:
        target = Target("ep_1", peer.url())

        def again(result: Result) -> None:
            answers.append(result)
            if len(answers) < 50:
                transport.send(target, b"", b"{}", again)
            else:
                finished.set()

        transport.send(target, b"", b"{}", again)
        await asyncio.wait_for(finished.wait(), scaled_s(5))

    assert all(isinstance(answer, Answer) for answer in answers)
    assert (peer.accepted, transport.counters.connections_reused, transport.counters.answers) == (1, 49, 50)


async def test_a_request_that_ends_before_its_dial_began_gives_its_place_back() -> None:
    async with serving(answering(OK)) as peer, transporting(connections_max=1) as transport:
        for number in range(3):
            result: list[Result] = []
            transport.send(Target(f"ep_{number}", peer.url()), b"", b"{}", result.append)
            transport._dialer.abort()  # in the same turn of the loop, before the task's first step
            assert failures(result) == {(Failure.ABORTED, False)}
            assert isinstance(await post(transport, peer.url(), endpoint_id=f"ep_{number}"), Answer)
            # The next one finds no free place but this idle connection's.


async def test_many_that_answer_at_once_are_all_used_again_from_inside_their_answers() -> None:
    """A look at all connections shows unread answers too; by the time of the next request they were read."""
    answers = 0
    over = asyncio.Event()
    async with (
        serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as peer,
        transporting() as transport,
    ):
        target = Target("ep_1", peer.url(), 5_000)

        def again(result: Result) -> None:
            nonlocal answers
            assert isinstance(result, Answer)
            answers += 1
            if answers <= 600:
                transport.send(target, b"", b"{}", again)
            elif transport.in_flight == 0:
                over.set()

        for _ in range(30):
            transport.send(target, b"", b"{}", again)
        await over.wait()

    assert peer.accepted == 30


def send_to_many(transport: Transport, peer: Peer, many: int) -> list[Result]:
    results: list[Result] = []
    for number in range(many):
        transport.send(Target(f"ep_{number}", peer.url()), b"", b"{}", results.append)
    return results


async def test_a_crowd_that_needs_new_connections_leaves_every_turn_of_the_loop_to_others_too() -> None:
    async with serving(answering(OK)) as peer, transporting() as transport:
        results = send_to_many(transport, peer, 30)
        begun = [len(transport._dialer._dials)]
        for _ in range(3):
            await asyncio.sleep(0)
            begun.append(len(transport._dialer._dials))
        await transport.close(5_000)

    assert begun[0] == DIALS_PER_TURN
    assert all(later - before <= DIALS_PER_TURN for before, later in pairwise(begun))
    assert all(isinstance(result, Answer) for result in results)
    assert peer.accepted == 30


async def test_a_request_that_ends_while_it_waits_to_be_dialled_gives_its_place_back() -> None:
    async with serving(answering(OK)) as peer, transporting(connections_max=10) as transport:
        results = send_to_many(transport, peer, 10)
        for exchange in list(transport._dialer._waiting):
            exchange.expire()
        # What we were too busy for is nobody's failed attempt.
        assert failures(results) == {(Failure.ABORTED, False)}
        more = send_to_many(transport, peer, 10)
        await transport.close(5_000)

    assert len(more) == len(results) == 10
    assert all(isinstance(result, Answer) for result in more)
    assert transport._pool._taken == 0


async def test_what_waits_to_be_dialled_ends_when_the_transport_closes() -> None:
    async with serving(answering(OK)) as peer, transporting() as transport:
        results = send_to_many(transport, peer, 20)
        await transport.close(0)

    assert len(results) == 20
    assert failures(results) == {(Failure.ABORTED, False)}


def test_making_room_for_files_opens_none_and_respects_the_limit() -> None:
    before = sockets_open()

    make_room_for_files(512)
    make_room_for_files(10**9)

    assert sockets_open() == before
