"""A network that crawls, resets, repeats and delays, between a real sender and a real receiver."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.support.inline_shop import Shop
from tests.support.pace import scaled_ms
from tests.support.proxy import Clear, DuplicateRequest, FaultProxy, Hold, Latency, ResetEvery, Trickle
from tests.support.receiver import Answer, Sink
from tests.support.running_sender import SECRET, running_sender
from tests.support.sqlite_files import new_outbox_file

TIMEOUT_MS = 300
LATE_MS = 700
"""How much later than its deadline an attempt may end on a busy machine."""


@pytest.fixture
async def sender(tmp_path):
    async with running_sender(new_outbox_file(tmp_path / "hooklane.db"), grace_ms=200) as one:
        yield one


@pytest.fixture
def proxy(sink):
    with FaultProxy(sink.port) as one:
        yield one


@pytest.fixture
def shop(tmp_path: Path):
    shop = Shop(tmp_path, SECRET)
    yield shop
    shop.close()


def places(sink: Sink) -> list[tuple[str, int]]:
    """Key and seq of each event in the order of first arrivals."""
    return list(dict.fromkeys((unquote(one.headers["x-key"]), int(one.headers["x-seq"])) for one in sink.requests))


@pytest.mark.parametrize("fault", [Trickle(1.0), Latency(5.0)], ids=["1 byte a second", "5 s of delay"])
async def test_a_network_that_crawls_costs_the_deadline_and_no_other_endpoint_anything(sender, sink, proxy, fault):
    """F25."""
    proxy.fault = fault
    await sender.endpoint(f"http://127.0.0.1:{proxy.port}/", types=("slow",), timeout_ms=TIMEOUT_MS)
    with Sink() as other:
        await sender.endpoint(other.url(), types=("quick",))
        slow = [await sender.publish("slow", key="order:7") for _ in range(2)]
        quick = []
        while len([one for one in sender.settled if one.send.event.type == "slow"]) < 2:
            event = await sender.publish("quick", key=f"order:{len(quick)}")
            await sender.delivered(event.event_id)
            quick.append(event)
        proxy.fault = Clear()
        await sender.delivered(*(one.event_id for one in slow))

    first, second = [one for one in sender.settled if one.send.event.type == "slow"][:2]
    waits = [one.at - one.send.event.created_at for one in sender.settled if one.send.event.type == "quick"]
    assert [str(one.result.failure) for one in (first, second)] == ["timeout", "timeout"]
    for one in (first, second):
        assert TIMEOUT_MS <= one.result.timings.total_ms < TIMEOUT_MS + scaled_ms(LATE_MS)
    assert waits
    assert sorted(waits)[len(waits) // 2] < scaled_ms(TIMEOUT_MS // 3)
    assert places(sink) == [("order:7", 1), ("order:7", 2)]


async def test_when_every_second_connection_is_reset_all_arrive_and_in_order(sender, sink, proxy):
    """F25."""
    sink.react = lambda _: Answer(headers={"connection": "close"})  # so that each attempt needs a connection
    proxy.fault = ResetEvery(2)
    await sender.endpoint(f"http://127.0.0.1:{proxy.port}/", backoff_ms=10, backoff_cap_ms=20)

    events = [await sender.publish("a", key=f"order:{number % 2}") for number in range(20)]
    await sender.delivered(*(one.event_id for one in events))

    assert proxy.resets >= 10
    for key in ("order:0", "order:1"):
        assert [seq for name, seq in places(sink) if name == key] == list(range(1, 11))


async def test_what_the_network_repeats_takes_effect_once(sender, shop):
    """F26: request bytes that arrive twice at the same time, and whole connections that are replayed afterwards."""
    with FaultProxy(shop.port, fault=DuplicateRequest()) as proxy:
        await sender.endpoint(f"http://127.0.0.1:{proxy.port}/hooklane", backoff_ms=10, backoff_cap_ms=50)
        events = [await sender.publish("order.paid", key=f"order:{number % 3}") for number in range(9)]
        await sender.delivered(*(one.event_id for one in events))
        proxy.replay()

    assert sorted(shop.effects()) == sorted(one.event_id for one in events)
    copies = [row.copies for row in shop.inbox.rows()]
    assert len(copies) == 9
    assert sum(copies) > 9


async def test_a_request_that_is_delayed_holds_its_key_and_no_other(sender, sink, proxy):
    """F27."""
    proxy.fault = Hold("X-Key: A\r\n")
    await sender.endpoint(f"http://127.0.0.1:{proxy.port}/", timeout_ms=20_000)

    delayed = [await sender.publish("a", key="A") for _ in range(3)]
    passing = [await sender.publish("a", key="B") for _ in range(3)]
    await sender.delivered(*(one.event_id for one in passing))
    before = places(sink)
    proxy.fault = Clear()
    await sender.delivered(*(one.event_id for one in delayed))

    assert before == [("B", 1), ("B", 2), ("B", 3)]
    assert places(sink)[3:] == [("A", 1), ("A", 2), ("A", 3)]
    assert len(sink.requests) == 6
