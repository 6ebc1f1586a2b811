"""Where requests may not go: rows S31-S37 and S40 of the attack table, with a canary that counts every connection.

The canary listens on 127.0.0.1 at the very port of the good peer; the guard allows 127.0.0.2 alone.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.pace import scaled_ms, scaled_s
from tests.support.processes import free_port
from tests.units.transport.peers import (
    CANARY,
    HERE,
    OK,
    Peer,
    Script,
    answering,
    closed_port,
    post,
    serving,
    transporting,
)

from hooklane.model.exchange import Answer, Failure, NoAnswer, Result
from hooklane.sender import egress
from hooklane.sender.egress import EgressGuard
from hooklane.sender.resolver import DnsError
from hooklane.sender.transport import Transport, dialer


@pytest.fixture
async def peers() -> AsyncIterator[tuple[Peer, Peer]]:
    """A good peer, and a canary at the same port."""
    port = free_port()
    async with serving(answering(OK), port=port) as peer, serving(answering(OK), host=CANARY, port=port) as canary:
        yield peer, canary
        assert canary.accepted == 0


def failure_of(result: Result) -> tuple[Failure, bool]:
    assert isinstance(result, NoAnswer), result
    return result.failure, result.sent


BLOCKED = {
    "S31-loopback": [CANARY],
    "S33-mixed": [HERE, CANARY],
    "S33-mixed-canary-first": [CANARY, HERE],
    "S34-nat64": ["64:ff9b::a9fe:a9fe"],
    "S34-mapped": ["::ffff:127.0.0.1"],
    "S34-private": ["10.0.0.1"],
    "S34-metadata": ["169.254.169.254"],
    "S34-zone": ["fe80::1%1"],
    "plain-http-to-a-public-address": ["93.184.216.34"],
}


@pytest.mark.parametrize("row", BLOCKED)
async def test_a_name_with_any_forbidden_address_is_blocked_whole(row: str, peers: tuple[Peer, Peer]) -> None:
    peer, _canary = peers
    script = Script(a_test=[BLOCKED[row]])
    async with transporting(resolver=script) as transport:
        result = await post(transport, peer.url(host="a.test"))

    assert failure_of(result) == (Failure.TARGET_NOT_ALLOWED, False)
    assert script.queries == ["a.test"]
    assert peer.accepted == 0
    assert isinstance(result, NoAnswer)
    assert not any(address in result.detail for address in BLOCKED[row])


@pytest.mark.parametrize("row", ["S32"])
async def test_a_name_that_rebinds_is_asked_once_and_its_first_answer_is_what_we_connect_to(
    row: str, peers: tuple[Peer, Peer]
) -> None:
    peer, canary = peers
    script = Script(b_test=[[HERE], [CANARY]])
    async with transporting(resolver=script) as transport:
        first = await post(transport, peer.url(host="b.test"))
        queries_of_the_first = list(script.queries)
        second = await post(transport, peer.url("/other", host="b.test"))

    assert isinstance(first, Answer)
    assert queries_of_the_first == ["b.test"]
    assert failure_of(second) == (Failure.TARGET_NOT_ALLOWED, False)
    assert canary.accepted == 0


UNRESOLVED: dict[str, Sequence[str] | Exception] = {
    "S35-cname-loop": DnsError("too many CNAMEs"),
    "S35-10000-addresses": [f"93.184.{n >> 8}.{n & 255}" for n in range(10_000)],
    "S35-17-addresses": [f"127.0.0.{n}" for n in range(17)],
    "S35-not-an-address": ["v=spf1 -all"],
    "S37-servfail": DnsError("SERVFAIL"),
    "S37-nxdomain": DnsError("NXDOMAIN"),
    "S37-no-answers": [],
}


@pytest.mark.parametrize("row", UNRESOLVED)
async def test_a_name_without_a_usable_answer_is_a_dns_failure(row: str, peers: tuple[Peer, Peer]) -> None:
    peer, _canary = peers
    async with transporting(resolver=Script(e_test=[UNRESOLVED[row]])) as transport:
        result = await post(transport, peer.url(host="e.test"))

    assert failure_of(result) == (Failure.DNS, False)
    assert result.timings.total_ms < scaled_ms(1_000)


class Stuck(Script):
    """Never answers for `stuck.test`."""

    async def lookup(self, host: str) -> Sequence[str]:
        if host == "stuck.test":
            await asyncio.Event().wait()
        return await super().lookup(host)


@pytest.mark.parametrize("row", ["S37-never-answers"])
async def test_a_resolver_that_never_answers_is_a_dns_failure_and_holds_up_nobody_else(
    row: str, peers: tuple[Peer, Peer]
) -> None:
    peer, _canary = peers
    async with transporting(resolver=Stuck(good_test=[[HERE]])) as transport:
        deadline_ms = scaled_ms(2_000)
        stuck = [
            asyncio.ensure_future(post(transport, peer.url(f"/{n}", host="stuck.test"), timeout_ms=deadline_ms))
            for n in range(50)
        ]
        good = await post(transport, peer.url(host="good.test"))
        waiting = [one for one in stuck if not one.done()]
        results = await asyncio.gather(*stuck)

    assert isinstance(good, Answer)
    assert len(waiting) == 50, "it came before the first of them was given up"
    assert {failure_of(result) for result in results} == {(Failure.DNS, False)}


async def test_a_lookup_has_3_seconds_even_when_the_deadline_is_far(
    peers: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, _canary = peers
    assert egress.LOOKUP_LIMIT_S == 3.0
    monkeypatch.setattr(egress, "LOOKUP_LIMIT_S", 0.3)
    async with transporting(resolver=Stuck()) as transport:
        result = await post(transport, peer.url(host="stuck.test"), timeout_ms=20_000)

    assert failure_of(result) == (Failure.DNS, False)
    assert 290 < result.timings.total_ms < scaled_ms(800)


class Clock:
    """Time that a test can skip."""

    def __init__(self) -> None:
        self.skipped_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped_s


@pytest.mark.parametrize("row", ["S36"])
async def test_when_an_answer_turns_private_new_connections_are_blocked_and_old_ones_dropped(
    row: str, peers: tuple[Peer, Peer]
) -> None:
    peer, canary = peers
    clock = Clock()
    script = Script(c_test=[[HERE], [CANARY]])
    transport = Transport(EgressGuard(allow=[f"{HERE}/32"], resolver=script), clock=clock)
    try:
        url = peer.url(host="c.test")
        first = await post(transport, url)
        kept = await post(transport, url)
        queries = list(script.queries)
        clock.skipped_s += 61
        blocked = await post(transport, url)
        still_blocked = await post(transport, url)
    finally:
        await transport.close(0)

    assert isinstance(first, Answer)
    assert isinstance(kept, Answer)
    assert queries == ["c.test"]
    assert failure_of(blocked) == (Failure.TARGET_NOT_ALLOWED, False)
    assert failure_of(still_blocked) == (Failure.TARGET_NOT_ALLOWED, False)
    assert (peer.accepted, canary.accepted) == (1, 0)


async def test_a_kept_connection_does_not_outlive_a_lookup_that_forbids_its_address(peers: tuple[Peer, Peer]) -> None:
    peer, _canary = peers
    script = Script(d_test=[[HERE], [CANARY]])
    url = peer.url(host="d.test")
    async with transporting(resolver=script) as transport:
        first = await post(transport, url)
        # Two at once: one takes the kept connection, the other looks the name up again, is blocked, and with it the
        # first one's connection is not kept any more.
        both = await asyncio.gather(post(transport, url), post(transport, url))
        after = await post(transport, url)

    assert isinstance(first, Answer)
    assert sorted(type(result).__name__ for result in both) == ["Answer", "NoAnswer"]
    assert failure_of(after) == (Failure.TARGET_NOT_ALLOWED, False)
    assert peer.accepted == 1


class Gated(Script):
    """Holds the second query back until the test opens the gate."""

    def __init__(self, **answers: Sequence[Sequence[str] | Exception]) -> None:
        super().__init__(**answers)
        self.asked_twice = asyncio.Event()
        self.gate = asyncio.Event()

    async def lookup(self, host: str) -> Sequence[str]:
        answer = await super().lookup(host)
        if len(self.queries) == 2:
            self.asked_twice.set()
            await self.gate.wait()
        return answer


async def test_a_lookup_that_forbids_an_address_closes_the_connections_that_are_idle_just_then() -> None:
    script = Gated(f_test=[[HERE], [CANARY]])
    async with serving(answering(OK)) as peer, transporting(resolver=script) as transport:
        url = peer.url(host="f.test")
        await post(transport, url)
        kept = asyncio.ensure_future(post(transport, url))
        blocked = asyncio.ensure_future(post(transport, url))
        await asyncio.wait_for(script.asked_twice.wait(), scaled_s(2))
        assert isinstance(await kept, Answer)  # so its connection is idle again
        script.gate.set()
        assert failure_of(await blocked) == (Failure.TARGET_NOT_ALLOWED, False)
        await asyncio.wait_for(peer.all_ended.wait(), scaled_s(2))


@pytest.mark.parametrize("row", ["S40"])
async def test_the_environments_proxies_and_netrc_are_not_used(
    row: str, peers: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    peer, canary = peers
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, canary.url())
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "example.com")
    (tmp_path / ".netrc").write_text(f"machine {HERE} login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    async with transporting() as transport:
        result = await post(transport, peer.url())

    assert isinstance(result, Answer)
    assert b"authorization" not in peer.requests[0].lower()
    assert canary.accepted == 0


async def test_a_url_that_is_not_allowed_any_more_is_blocked_at_the_attempt_without_a_lookup(
    peers: tuple[Peer, Peer],
) -> None:
    _peer, canary = peers
    script = Script()
    async with transporting(resolver=script) as transport:
        results = [
            await post(transport, url)
            for url in (canary.url(), "http://169.254.169.254/", "http://user@a.test/", f"http://127.1:{canary.port}/")
        ]

    assert {failure_of(result) for result in results} == {(Failure.TARGET_NOT_ALLOWED, False)}
    assert script.queries == []


@pytest.mark.parametrize("row", ["S24"])
async def test_an_encoded_line_break_stays_encoded(row: str, peers: tuple[Peer, Peer]) -> None:
    peer, _canary = peers
    async with transporting() as transport:
        await post(transport, peer.url("/%0d%0aX-Injected:1"))

    assert peer.requests[0].startswith(b"POST /%0d%0aX-Injected:1 HTTP/1.1\r\n")
    assert b"\r\nX-Injected" not in peer.requests[0]


@pytest.mark.parametrize(
    "own",
    [
        ("X-A", "a\r\nX-Injected: 1"),
        ("X-A\r\nX-Injected", "1"),
        ("X-A", "a\x00"),
        ("X-A", "é"),
        ("", "a"),
        ("X A", "a"),
        ("Host", "evil.example"),
        ("Content-Length", "0"),
        ("transfer-encoding", "chunked"),
        ("Connection", "close"),
        ("Expect", "100-continue"),
    ],
)
async def test_an_own_header_that_could_break_the_request_is_never_sent(
    own: tuple[str, str], peers: tuple[Peer, Peer]
) -> None:
    peer, _canary = peers
    async with transporting() as transport:
        result = await post(transport, peer.url(), own=(own,))

    assert failure_of(result) == (Failure.TARGET_NOT_ALLOWED, False)
    assert peer.accepted == 0


async def test_localhost_is_never_looked_up_and_reaches_the_loopback_that_listens() -> None:
    script = Script(localhost=[["93.184.216.34"]])
    async with (
        serving(answering(OK), host="::1") as six,
        transporting(allow=["127.0.0.0/8", "::1/128"], resolver=script) as transport,
    ):
        result = await post(transport, six.url(host="localhost"))

    assert isinstance(result, Answer)
    assert script.queries == []
    assert b"Host: localhost:" in six.requests[0]


async def test_localhost_is_that_loopback_alone_which_the_operator_allows() -> None:
    async with serving(answering(OK), host="::1") as six, transporting(allow=["127.0.0.0/8"]) as transport:
        result = await post(transport, six.url(host="localhost"))

    assert failure_of(result) == (Failure.CONNECT, False)
    assert six.accepted == 0


async def test_a_free_port_that_is_connected_to_itself_is_one_where_nobody_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = closed_port()

    class FromThatPort(socket.socket):
        """As if the kernel had chosen, of all free ports, the one that is to be reached."""

        def connect(self, address: Any) -> None:
            if address[1] == port:
                self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self.bind(address)
            super().connect(address)

    monkeypatch.setattr(socket, "socket", FromThatPort)
    async with transporting() as transport:
        result = await post(transport, f"http://{HERE}:{port}/")

    assert failure_of(result) == (Failure.CONNECT, False)


async def test_an_address_that_refuses_leaves_the_turn_to_the_next_one() -> None:
    async with serving(answering(OK)) as peer:
        script = Script(two_test=[["127.0.0.3", HERE]])
        async with transporting(allow=["127.0.0.2/31"], resolver=script) as transport:
            results = [await post(transport, peer.url(f"/{n}", host="two.test")) for n in range(2)]
            nobody = await post(transport, f"http://two.test:{closed_port()}/")

    assert [isinstance(result, Answer) for result in results] == [True, True]
    assert failure_of(nobody) == (Failure.CONNECT, False)


async def test_the_address_that_answered_is_the_first_to_be_tried_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    class Noting(socket.socket):
        def connect(self, address: tuple[str, int]) -> None:
            tried.append(address[0])
            super().connect(address)

    monkeypatch.setattr(dialer, "socket", SimpleNamespace(**vars(socket) | {"socket": Noting}))
    async with serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")) as peer:
        script = Script(two_test=[["127.0.0.3", HERE]])
        async with transporting(allow=["127.0.0.2/31"], resolver=script) as transport:
            for _ in range(3):
                assert isinstance(await post(transport, peer.url(host="two.test")), Answer)

    assert tried == ["127.0.0.3", HERE, HERE, HERE]
    assert script.queries == ["two.test"] * 3, "each new connection asks, whatever is known"


async def test_a_connection_to_itself_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the loopback a socket may get the very port that it is to reach, and would be answered by its own request."""
    port = closed_port()

    class ToItself(socket.socket):
        def setblocking(self, flag: bool) -> None:
            super().setblocking(flag)
            self.bind((HERE, port))

    monkeypatch.setattr(dialer, "socket", SimpleNamespace(**vars(socket) | {"socket": ToItself}))
    async with transporting() as transport:
        result = await post(transport, f"http://{HERE}:{port}/")

    assert failure_of(result) == (Failure.CONNECT, False)
