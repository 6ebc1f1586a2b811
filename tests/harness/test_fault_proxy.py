import asyncio
import http.client
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from tests.support.pace import scaled_s
from tests.support.processes import Child
from tests.support.proxy import BlackHole, Clear, Cut, DuplicateRequest, FaultProxy, Latency, LoseReply, Refuse
from tests.support.receiver import Answer, Sink
from tests.support.tree import ROOT


@pytest.fixture
def proxy(sink: Sink) -> Iterator[FaultProxy]:
    sink.react = lambda _: Answer(body=b"x" * 1000)
    with FaultProxy(sink.port) as proxy:
        yield proxy


def get(port: int, timeout_s: float = 10.0) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("POST", "/", b"y" * 1000)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_without_a_fault_everything_passes(proxy: FaultProxy) -> None:
    assert get(proxy.port) == b"x" * 1000
    assert proxy.connections == 1


def test_large_bodies_pass_whole_although_the_server_closes_at_once(proxy: FaultProxy, sink: Sink) -> None:
    body = b"z" * 3_000_000
    sink.follow([Answer(body=body, headers={"connection": "close"})])

    assert body == get(proxy.port)


def test_latency_slows_both_ways(proxy: FaultProxy) -> None:
    proxy.fault = Latency(0.05)
    started = time.monotonic()
    get(proxy.port)

    assert time.monotonic() - started >= 0.1


def test_a_lost_reply_leaves_the_work_done(proxy: FaultProxy, sink: Sink) -> None:
    proxy.fault = LoseReply()
    with pytest.raises(ConnectionResetError):
        get(proxy.port)

    assert len(sink.requests) == 1


def test_a_black_hole_answers_nothing_and_delivers_late_when_it_heals(proxy: FaultProxy, sink: Sink) -> None:
    proxy.fault = BlackHole()
    with pytest.raises(TimeoutError):
        get(proxy.port, timeout_s=0.1)
    assert sink.requests == []
    proxy.fault = Clear()

    [late] = sink.wait_for(1)
    assert late.body == b"y" * 1000


def test_refused_until_it_listens_again_on_the_same_port(proxy: FaultProxy, sink: Sink) -> None:
    proxy.fault = Refuse()
    with pytest.raises(ConnectionRefusedError):
        get(proxy.port)
    proxy.fault = Clear()

    assert get(proxy.port) == b"x" * 1000


@pytest.mark.parametrize("after", [0, 1, 500])
def test_a_request_that_is_cut_never_arrives_whole(proxy: FaultProxy, sink: Sink, after: int) -> None:
    proxy.fault = Cut(after, "request")
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        get(proxy.port)

    assert sink.requests == []


async def test_a_reply_is_cut_at_the_very_byte(proxy: FaultProxy, sink: Sink) -> None:
    proxy.fault = Cut(20, "reply")
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    got = await reader.readexactly(20)
    with pytest.raises(ConnectionResetError):
        await reader.read(1)
    writer.close()

    assert got == b"HTTP/1.1 200 OK\r\nSer"
    assert len(sink.requests) == 1


def test_a_duplicated_request_is_answered_once_and_arrives_twice(proxy: FaultProxy, sink: Sink) -> None:
    proxy.fault = DuplicateRequest()

    assert get(proxy.port) == b"x" * 1000
    assert len({request.body for request in sink.wait_for(2)}) == 1


def test_a_commit_whose_reply_is_lost_is_committed(postgres_url: str) -> None:
    upstream = int(re.findall(r":(\d+)/", postgres_url)[0])
    with FaultProxy(upstream) as proxy:
        through = postgres_url.replace(f":{upstream}/", f":{proxy.port}/")
        with psycopg.connect(through) as connection:
            connection.execute("CREATE TABLE ledger (id int)")
            proxy.fault = LoseReply()
            with pytest.raises(psycopg.OperationalError):
                connection.commit()

    with psycopg.connect(postgres_url) as direct:
        assert direct.execute("SELECT count(*) FROM ledger").fetchone() == (0,)


def test_open_connections_can_be_reset(proxy: FaultProxy, sink: Sink) -> None:
    sink.follow([Answer(after_s=60)])
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=scaled_s(10)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        sink.wait_for(1)
        proxy.reset_all()

        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_it_leaves_nothing_half_done_when_it_ends_while_connections_come(sink: Sink) -> None:
    """A connection that was just accepted was left behind, and failed whichever test the collector came by in."""
    left = set()
    for clients in range(60):
        with ExitStack() as these:
            with FaultProxy(sink.port) as proxy:
                for _ in range(clients % 6):
                    these.enter_context(socket.create_connection(("127.0.0.1", proxy.port)))
            left |= asyncio.all_tasks(proxy._loop)

    assert left == set()


def test_it_runs_as_a_process_of_its_own(sink: Sink, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.proxy", "127.0.0.1", str(sink.port), "Cut", "10", "reply"]
    with Child(command, log=tmp_path / "log", cwd=ROOT) as child:
        port = int(child.wait_for_line(r"^\d+$")[0])
        with pytest.raises(ConnectionResetError):
            get(port)
