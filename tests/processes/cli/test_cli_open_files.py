"""Whoever connects to the server cannot take the files that deliveries and the store need."""

import json
import os
import select
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port, until
from tests.support.receiver import Sink
from tests.support.tree import SOURCE

from hooklane.sender.transport.open_files import open_files_of

LIMIT = 200
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["hooklane", *sys.argv[2:]]
import runpy
runpy.run_module("hooklane", run_name="__main__")
"""


class Limited:
    """A server that may open few files, and a client who was there first."""

    def __init__(self, child: Child, port: int) -> None:
        self.child = child
        self.port = port
        self._first = socket.create_connection(("127.0.0.1", port), 30)
        self._first.settimeout(scaled_s(30))

    def call(self, path: str, body: Any) -> Any:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(data)}\r\n\r\n"
        self._first.sendall(head.encode() + data)
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.rstrip().endswith(b"}"):
            answer += self._first.recv(65_536)
        status, _, rest = answer.partition(b"\r\n")
        assert status.split()[1] in (b"201", b"202"), answer
        return json.loads(rest.partition(b"\r\n\r\n")[2])

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._first.close()


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    port = free_port()
    command = [sys.executable, "-c", LIMITED, str(LIMIT), "serve", "--no-auth", "--port", str(port)]
    command += ["--db", f"sqlite:///{tmp_path}/few.db", "--egress-allow", "127.0.0.0/8"]
    child = Child(command, log=tmp_path / "few.log", env={"PYTHONPATH": SOURCE})
    child.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200, within_s=60)
    one = Limited(child, port)
    yield one
    one.close()
    assert child.stop() == 0


class Crowd:
    """Idle sockets that come back whenever the server ends them."""

    def __init__(self, port: int, size: int) -> None:
        self._port = port
        self._sockets = [self._connect() for _ in range(size)]
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._insist, daemon=True)
        self._thread.start()

    def _connect(self) -> socket.socket:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", self._port))
        return one

    def _insist(self) -> None:
        while not self._leaving.wait(0.05):
            ended, _, _ = select.select(self._sockets, [], [], 0)
            for one in ended:
                self._sockets.remove(one)
                one.close()
                self._sockets.append(self._connect())

    def leave(self) -> None:
        self._leaving.set()
        self._thread.join()
        for one in self._sockets:
            one.close()


@pytest.fixture
def crowd(limited: Limited, request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """Twice as many as the server may open files, unless asked for fewer."""
    made = Crowd(limited.port, getattr(request, "param", 2 * LIMIT))
    yield made
    made.leave()


def test_deliveries_go_on_while_idle_sockets_fill_the_server(limited: Limited, crowd: Crowd):
    with Sink() as sink:
        limited.call("/api/v1/endpoints", {"url": sink.url("/hook")})
        for number in range(40):
            limited.call("/api/v1/events", {"type": "a", "data": number, "key": f"k{number}"})

        assert len(sink.wait_for(40, within_s=60)) == 40
    files = len(list(Path(f"/proc/{limited.child.pid}/fd").iterdir()))
    assert files < LIMIT - 10


@pytest.mark.parametrize("crowd", [120], indirect=True)
def test_a_full_server_waits_without_being_busy_and_lets_others_in_as_idle_ones_go(limited: Limited, crowd: Crowd):
    before = limited.cpu_s()
    url = f"http://127.0.0.1:{limited.port}/healthz"

    def served() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=scaled_s(60)) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    # In the queue behind the others: each turn of the server lets as many in as it has ended.
    assert until(served, what="an answer of the full server", within_s=90)
    assert limited.cpu_s() - before < 5


HALVES = [
    b"GET /healthz HTTP/1.1\r\nhost: 127",
    b"POST /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99\r\n\r\n{",
    b"POST /api/v1/endpoints HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
]


def test_a_full_server_does_not_wait_long_for_requests_that_do_not_arrive(limited: Limited):
    crowd = [socket.create_connection(("127.0.0.1", limited.port), 60) for _ in range(LIMIT)]
    for number, one in enumerate(crowd):
        one.sendall(HALVES[number % len(HALVES)])

    answers = [b""] * len(HALVES)
    for number, one in enumerate(crowd[: len(HALVES)]):
        while chunk := one.recv(65_536):
            answers[number] += chunk
    for one in crowd:
        one.close()

    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive within 5 s" in answer


@pytest.mark.parametrize("limit", [64, 200, 1_024, 4_096, 16_384, 1_000_000])
def test_the_shares_of_all_never_exceed_the_limit(limit: int):
    files = open_files_of(limit)

    assert files.deliveries >= 8
    assert files.clients >= 8
    assert files.deliveries + files.clients + 32 <= limit


@pytest.fixture(autouse=True)
def _enough_files_here(request: pytest.FixtureRequest) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2_048:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2_048), hard))


def test_publishing_and_delivering_go_on_while_clients_of_the_stream_would_fill_the_server(limited: Limited):
    """A stream stays open, so it was never ended to let others in: with a limit of 200 files 49 of them stopped all."""
    watchers = [socket.create_connection(("127.0.0.1", limited.port), 60) for _ in range(2 * LIMIT)]
    for one in watchers:
        one.sendall(b"GET /api/v1/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    try:
        with Sink() as sink:
            limited.call("/api/v1/endpoints", {"url": sink.url("/hook")})
            for number in range(10):
                assert publish_anew(limited.port, number) == 202
            assert len(sink.wait_for(10, within_s=60)) == 10
        heads = [head for one in watchers if (head := one.recv(12, socket.MSG_DONTWAIT) if is_answered(one) else b"")]
        assert set(heads) == {b"HTTP/1.1 200", b"HTTP/1.1 429"}
    finally:
        for one in watchers:
            one.close()


def test_publishing_and_delivering_go_on_while_clients_who_read_no_answer_would_fill_the_server(limited: Limited):
    """Answers that nobody reads kept each connection open for ever, and nobody else was let in."""
    crowd = []
    with Sink() as sink:
        limited.call("/api/v1/endpoints", {"url": sink.url("/hook")})
        for _ in range(open_files_of(LIMIT).clients + 5):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            one.connect(("127.0.0.1", limited.port))
            one.sendall(b"GET /api/openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 50)
            crowd.append(one)
        try:
            for number in range(3):
                assert publish_anew(limited.port, number) == 202
            assert len(sink.wait_for(3, within_s=60)) == 3
        finally:
            for one in crowd:
                one.close()


def publish_anew(port: int, number: int) -> int:
    """On a connection of its own, behind those that came before."""
    data = json.dumps({"type": "a", "data": number, "key": f"k{number}"}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/events", data, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=scaled_s(60)) as answer:
        return int(answer.status)


def is_answered(one: socket.socket) -> bool:
    return bool(select.select([one], [], [], 0)[0])
