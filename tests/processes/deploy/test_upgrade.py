"""Two versions on one database: the release before, started from its own tree, beside the one under test."""

import asyncio
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import eventually
from tests.support.http_client import Connection
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port
from tests.support.receiver import Request, Sink
from tests.support.tree import ROOT, SOURCE

BEFORE = "0454e68"
"""The release before this one."""
KEYS = 6
ROUNDS = 5
# An application of the release before: it publishes in a transaction of its own to each key that it is told.
APPLICATION = """
import sqlite3, sys
from hooklane import Outbox

outbox = Outbox("sqlite:///" + sys.argv[1])
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
print("ready", flush=True)
for line in sys.stdin:
    conn.execute("BEGIN IMMEDIATE")
    outbox.publish("order.paid", {"by": "old"}, key=line.strip(), tx=conn)
    conn.execute("COMMIT")
    print("published", flush=True)
"""


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The source of the release before; None where there is no history to take it from."""
    if not (ROOT / ".git").exists():
        print(f"no .git: the release before ({BEFORE}) is not here, so two versions cannot run side by side")
        return None
    made = subprocess.run(["git", "-C", ROOT, "archive", BEFORE, "src"], capture_output=True, timeout=scaled_s(60))
    assert made.returncode == 0, (
        f"the history has no {BEFORE}: fetch it (git fetch --unshallow)\n{made.stderr.decode()}"
    )
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@pytest.fixture
def serve(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., tuple[Child, int]]]:
    """Starts `hooklane serve` of a tree on one database, and waits until it is ready."""
    children: list[Child] = []

    def start(tree: str, *, is_ready: bool = True, db: str = "") -> tuple[Child, int]:
        port, db = free_port(), db or request.getfixturevalue("empty_postgres_url")
        child = Child(
            [sys.executable, "-m", "hooklane", "serve", "--no-auth", "--port", str(port), "--db", db],
            log=tmp_path / f"server-{len(children)}.log",
            env={"PYTHONPATH": tree, "HOOKLANE_EGRESS_ALLOW": "127.0.0.0/8"},
            cwd=tmp_path,
        )
        children.append(child)
        if is_ready:
            child.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200, within_s=60)
        return child, port

    yield start
    for child in children:
        child.close()
        print(f"--- {child}\n{child.output()}")


async def publish(port: int, round_: int, by: str) -> None:
    async with Connection(port) as client:
        for key in range(KEYS):
            body = {"type": "order.paid", "key": f"order:{key}", "data": {"round": round_, "by": by}}
            assert (await client.call("POST", "/api/v1/events", body)).status == 202


async def ask(port: int, path: str) -> Any:
    async with Connection(port) as client:
        answer = await client.call("GET", path)
        assert answer.status == 200, answer
        return answer.json


async def _all_delivered(port: int, many: int) -> Any:
    """The ledger, once *many* are delivered."""
    books = await ask(port, "/api/v1/ledger")
    return books if books["items"][0]["counts"].get("delivered") == many else None


def seqs(requests: list[Request]) -> dict[str, list[int]]:
    """The seqs of each key in the order of their first arrival: a copy may be sent again, a later one not before."""
    found: dict[str, list[int]] = defaultdict(list)
    for request in requests:
        key, seq = request.headers["x-key"], int(request.headers["x-seq"])
        if seq not in found[key]:
            found[key].append(seq)
    return found


async def test_servers_of_two_versions_take_and_deliver_side_by_side_in_order(
    old_tree: Path | None, serve: Callable[..., tuple[Child, int]], sink: Sink
):
    if old_tree is None:
        return
    old, old_port = await asyncio.to_thread(serve, str(old_tree))
    async with Connection(old_port) as client:
        assert (await client.call("POST", "/api/v1/endpoints", {"url": sink.url(), "name": "shop"})).status == 201
    await publish(old_port, 0, "old, alone")
    # It brings the schema up to date beside the old one, which goes on with what it has.
    new, new_port = await asyncio.to_thread(serve, SOURCE)
    for round_ in range(1, ROUNDS):
        await publish(old_port, round_, "old")
        await publish(new_port, round_, "new")
    many = KEYS * (1 + 2 * (ROUNDS - 1))
    await sink.arrived(many, within_s=90)

    assert await asyncio.to_thread(old.stop) == 0, old.output()
    await publish(new_port, ROUNDS, "new, alone")

    books = await eventually(lambda: _all_delivered(new_port, many + KEYS), within_s=90)
    assert books["balanced"], books
    expected = list(range(1, 2 + 2 * (ROUNDS - 1) + 1))
    assert seqs(sink.requests) == {f"order:{key}": expected for key in range(KEYS)}
    assert "Traceback" not in old.output() + new.output()
    assert new.stop() == 0


async def test_a_server_of_the_older_version_does_not_start_on_the_newer_schema(
    old_tree: Path | None, serve: Callable[..., tuple[Child, int]]
):
    if old_tree is None:
        return
    await asyncio.to_thread(serve, SOURCE)
    old, _ = await asyncio.to_thread(serve, str(old_tree), is_ready=False)

    assert await asyncio.to_thread(old.wait, within_s=60) == 1
    assert "newer than this hooklane" in old.output()
    assert "the data was not touched" in old.output()


@pytest.fixture
def old_application(old_tree: Path | None, tmp_path: Path) -> Iterator[Callable[[str], None] | None]:
    """Publishes to a key as an application of the release before does, on one SQLite file."""
    if old_tree is None:
        yield None
        return
    command = [sys.executable, "-c", APPLICATION, str(tmp_path / "outbox.db")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(old_tree)}
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        stdin, stdout = child.stdin, child.stdout

        def publish_one(key: str) -> None:
            stdin.write(f"{key}\n")
            stdin.flush()
            assert stdout.readline() == "published\n"

        assert stdout.readline() == "ready\n"
        yield publish_one
        stdin.close()
    assert child.returncode == 0


async def test_an_application_of_the_older_version_publishes_beside_a_newer_server_on_sqlite(
    old_application: Callable[[str], None] | None, serve: Callable[..., tuple[Child, int]], sink: Sink, tmp_path: Path
):
    if old_application is None:
        return
    server, port = await asyncio.to_thread(serve, SOURCE, db=f"sqlite:///{tmp_path / 'outbox.db'}")
    async with Connection(port) as client:
        assert (await client.call("POST", "/api/v1/endpoints", {"url": sink.url(), "name": "shop"})).status == 201
    for round_ in range(ROUNDS):
        await publish(port, round_, "new")
        for key in range(KEYS):
            await asyncio.to_thread(old_application, f"order:{key}")

    books = await eventually(lambda: _all_delivered(port, 2 * KEYS * ROUNDS), within_s=90)
    assert books["balanced"], books
    assert seqs(sink.requests) == {f"order:{key}": list(range(1, 2 * ROUNDS + 1)) for key in range(KEYS)}
    assert server.stop() == 0
