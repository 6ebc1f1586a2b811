"""The programs of the Node examples as processes, a `hooklane serve` to talk to, and how both are asked."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from standardwebhooks import Webhook
from tests.support.node import CONSUMER, CONSUMER_PACKAGES, ROOT, node
from tests.support.pace import scaled_s
from tests.support.processes import Child, start_listening, until
from tests.support.tree import SOURCE

PRODUCER = ROOT / "examples" / "node_producer"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
PATH = "/webhooks/hooklane"
QUICK = {"backoff_ms": 20, "backoff_cap_ms": 200, "attempts_max": 1_000, "secret": SECRET}
"""An endpoint that is tried again soon and for as long as a test takes."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: Any


def call(port: int, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
    """One request over a connection of its own; *body* is JSON unless it is bytes."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=scaled_s(30))
    try:
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        text = response.read()
        return Answer(
            response.status, {k.lower(): v for k, v in response.getheaders()}, json.loads(text) if text else None
        )
    finally:
        connection.close()


class Consumer:
    """examples/node_consumer in a folder of its own, on a port that stays, to be killed and started again."""

    def __init__(self, folder: Path, db: str) -> None:
        self.db = db
        self._log = folder.with_suffix(".log")
        self._folder = folder
        self._port: int | None = None
        self._child: Child | None = None
        shutil.copytree(CONSUMER, folder, ignore=shutil.ignore_patterns("node_modules"))
        assert (CONSUMER_PACKAGES / "node_modules").is_dir(), "the packages are missing: run python -m tests.prepare"
        (folder / "node_modules").symlink_to(CONSUMER_PACKAGES / "node_modules")

    @property
    def port(self) -> int:
        assert self._port is not None
        return self._port

    @property
    def child(self) -> Child:
        assert self._child is not None
        return self._child

    def start(self, secret: str = SECRET, db: str | None = None) -> None:
        def spawn(port: int) -> Child:
            env = {"DATABASE_URL": db or self.db, "WEBHOOK_SECRET": secret, "PORT": str(port)}
            return Child([*node(), "server.mjs"], log=self._log, env=env, cwd=self._folder)

        self._child, self._port = start_listening(
            spawn, lambda child, _: child.wait_for_line("^listening on"), port=self._port
        )

    def kill(self) -> None:
        self.child.kill()
        self.child.close()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            print(f"--- {self._child}\n{self._log.read_text()}")

    def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        return call(self.port, "POST", PATH, body, headers)

    def evaluate(self, expression: str) -> dict[str, Any]:
        """What an *expression* of JavaScript comes to that uses `receive` and a `pool` of this consumer's database."""
        program = f"""
            import pg from "pg";
            import {{ receive }} from "./receive.mjs";
            const pool = new pg.Pool({{ connectionString: process.env.DATABASE_URL }});
            const told = await ({expression}).catch((error) => ({{ error: error.message }}));
            console.log(JSON.stringify(told));
            await pool.end();
        """
        command = [*node(), "--input-type=module", "--eval", program]
        env = {**os.environ, "DATABASE_URL": self.db}
        done = subprocess.run(
            command, cwd=self._folder, env=env, capture_output=True, text=True, check=True, timeout=scaled_s(30)
        )
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def entries(self) -> dict[str, list[tuple[int, int, int]]]:
        """What was applied: of each account (seq, cents, balance), in the order in which it was."""
        found: dict[str, list[tuple[int, int, int]]] = {}
        with psycopg.connect(self.db) as connection:
            for account, *entry in connection.execute("SELECT account, seq, cents, balance FROM entry ORDER BY n"):
                found.setdefault(account, []).append((entry[0], entry[1], entry[2]))
        return found

    def seqs(self, account: str) -> list[int]:
        return [seq for seq, _, _ in self.entries().get(account, [])]


class Sender:
    """A `hooklane serve` on PostgreSQL, on a port that stays."""

    def __init__(self, db: str, log: Path) -> None:
        self._db = db
        self._log = log
        self._port: int | None = None
        self._child: Child | None = None

    @property
    def port(self) -> int:
        assert self._port is not None
        return self._port

    def start(self) -> None:
        def spawn(port: int) -> Child:
            words = ["serve", "--db", self._db, "--port", str(port), "--no-auth", "--no-ui"]
            path = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
            return Child(
                [sys.executable, "-m", "hooklane", *words, "--egress-allow", "127.0.0.0/8"],
                log=self._log,
                env={"PYTHONPATH": path},
                cwd=self._log.parent,
            )

        self._child, self._port = start_listening(
            spawn,
            lambda child, port: child.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200, within_s=60),
            port=self._port,
        )

    def kill(self) -> None:
        assert self._child is not None
        self._child.kill()
        self._child.close()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()

    def endpoint(self, port: int, **fields: Any) -> str:
        """The id of a new endpoint whose deliveries go to *port*; it gets nothing but what names it."""
        wanted = {"url": f"http://127.0.0.1:{port}{PATH}", "types": ["none"], **QUICK, **fields}
        created = call(self.port, "POST", "/api/v1/endpoints", wanted)
        assert created.status == 201, created
        return str(created.body["id"])

    def credit(self, endpoint: str, account: str, cents: int = 1) -> dict[str, Any]:
        body = {
            "type": "account.credited",
            "key": f"account:{account}",
            "data": {"account": account, "cents": cents},
            "endpoints": [endpoint],
        }
        answer = call(self.port, "POST", "/api/v1/events", body)
        assert answer.status == 202, answer
        published: dict[str, Any] = answer.body
        return published

    def get(self, path: str) -> Any:
        answer = call(self.port, "GET", f"/api/v1{path}")
        assert answer.status == 200, answer
        return answer.body

    def post(self, path: str, body: Any = None) -> Any:
        answer = call(self.port, "POST", f"/api/v1{path}", body)
        assert answer.status < 300, answer
        return answer.body

    def wait_delivered(self, endpoint: str, count: int, *, within_s: float = 20) -> None:
        def delivered() -> bool:
            return bool(self.get(f"/endpoints/{endpoint}")["ledger"].get("delivered") == count)

        until(delivered, what=f"{count} deliveries", within_s=within_s)


def publish_file(folder: Path, lines: Iterable[Mapping[str, Any]], port: int, *, name: str = "producer") -> Child:
    """examples/node_producer on a file of *lines*, running."""
    file = folder / f"{name}.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    env = {"HOOKLANE_URL": f"http://127.0.0.1:{port}"}
    return Child([*node(), "publish.mjs", file], log=folder / f"{name}.log", env=env, cwd=PRODUCER)


def credit_line(endpoint: str, account: str, number: int, cents: int = 1) -> dict[str, Any]:
    """A line of the producer's file: the *number*-th event of an account."""
    return {
        "name": f"{endpoint}-{account}-{number}",
        "type": "account.credited",
        "key": f"account:{account}",
        "data": {"account": account, "cents": cents},
        "endpoints": [endpoint],
    }


def signed(
    account: str, seq: int, prev_seq: int | None = None, cents: int | None = 1, pad: str = ""
) -> tuple[bytes, dict[str, str]]:
    """A delivery as our sender makes it, signed by the library of the standard's own authors."""
    event_id = f"evt_{account}_{seq}"
    envelope = {
        "id": event_id,
        "type": "account.credited",
        "timestamp": "2025-06-15T15:06:40.123Z",
        "key": f"account:{account}",
        "seq": seq,
        "prev_seq": seq - 1 if prev_seq is None else prev_seq,
        "data": {"account": account, "cents": cents, "pad": pad},
    }
    return signed_body(event_id, json.dumps(envelope))


def signed_body(event_id: str, body: str) -> tuple[bytes, dict[str, str]]:
    now = datetime.now(UTC)
    headers = {"webhook-id": event_id, "webhook-timestamp": str(int(now.timestamp()))}
    return body.encode(), {**headers, "webhook-signature": Webhook(SECRET).sign(event_id, now, body)}
