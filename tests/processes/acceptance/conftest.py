"""Real processes: a server, and a receiver that is an application of its own."""

import json
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import Child, free_port, until
from tests.support.tree import SOURCE

from hooklane.core.signing import new_secret

SECRET = new_secret(bytes(range(32)))


class Client:
    """The API of a served hooklane."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(
        self, method: str, path: str, body: Any = None, timeout_s: float = 10, headers: dict[str, str] | None = None
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return json.loads(answer.read() or b"null")

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def publish(self, type_: str, key: str, data: Any = None, **fields: Any) -> Any:
        return self.call("POST", "/api/v1/events", {"type": type_, "key": key, "data": data or {}, **fields})

    def lane(self, key: str) -> Any:
        [lane] = [one for one in self.get(f"/api/v1/lanes?q={key}")["items"] if one["key"] == key]
        return lane


@pytest.fixture
def serve(start_hooklane: Callable[..., Child], tmp_path: Path) -> Callable[..., tuple[Child, Client]]:
    """Starts `hooklane serve` on this test's database, and waits until it is ready."""
    port = free_port()

    def start() -> tuple[Child, Client]:
        url = f"http://127.0.0.1:{port}"
        db = f"sqlite:///{tmp_path}/sender.db"
        allow = ("--egress-allow", "127.0.0.0/8")
        child = start_hooklane("serve", "--no-auth", "--port", str(port), "--db", db, *allow, born=subprocess.Popen)
        child.wait_for_http(f"{url}/readyz", status=200)
        return child, Client(url)

    return start


class Shop:
    """The receiver's process, its door and what it has done."""

    def __init__(self, folder: Path, port: int, child: Child) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}/orders"
        self.child = child

    def door(self, *, hang: dict[str, int] | None = None, refuse: list[str] | None = None) -> None:
        rules = self.folder / "rules.json"
        rules.write_text(json.dumps({"hang": hang or {}, "refuse": refuse or []}))
        rules.rename(self.folder / "door.json")

    def arrivals(self, place: str) -> list[dict[str, Any]]:
        log = self.folder / "arrivals.jsonl"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return sorted((line for line in lines if line["place"] == place), key=lambda line: line["at"])

    def arrived(self, place: str, status: int) -> dict[str, Any]:
        """The arrival at *place* that was answered so, once there is one."""

        def found() -> dict[str, Any] | None:
            return next((one for one in self.arrivals(place) if one["status"] == status), None)

        return self.child.wait_until(found, what=f"{place} answered {status}")

    def effects(self, key: str) -> list[tuple[str, int]]:
        """What the application's own table says, in the order in which it was written."""
        with sqlite3.connect(f"file:{self.folder}/shop.db?mode=ro", uri=True) as conn:
            return conn.execute("SELECT type, seq FROM effect WHERE key = ? ORDER BY n", (key,)).fetchall()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    folder = tmp_path / "shop"
    folder.mkdir()
    port = free_port()
    program = Path(__file__).with_name("shop.py")
    with Child(
        [sys.executable, program, str(port), folder, SECRET], log=folder / "log", env={"PYTHONPATH": SOURCE}
    ) as child:
        made = Shop(folder, port, child)
        made.door()
        child.wait_for_http(f"http://127.0.0.1:{port}/nothing", status=404)
        yield made
        print(child.output())


def blocked(client: Client, key: str) -> Any:
    """The lane of *key*, once its head has died."""

    def dead() -> Any:
        lane = client.lane(key)
        return lane if lane["state"] == "blocked" else None

    return until(dead, what=f"{key} to be blocked")
