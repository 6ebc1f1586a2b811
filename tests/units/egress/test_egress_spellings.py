"""10,000 hostile spellings of a URL reach no canary; 1,000 ordinary URLs are accepted."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Sequence

import pytest
from tests.support.pace import scaled_ms
from tests.support.processes import free_port
from tests.units.egress.spellings import INSIDE_4, INSIDE_6, hostile, ordinary
from tests.units.transport.peers import posted

from hooklane.model.exchange import Failure, NoAnswer, Result, Target
from hooklane.sender.egress import EgressGuard, UrlNotAllowed
from hooklane.sender.transport import Transport

SEEDS = [1, 2, 3]
EACH = 4_000


class Hostile:
    """Gives every name an address inside, a different kind each time, alone or beside a public one."""

    def __init__(self) -> None:
        self._turn = 0
        self.asked = 0

    async def lookup(self, host: str) -> Sequence[str]:
        self.asked += 1
        self._turn += 1
        inside = (INSIDE_4 + INSIDE_6 + ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "127.0.0.1%lo", "0x7f.1"])[
            self._turn % 32
        ]
        return [inside] if self._turn % 3 else ["93.184.216.34", inside]


class Canary(asyncio.Protocol):
    """Counts every connection, from whatever address of this machine."""

    hits = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Canary.hits += 1
        transport.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("allow", [(), ("10.77.0.0/16",)], ids=["nothing-allowed", "something-allowed"])
async def test_no_hostile_spelling_reaches_a_canary(seed: int, allow: tuple[str, ...]) -> None:
    Canary.hits = 0
    loop = asyncio.get_running_loop()
    # Every address of this machine, IPv4 and IPv6: 127.0.0.0/8, ::1 and whatever else there is.
    port = free_port()
    canary = await loop.create_server(Canary, "0.0.0.0", port)
    canary_6 = await loop.create_server(Canary, "::", port, family=socket.AF_INET6)
    resolver = Hostile()
    guard = EgressGuard(allow=allow, resolver=resolver)
    transport = Transport(guard)
    urls = list(hostile(seed, EACH, port))
    passed = 0
    for url in urls:
        with contextlib.suppress(UrlNotAllowed):
            destination = guard.check(url)
            passed += 1
            assert destination.literal is None, url
            assert reads_as_name(destination.host), url
    assert resolver.asked == 0

    # All of them, as if each had been stored before the rules were what they are.
    limit_ms = scaled_ms(20_000)  # all wait at the same time
    results = await asyncio.gather(*(posted(transport, Target("ep_1", url, limit_ms)) for url in urls))

    assert {failure(result) for result in results} == {Failure.TARGET_NOT_ALLOWED, Failure.DNS}
    assert resolver.asked == passed > 50  # else the resolver's answers were hardly tried
    canary.close()
    canary_6.close()
    await transport.close(0)
    assert Canary.hits == 0


def reads_as_name(host: str) -> bool:
    """Whether no system would read *host* as an address, as `inet_aton` does with 0x7f.1 and 2130706433."""
    try:
        socket.inet_aton(host)
    except OSError:
        return re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", host) is not None
    return False


def failure(result: Result) -> Failure:
    assert isinstance(result, NoAnswer)
    assert not result.sent
    return result.failure


def test_a_thousand_ordinary_urls_are_accepted() -> None:
    guard = EgressGuard()

    assert len([guard.check(url) for url in ordinary(7, 2_000)]) == 2_000


def test_the_hostile_spellings_are_many_and_different() -> None:
    spellings = {url for seed in SEEDS for url in hostile(seed, EACH, 8071)}

    assert len(spellings) >= 10_000
