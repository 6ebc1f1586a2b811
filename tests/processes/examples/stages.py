"""What each page takes for granted, so that its commands can be typed: a server with a shop, a key that is stuck, a
receiver, a database. A page that needs nothing of it begins in an empty folder."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.console import Typist
from tests.support.pace import scaled_s
from tests.support.postgres import installation
from tests.support.processes import Child, free_port, until
from tests.support.receiver import Answer, Request, Sink

from hooklane import Inbox
from hooklane.core.profiles import find_profile
from hooklane.model.clock import wall_now
from hooklane.testing import Clock, Webhooks
from hooklane.testing.build_request import build_request

KEY = "a-key-for-the-tests-of-pages"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
SEAL = "c2VhbC1rZXktb2YtdGhlLXRlc3RzLW9mLXBhZ2VzLSE="
RECEIVER = """
from hooklane import Inbox, Reject, asgi

inbox = Inbox("sqlite:///receiver.db"{mode})
shop = inbox.source("hooklane", secrets=["{secret}"])


@shop.on("*")
def apply(event, tx):
    if event.data.get("sku") == "unknown":
        raise Reject("the sku is unknown")


app = asgi.app(inbox)
"""


@dataclass(slots=True)
class World:
    """A folder, a shell, and what was started for a page."""

    typist: Typist
    sink: Sink
    new_database: Callable[[], str]
    started: list[Child] = field(default_factory=list)
    port: int = 0

    @property
    def folder(self) -> Path:
        return self.typist.folder

    def start(self, line: str, ready: str) -> Child:
        log = self.folder.parent / f"started-{len(self.started)}.log"
        words = ["env", "-i", *(f"{name}={value}" for name, value in self.typist.env.items()), "bash", "-c"]
        child = Child([*words, f"exec {line}"], log=log, cwd=self.folder)
        self.started.append(child)
        child.wait_for_line(ready, within_s=60)
        return child

    def call(self, path: str, body: Any = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=scaled_s(30)) as answer:
            return json.load(answer)

    def close(self) -> None:
        self.typist.leave()
        for child in self.started:
            child.close()


# --- what pages take for granted ---


def nothing(world: World) -> None:
    pass


def server(world: World) -> None:
    """A server with a key, on SQLite, that may deliver to this machine; commands find it."""
    world.port = free_port()
    env = world.typist.env
    env |= {"HOOKLANE_API_KEY": KEY, "HOOKLANE_SERVER": f"http://127.0.0.1:{world.port}", "HOOKLANE_SEAL_KEY": SEAL}
    env |= {"HOOKLANE_PUBLIC_URL": "https://hooks.example.com", "HOOKLANE_EGRESS_ALLOW": "127.0.0.0/8"}
    world.start(f"hooklane serve --db sqlite:///.hooklane/hooklane.db --port {world.port}", "serving")
    for printed in ("localhost:8787", "127.0.0.1:8787", "https://hooks.example.com/api"):
        path = "/api" if printed.endswith("/api") else ""
        scheme = "http://" if printed.startswith("https") else ""
        world.typist.stands_for[printed] = f"{scheme}127.0.0.1:{world.port}{path}"


def shop(world: World) -> None:
    """And an endpoint `shop` with a delivered event."""
    server(world)
    settings = {"url": world.sink.url(), "name": "shop", "secret": SECRET, "backoff_ms": 10, "backoff_cap_ms": 10}
    endpoint = world.call("endpoints", settings)
    published = world.call("events", {"type": "order.created", "key": "order:1", "data": {"id": 1}})
    until(lambda: world.call(f"events/{published['id']}")["deliveries"][0]["state"] == "delivered", what="a delivery")
    world.typist.stands_for |= {"evt_01K9Z8…": published["id"], "ep_01m7mxzaty8wke7wn15yf89yme": endpoint["id"]}


def stuck(world: World) -> None:
    """And a key whose seventh event is dead, with three behind it."""
    shop(world)
    tries_left = [35]

    def react(request: Request) -> Answer:
        is_wrong = b'"seq":7,' in request.body and tries_left[0] > 0
        tries_left[0] -= is_wrong
        return Answer(status=422, body=b"unknown sku") if is_wrong else Answer()

    world.sink.react = react
    world.typist.answers = "customer cancelled, OPS-412\norder:1017\n"
    types = ["order.created", *["order.updated"] * 6, "order.paid", "order.shipped", "order.closed"]
    for number, type_ in enumerate(types):
        world.call("events", {"type": type_, "key": "order:1017", "data": {"id": number}})
    letters = until(
        lambda: [one for one in world.call("dead-letters")["items"] if one["waiting"] == 3], what="a key to stop"
    )
    world.typist.stands_for["dlv_01K9Z7…"] = letters[0]["id"]


def receiver(world: World, *, mode: str = "", port: int | None = None) -> int:
    """A receiver in this folder; its port."""
    port = port or free_port()
    (world.folder / "receiver.py").write_text(RECEIVER.format(secret=SECRET, mode=mode))
    world.start(f"python -m uvicorn receiver:app --port {port}", "Uvicorn running")
    return port


def inline_receiver(world: World) -> None:
    port = receiver(world, mode=', mode="inline"')
    world.typist.stands_for |= {"localhost:8000": f"localhost:{port}", "127.0.0.1:8000": f"127.0.0.1:{port}"}
    world.typist.stands_for["whsec_…"] = SECRET
    world.typist.may_end_with["hooklane simulate poison --assert"] = 7  # the page says so


def two_books(world: World) -> None:
    """A sender that has four events on record as delivered, and a receiver that has given the third up."""
    server(world)
    port = receiver(world)
    world.call("endpoints", {"url": f"http://127.0.0.1:{port}/webhooks/hooklane", "secret": SECRET})
    for number in range(1, 5):
        data = {"sku": "unknown" if number == 3 else "known"}
        last = world.call("events", {"type": "order.updated", "key": "order:1017", "data": data})
    until(lambda: world.call(f"events/{last['id']}")["deliveries"][0]["state"] == "delivered", what="deliveries")

    def statuses() -> list[tuple[str]]:
        with sqlite3.connect(world.folder / "receiver.db") as db:
            found = db.execute("SELECT status FROM hooklane_inbox_handling").fetchall()
        db.close()
        return found

    until(lambda: ("dead",) in statuses(), what="a row that was given up")
    world.typist.may_end_with["hooklane reconcile"] = 7


def failing_row(world: World) -> None:
    """An application whose inbox is in the server's database, with an event that has failed three times."""
    server(world)
    inbox = Inbox(f"sqlite:///{world.folder}/.hooklane/hooklane.db", clock=Clock())

    @inbox.source("stripe", secrets=[SECRET]).on("invoice.paid", name="paid")
    def paid(event: Any, tx: Any) -> None:
        raise RuntimeError("the books are closed")

    with Webhooks(inbox) as webhooks:
        webhooks.deliver(webhooks.stripe("invoice.paid", data={"object": {"id": "in_1"}}, id="evt_1P2q"))
        for _ in range(2):
            webhooks.wait(600)
            webhooks.work()
    inbox.close()


def customer(world: World) -> None:
    """A server to which a customer's endpoint with its own secret is added."""
    server(world)
    world.typist.stands_for["whsec_…"] = SECRET


def far_shop(world: World) -> None:
    """A server with an endpoint `shop` that is elsewhere."""
    server(world)
    world.call("endpoints", {"url": "https://shop.example/hooks", "name": "shop", "secret": SECRET})


def database(world: World) -> None:
    """A PostgreSQL where a page names one."""
    url = world.new_database()
    world.typist.env |= {"HOOKLANE_API_KEY": KEY, "URL": url, "NEW_URL": world.new_database()}
    for printed in ("postgresql://db/hooklane", "postgresql://db/app", "postgresql://db1,db2/hooklane"):
        world.typist.stands_for[printed] = url


def database_of_a_sender(world: World) -> None:
    """A sender on SQLite, and one on PostgreSQL whose own programs are found first."""
    database(world)
    shop(world)
    env = world.typist.env
    env["PATH"] = f"{installation().bin}:{env['PATH']}"
    words = ["bash", "-c", f"hooklane migrate up --db {env['URL']}"]
    subprocess.run(words, env=env, check=True, capture_output=True, timeout=scaled_s(60))


def copied(world: World) -> None:
    """A sender on SQLite that is to move."""
    database(world)
    server(world)
    world.started[-1].stop()
    world.typist.stands_for["sqlite:////var/lib/hooklane/hooklane.db"] = "sqlite:///.hooklane/hooklane.db"


def outage(world: World) -> None:
    database(world)
    stuck(world)


def tenant(world: World) -> None:
    """A server that has the tenant acme, and a schema to check with."""
    server(world)
    world.call("tenants", {"id": "acme"})
    (world.folder / "order.paid.json").write_text('{"type": "object", "required": ["id"]}')


def seal(world: World) -> None:
    server(world)
    (world.folder / "etc").mkdir()
    world.typist.stands_for |= {"/etc/hooklane/": f"{world.folder}/etc/", "serve …": "serve --db sqlite:///other.db"}


def elsewhere(world: World) -> None:
    """A server that is started by the page itself."""
    world.typist.env["HOOKLANE_API_KEY"] = KEY
    world.typist.stands_for["serve …"] = "serve --db sqlite:///other.db"


def request_to_verify(world: World) -> None:
    now = wall_now()
    request = build_request(
        find_profile("stripe"), [SECRET], "invoice.paid", {"id": "in_1"}, id="evt_1", at=now, event_time=now
    )
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers)
    (world.folder / "request.http").write_bytes(f"POST /webhooks/stripe HTTP/1.1\r\n{head}\r\n".encode() + request.body)
    world.typist.stands_for["whsec_…"] = SECRET


STAGES: dict[str, Callable[[World], None]] = {
    "how-to/api-keys": server,
    "how-to/backup-and-restore": database_of_a_sender,
    "how-to/behind-a-proxy": nothing,
    "how-to/customer-portal": tenant,
    "how-to/look-into-the-inbox": failing_row,
    "how-to/many-hosts-and-failover": database,
    "how-to/move-from-svix": customer,
    "how-to/move-to-postgresql": copied,
    "how-to/playground": inline_receiver,
    "how-to/receive-in-django": nothing,
    "how-to/receive-in-fastapi": nothing,
    "how-to/receive-in-flask": nothing,
    "how-to/reconcile-both-sides": two_books,
    "how-to/replay-after-an-outage": outage,
    "how-to/resolve-a-blocked-key": stuck,
    "how-to/retries-and-breakers": server,
    "how-to/rotate-a-secret": far_shop,
    "how-to/run-several-workers": database,
    "how-to/seal-secrets": seal,
    "how-to/serve-several-tenants": server,
    "how-to/test-with-pytest": inline_receiver,
    "how-to/trace-with-opentelemetry": elsewhere,
    "how-to/upgrade": server,
    "how-to/verify-a-signature": request_to_verify,
}
"""By page: what is there before its first command."""

APART = {"how-to/resolve-a-blocked-key": 3}
"""A block that is another way to end the story of its page: it is typed on a stage of its own."""
