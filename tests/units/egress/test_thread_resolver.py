"""The system's resolver in threads: bounded, shared, and deaf name servers hold up nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.pace import scaled_s

from hooklane.model.exchange import Failure
from hooklane.sender import resolver as resolving
from hooklane.sender.egress import EgressGuard, Refusal
from hooklane.sender.resolver import DnsError, ThreadResolver


class NameServer:
    """Stands in for the system's `getaddrinfo`: names that begin with `deaf` are never answered."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.released = threading.Event()
        self.threads: set[str] = set()

    def getaddrinfo(self, host: str, port: None, **_: Any) -> list[Any]:
        self.asked[host] += 1
        self.threads.add(threading.current_thread().name)
        if host.startswith("deaf"):
            self.released.wait(scaled_s(30))
        if host.startswith("slow"):
            time.sleep(0.05)
        if host.startswith("missing"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))] * 3


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(resolving.socket, "getaddrinfo", server.getaddrinfo)
    monkeypatch.setattr(resolving, "LOOKUP_LIMIT_S", 0.2)
    yield server
    server.released.set()


async def test_the_systems_own_names_are_found() -> None:
    assert set(await ThreadResolver().lookup("localhost")) <= {"127.0.0.1", "::1"}


async def test_a_name_is_answered_without_doubles_and_a_missing_one_is_a_dns_error(names: NameServer) -> None:
    resolver = ThreadResolver()

    assert list(await resolver.lookup("good.test")) == ["93.184.216.34"]
    with pytest.raises(DnsError, match="not known"):
        await resolver.lookup("missing.test")


async def test_lookups_of_one_name_at_the_same_time_are_one_query_and_later_ones_ask_again(names: NameServer) -> None:
    resolver = ThreadResolver()
    await asyncio.gather(*(resolver.lookup("slow.test") for _ in range(20)))
    at_once = names.asked["slow.test"]
    await resolver.lookup("slow.test")

    assert (at_once, names.asked["slow.test"]) == (1, 2)


async def test_many_names_share_few_threads(names: NameServer) -> None:
    resolver = ThreadResolver(threads_max=3)
    before = threading.active_count()
    await asyncio.gather(*(resolver.lookup(f"slow{n}.test") for n in range(12)))

    assert threading.active_count() - before <= 3
    assert names.asked.total() == 12


async def test_deaf_name_servers_cost_their_own_names_a_timeout_and_nobody_else(names: NameServer) -> None:
    resolver = ThreadResolver(threads_max=2, slow_threads_max=1, written_off_max=8)
    found: list[str] = []
    async with asyncio.timeout(scaled_s(5)), asyncio.TaskGroup() as asking:
        for _ in range(3):
            for n in range(6):
                asking.create_task(gives_up(resolver, f"deaf{n}.test"))
            await asyncio.sleep(0)
            while not found:  # at first both threads are stuck, until they are written off
                with contextlib.suppress(DnsError):
                    found += await resolver.lookup("good.test")
            found.clear()
        at_last = await resolver.lookup("good.test")

    assert list(at_last) == ["93.184.216.34"]
    assert max(names.asked[f"deaf{n}.test"] for n in range(6)) == 1  # never two threads for one name


async def gives_up(resolver: ThreadResolver, host: str) -> None:
    with contextlib.suppress(DnsError, TimeoutError):
        async with asyncio.timeout(0.2):
            await resolver.lookup(host)
            pytest.fail("a deaf name was answered")


async def test_a_name_that_was_deaf_before_waits_in_the_slow_lane(names: NameServer) -> None:
    resolver = ThreadResolver(threads_max=4, slow_threads_max=1, written_off_max=8)
    first = [asyncio.ensure_future(resolver.lookup(f"deaf{n}.test")) for n in range(3)]
    await asyncio.sleep(0.3)
    names.released.set()
    await asyncio.gather(*first)
    names.threads.clear()
    await resolver.lookup("deaf1.test")
    await resolver.lookup("good.test")

    assert names.threads == {"hooklane-dns-slow", "hooklane-dns"}


async def test_the_guard_gives_up_on_a_deaf_name_and_calls_it_dns(
    names: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklane.sender.egress.LOOKUP_LIMIT_S", 0.2)
    guard = EgressGuard()

    vetted = await guard.vet(guard.check("https://deaf.test/"))

    assert isinstance(vetted, Refusal)
    assert vetted.failure is Failure.DNS


async def test_an_answer_that_comes_after_everybody_left_is_dropped_in_peace(names: NameServer) -> None:
    resolver = ThreadResolver()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await resolver.lookup("deaf.test")
    names.released.set()

    assert list(await resolver.lookup("deaf.test")) == ["93.184.216.34"]
