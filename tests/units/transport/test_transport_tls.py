"""Every doubt about a certificate is a failure of class `tls`, and nothing is ever sent in plain (R14, F36, F37)."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.pace import scaled_ms, scaled_s
from tests.units.transport.certificates import Authority, self_signed
from tests.units.transport.peers import (
    HERE,
    OK,
    Script,
    answering,
    dripping,
    post,
    serving,
    silent,
    sockets_open,
    transporting,
)

from hooklane.errors import ConfigError
from hooklane.model.exchange import Answer, Failure, NoAnswer
from hooklane.sender.transport.tls import default_context, own_context

AUTHORITY = Authority("the tests' authority")
HOST = "hooks.good.test"


def resolver() -> Script:
    return Script(hooks_good_test=[[HERE]])


async def test_a_good_certificate_of_the_endpoints_own_authority_is_trusted() -> None:
    async with (
        serving(answering(OK), tls=AUTHORITY.server(HOST)) as peer,
        transporting(resolver=resolver()) as transport,
    ):
        url = peer.url(scheme="https", host=HOST)
        first = await post(transport, url, ca_pem=AUTHORITY.pem)
        second = await post(transport, url, ca_pem=AUTHORITY.pem)

    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    timings = first.timings
    assert timings.dns_ms is not None
    assert timings.connect_ms is not None
    assert timings.tls_ms is not None
    assert timings.first_byte_ms is not None
    assert 0 <= timings.dns_ms <= timings.connect_ms <= timings.tls_ms <= timings.first_byte_ms <= timings.total_ms
    assert second.timings.tls_ms is None
    assert peer.accepted == 1
    assert f"Host: {HOST}:{peer.port}".encode() in peer.requests[0]


async def test_when_the_certificate_of_an_endpoint_ends_is_known_from_its_last_handshake() -> None:
    async with transporting(resolver=resolver()) as transport:
        for days in (20, 12):
            async with serving(answering(OK), tls=AUTHORITY.server(HOST, days=days)) as peer:
                await post(transport, peer.url(scheme="https", host=HOST), ca_pem=AUTHORITY.pem)
            (ends_at,) = transport.certificates.values()

            assert days - 1 < (ends_at / 1000 - time.time()) / 86_400 < days + 1
        assert list(transport.certificates) == ["ep_1"]


async def test_the_name_in_the_handshake_is_the_original_host_though_we_connect_to_an_address() -> None:
    names: list[str | None] = []
    context = AUTHORITY.server(HOST)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with serving(answering(OK), tls=context) as peer, transporting(resolver=resolver()) as transport:
        await post(transport, peer.url(scheme="https", host=HOST.upper()), ca_pem=AUTHORITY.pem)

    assert names == [HOST]


async def test_an_address_in_the_url_must_be_in_the_certificate() -> None:
    async with (
        serving(answering(OK), tls=AUTHORITY.server(HERE)) as good,
        serving(answering(OK), tls=AUTHORITY.server(HOST)) as wrong,
        transporting() as transport,
    ):
        accepted = await post(transport, good.url(scheme="https"), ca_pem=AUTHORITY.pem)
        refused = await post(transport, wrong.url(scheme="https"), ca_pem=AUTHORITY.pem)

    assert isinstance(accepted, Answer)
    assert isinstance(refused, NoAnswer)
    assert refused.failure is Failure.TLS


def chain_of(length: int) -> ssl.SSLContext:
    issuer = AUTHORITY
    for number in range(length):
        issuer = Authority(f"link {number}", issuer)
    return issuer.server(HOST)


BAD: dict[str, Callable[[], ssl.SSLContext]] = {
    "R14-self-signed": lambda: self_signed(HOST),
    "R14-expired": lambda: AUTHORITY.server(HOST, days=-1),
    "R14-wrong-host": lambda: AUTHORITY.server("other.good.test"),
    "R14-unknown-authority": lambda: Authority("somebody").server(HOST),
    "R14-tls-1.0": lambda: AUTHORITY.server(HOST, version=ssl.TLSVersion.TLSv1),
    "R14-chain-of-100": lambda: chain_of(101),
    "R14-certificate-of-1-MiB": lambda: AUTHORITY.server(HOST, padding=1 << 20),
}


@pytest.mark.parametrize("row", BAD)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1 is deprecated:DeprecationWarning")
async def test_a_certificate_in_doubt_is_a_tls_failure_and_no_byte_of_the_request_is_sent(row: str) -> None:
    async with serving(answering(OK), tls=BAD[row]()) as peer, transporting(resolver=resolver()) as transport:
        result = await post(
            transport, peer.url(scheme="https", host=HOST), ca_pem=AUTHORITY.pem, timeout_ms=scaled_ms(5_000)
        )

    assert isinstance(result, NoAnswer)
    assert (result.failure, result.sent) == (Failure.TLS, False)
    assert HERE not in result.detail
    assert peer.requests == []


def test_nothing_older_than_tls_1_2_is_spoken_and_every_certificate_is_checked() -> None:
    for context in (default_context(None), own_context(AUTHORITY.pem)):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_the_systems_authorities_do_not_vouch_for_a_test_server() -> None:
    async with (
        serving(answering(OK), tls=AUTHORITY.server(HOST)) as peer,
        transporting(resolver=resolver()) as transport,
    ):
        result = await post(transport, peer.url(scheme="https", host=HOST))

    assert isinstance(result, NoAnswer)
    assert result.failure is Failure.TLS


async def test_a_peer_that_stalls_in_the_handshake_is_a_tls_failure_at_the_deadline_and_leaves_no_socket() -> None:
    async with serving(lambda _: silent) as peer, transporting(resolver=resolver()) as transport:
        open_before = sockets_open()
        deadline_ms = scaled_ms(300)
        started = time.monotonic()
        url = peer.url(scheme="https", host=HOST)
        results = await asyncio.gather(
            *(post(transport, url, timeout_ms=deadline_ms, endpoint_id=f"ep_{n}") for n in range(10))
        )
        took_s = time.monotonic() - started
        await transport.close(0)
        await asyncio.wait_for(peer.all_ended.wait(), scaled_s(5))
        await asyncio.sleep(0)  # the peer's own ends go one turn of the loop later
        open_after = sockets_open()

    assert {(result.failure, result.sent) for result in results if isinstance(result, NoAnswer)} == {
        (Failure.TLS, False)
    }
    assert len(results) == 10
    assert deadline_ms / 1000 <= took_s < deadline_ms / 1000 + scaled_s(1)
    assert open_after <= open_before


async def test_a_peer_that_speaks_plain_http_on_an_https_port_is_a_tls_failure() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await reader.read()

    async with serving(lambda _: talk) as peer, transporting(resolver=resolver()) as transport:
        result = await post(transport, peer.url(scheme="https", host=HOST))

    assert isinstance(result, NoAnswer)
    assert (result.failure, result.sent) == (Failure.TLS, False)


async def test_a_peer_that_hangs_up_in_the_handshake_is_a_tls_failure() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)

    async with serving(lambda _: hang_up) as peer, transporting(resolver=resolver()) as transport:
        result = await post(transport, peer.url(scheme="https", host=HOST))

    assert isinstance(result, NoAnswer)
    assert (result.failure, result.sent) == (Failure.TLS, False)


@pytest.mark.parametrize(
    "pem", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "é"]
)
async def test_an_own_authority_that_is_no_certificate_fails_closed(pem: str) -> None:
    async with (
        serving(answering(OK), tls=AUTHORITY.server(HOST)) as peer,
        transporting(resolver=resolver()) as transport,
    ):
        result = await post(transport, peer.url(scheme="https", host=HOST), ca_pem=pem)

    assert isinstance(result, NoAnswer)
    assert result.failure is Failure.TLS
    assert peer.accepted == 0


async def test_the_operators_ca_file_is_used_and_one_that_is_missing_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    (tmp_path / "empty.pem").write_text("")
    async with (
        serving(answering(OK), tls=AUTHORITY.server(HOST)) as peer,
        transporting(resolver=resolver(), ca_file=str(tmp_path / "ca.pem")) as transport,
    ):
        result = await post(transport, peer.url(scheme="https", host=HOST))
        for wrong in ("missing.pem", "empty.pem"):
            with pytest.raises(ConfigError, match=wrong):
                async with transporting(ca_file=str(tmp_path / wrong)):
                    pass

    assert isinstance(result, Answer)


async def test_a_server_that_ends_without_close_notify_has_answered_all_the_same() -> None:
    def cut(answer: bytes) -> Callable[..., object]:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n{}")
            writer.write(answer)
            await writer.drain()
            writer.transport.abort()

        return lambda _: behave

    async with (
        serving(cut(b"HTTP/1.1 200 OK\r\n\r\nsome bo"), tls=AUTHORITY.server(HOST)) as whole,  # type: ignore[arg-type]
        serving(cut(b"HTTP/1.1 200 OK\r\n"), tls=AUTHORITY.server(HOST)) as part,  # type: ignore[arg-type]
        transporting(resolver=resolver()) as transport,
    ):
        answered = await post(transport, whole.url(scheme="https", host=HOST), ca_pem=AUTHORITY.pem)
        unknown = await post(transport, part.url(scheme="https", host=HOST), ca_pem=AUTHORITY.pem)

    assert isinstance(answered, Answer)
    assert isinstance(unknown, NoAnswer)
    assert unknown.failure in {Failure.RESET, Failure.TLS}
    assert unknown.sent


async def test_a_connection_whose_peer_answers_and_leaves_the_request_unread_is_not_used_again() -> None:
    over = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await over.wait()  # nothing is read any more, so the rest of the request stays with us

    async with (
        serving(lambda _: behave, tls=AUTHORITY.server(HOST)) as peer,
        transporting(resolver=resolver()) as transport,
    ):
        url = peer.url(scheme="https", host=HOST)
        results = [await post(transport, url, body=b"x" * (16 << 20), ca_pem=AUTHORITY.pem) for _ in range(2)]
        over.set()

    assert [isinstance(result, Answer) and result.status for result in results] == [200, 200]
    assert peer.accepted == 2


async def test_a_peer_that_asks_for_our_certificate_is_a_tls_failure() -> None:
    context = AUTHORITY.server(HOST)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=AUTHORITY.pem)
    async with serving(answering(OK), tls=context) as peer, transporting(resolver=resolver()) as transport:
        result = await post(transport, peer.url(scheme="https", host=HOST), ca_pem=AUTHORITY.pem)

    assert isinstance(result, NoAnswer)
    assert result.failure in {Failure.TLS, Failure.RESET}


async def test_two_targets_with_different_authorities_never_share_a_connection() -> None:
    async with (
        serving(answering(OK), tls=AUTHORITY.server(HOST)) as peer,
        transporting(resolver=resolver()) as transport,
    ):
        url = peer.url(scheme="https", host=HOST)
        trusted = await post(transport, url, ca_pem=AUTHORITY.pem)
        other = await post(transport, url, ca_pem=Authority("somebody").pem)

    assert isinstance(trusted, Answer)
    assert isinstance(other, NoAnswer)
    assert other.failure is Failure.TLS


async def test_hostile_answers_over_tls_end_as_they_do_in_plain_and_leave_no_socket() -> None:
    chunk = b"1000\r\n" + b"x" * 4_096 + b"\r\n"
    endless = dripping(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", chunk, 0)
    poison = b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno" + OK
    context = AUTHORITY.server(HOST)
    async with (
        serving(lambda _: silent, tls=context) as never,
        serving(endless, tls=context) as flood,
        serving(answering(poison), tls=context) as stray,
        serving(answering(b"SSH-2.0-OpenSSH\r\n"), tls=context) as bad,
        transporting(resolver=resolver()) as transport,
    ):
        open_before = sockets_open()
        results = await asyncio.gather(
            *(
                post(
                    transport,
                    peer.url(scheme="https", host=HOST),
                    ca_pem=AUTHORITY.pem,
                    timeout_ms=scaled_ms(800 if peer is never else 8_000),
                    endpoint_id=f"ep_{n}",
                )
                for peer in (never, flood, stray, bad)
                for n in range(5)
            )
        )
        for peer in (never, flood, stray, bad):
            await asyncio.wait_for(peer.all_ended.wait(), scaled_s(5))
        await asyncio.sleep(0)
        open_after = sockets_open()

    ends = [result.status if isinstance(result, Answer) else result.failure for result in results]
    assert ends == [Failure.TIMEOUT] * 5 + [500] * 10 + [Failure.BAD_RESPONSE] * 5
    assert open_after <= open_before
