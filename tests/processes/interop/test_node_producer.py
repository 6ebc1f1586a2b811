"""The Node producer: each event once, in the order of its key, whatever becomes of the server's answers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.processes.interop.kit import Sender, credit_line, publish_file
from tests.support.processes import Child, until
from tests.support.proxy import BlackHole, Clear, FaultProxy, LoseReply, Refuse
from tests.support.receiver import Answer, Sink

EVENTS = 12


@pytest.fixture
def endpoint(sender: Sender, sink: Sink) -> str:
    return sender.endpoint(sink.port)


@pytest.fixture
def proxy(sender: Sender) -> Iterator[FaultProxy]:
    with FaultProxy(sender.port) as between:
        yield between


def told(producer: Child) -> dict[str, list[int]]:
    """The seqs that the producer was told, in the order in which it was told them, of each key."""
    seqs: dict[str, list[int]] = {}
    for line in producer.output().splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            seqs.setdefault(event["key"], []).extend(event["seq"])
    return seqs


def published(sender: Sender, endpoint: str) -> dict[str, list[str]]:
    """What the server has, by key: the cents of each event, which say its place in the file."""
    found: dict[str, list[str]] = {}
    for event in reversed(sender.get(f"/events?endpoint={endpoint}&limit=200")["items"]):
        whole = sender.get(f"/events/{event['id']}")
        found.setdefault(event["key"], []).append(whole["data"]["cents"])
    return found


def lines(endpoint: str, keys: int = 2, each: int = EVENTS // 2) -> list[dict[str, Any]]:
    return [credit_line(endpoint, f"p{key}", number, number) for number in range(each) for key in range(keys)]


IN_ORDER = {f"account:p{key}": list(range(EVENTS // 2)) for key in range(2)}
SEQS = {f"account:p{key}": list(range(1, EVENTS // 2 + 1)) for key in range(2)}


@pytest.mark.parametrize("fault", [LoseReply(), Refuse()], ids=lambda fault: type(fault).__name__)
def test_a_publish_without_an_answer_is_repeated_and_counts_once(
    sender: Sender, endpoint: str, proxy: FaultProxy, tmp_path: Path, fault: LoseReply | Refuse
) -> None:
    proxy.fault = fault
    with publish_file(tmp_path, lines(endpoint), proxy.port) as producer:
        if isinstance(fault, LoseReply):
            until(lambda: published(sender, endpoint), what="an event whose answer was lost")
        proxy.fault = Clear()
        status = producer.wait()

    assert status == 0, producer.output()
    assert told(producer) == SEQS
    assert published(sender, endpoint) == IN_ORDER


def test_a_producer_killed_half_way_goes_on_when_it_is_started_again(
    sender: Sender, endpoint: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.fault = LoseReply()
    with publish_file(tmp_path, lines(endpoint), proxy.port) as producer:
        until(lambda: published(sender, endpoint), what="the first events, whose answers never come")
        producer.kill()
    with publish_file(tmp_path, lines(endpoint), sender.port, name="again") as again:
        status = again.wait()

    assert told(producer) == {}
    assert (status, told(again)) == (0, SEQS)
    assert published(sender, endpoint) == IN_ORDER


def test_an_answer_that_does_not_come_holds_up_its_own_key_only(
    sender: Sender, sink: Sink, endpoint: str, tmp_path: Path
) -> None:
    """Straight at a server that answers 503 to one key: the other key is published to its end meanwhile."""
    sink.react = lambda request: (
        Answer(status=503, headers={"Retry-After": "1"})
        if b"account:p0" in request.body
        else Answer(status=202, body=b'{"id": "evt_1", "lanes": [{"seq": 1}]}')
    )
    with publish_file(tmp_path, lines(endpoint), sink.port) as producer:
        until(lambda: told(producer) == {"account:p1": [1] * (EVENTS // 2)}, what="all of the other key")
        tries = [request for request in sink.requests if b"account:p0" in request.body]
        sink.wait_for(len(tries) + 2, where=lambda request: b"account:p0" in request.body)
        os.kill(producer.pid, signal.SIGKILL)

    held = [request for request in sink.requests if b"account:p0" in request.body]
    assert {request.headers["idempotency-key"] for request in held} == {f"{endpoint}-p0-0"}, (
        "none of its key goes before it"
    )
    assert len({request.body for request in held}) == 1, "repeated with the same bytes"
    assert min(b.arrived_at - a.arrived_at for a, b in pairwise(held)) > 0.99, "Retry-After is kept"


def test_a_refused_event_stops_its_key_and_is_named(sender: Sender, endpoint: str, tmp_path: Path) -> None:
    wanted = lines(endpoint)
    wanted[2]["type"] = "not a type"  # the second event of the first key
    with publish_file(tmp_path, wanted, sender.port) as producer:
        status = producer.wait()

    assert status == 1
    assert f"{endpoint}-p0-1: 422 invalid_type" in producer.output()
    assert published(sender, endpoint) == {**IN_ORDER, "account:p0": [0]}


def test_a_server_killed_and_started_again_loses_and_repeats_nothing(
    sender: Sender, endpoint: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.fault = BlackHole()
    with publish_file(tmp_path, lines(endpoint), proxy.port) as producer:
        until(lambda: proxy.connections, what="a request under way")
        sender.kill()
        proxy.fault = Clear()
        sender.start()
        status = producer.wait(within_s=60)

    assert (status, told(producer)) == (0, SEQS), producer.output()
    assert published(sender, endpoint) == IN_ORDER
