"""A real sender and a real receiver are compared, and the commands that `reconcile` prints are run as printed."""

import shlex
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.processes.cli.conftest import Ended
from tests.support.processes import Child, free_port, start_listening, until
from tests.support.tree import SOURCE

from hooklane import Inbox
from hooklane.cli.client import calling
from hooklane.cli.inbox import opened
from hooklane.cli.reconcile_report import Commands
from hooklane.cli.reconcile_sides import Delivered, ServerSide, StoreSide
from hooklane.core.reconcile import Act, Mend
from hooklane.core.signing import new_secret

Cli = Callable[..., Ended]
SECRET = new_secret(b"0123456789abcdef0123456789abcdef")
RECEIVER = f"""
import os
from hooklane import Inbox, Reject, asgi
from starlette.applications import Starlette
from starlette.routing import Mount

inbox = Inbox("sqlite:///receiver.db")
sender = inbox.source("hooklane", secrets=["{SECRET}"])

@sender.on("*", name="apply")
def apply(event, tx):
    if os.path.exists("broken"):
        raise Reject("the sku is unknown")

app = Starlette(routes=[Mount("/webhooks", asgi.app(inbox))], lifespan=lambda _: asgi.working(inbox))
"""


class Site:
    """A receiver that can be stopped, put back to an older copy of its database, and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = f"sqlite:///{folder}/receiver.db"
        (folder / "receiver.py").write_text(RECEIVER)
        self._child: Child | None = None
        self._port: int | None = None
        self._logs = 0

    def start(self) -> None:
        self._child, self._port = start_listening(self._spawn, self._ready, port=self._port)

    def _spawn(self, port: int) -> Child:
        self._logs += 1
        words = [sys.executable, "-m", "uvicorn", "receiver:app", "--log-level", "warning", "--port", str(port)]
        log = self.folder / f"receiver-{self._logs}.log"
        return Child(words, log=log, env={"PYTHONPATH": SOURCE}, cwd=self.folder)

    @staticmethod
    def _ready(child: Child, port: int) -> None:
        child.wait_for_http(f"http://127.0.0.1:{port}/webhooks/hooklane")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/webhooks/hooklane"

    @property
    def broken(self) -> Path:
        return self.folder / "broken"

    def stop(self) -> None:
        assert self._child is not None
        self._child.stop()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "receiver"
    folder.mkdir()
    site = Site(folder)
    site.start()
    yield site
    site.close()


@pytest.fixture
def reconcile(cli: Cli, server: str, site: Site) -> Callable[..., Ended]:
    """Compares the served sender with the receiver."""
    assert cli("endpoints", "add", site.url, "--name", "shop", "--secret", SECRET).code == 0

    def call(*more: str, sender: str = server, receiver: str = site.store) -> Ended:
        return cli("reconcile", "--sender", sender, "--receiver", receiver, *more)

    return call


def settled(reconcile: Callable[..., Ended], *more: str) -> Any:
    """What it says when nothing is in between any more."""

    def told() -> Any:
        ended = reconcile("--json", *more)
        return ended.json if ended.code == 0 else None

    return until(told, what="nothing in between")


def publish(cli: Cli, key: str, many: int = 1) -> None:
    for _ in range(many):
        ended = cli("send", "order.paid", "{}", "--key", key)
        assert ended.code == 0, ended


def only_key(ended: Ended) -> Any:
    assert ended.code == 7, ended
    (key,) = ended.json["keys"]
    return key


def test_a_dead_handling_is_named_with_the_command_that_mends_it(
    cli: Cli, reconcile: Callable[..., Ended], site: Site, server: str, tmp_path: Path
):
    publish(cli, "order:1", 2)
    publish(cli, "order:2")
    assert settled(reconcile)["looked_at"] == {"events": 3, "complete": True}
    site.broken.touch()
    publish(cli, "order:1", 2)
    until(lambda: cli("inbox", "ls", "--store", site.store, "--status", "dead", "--json").json["items"], what="a death")
    found = only_key(until(lambda: _with(reconcile("--json"), "dead", "held"), what="one dead, one that waits for it"))

    assert (found["key"], found["last_acked"], found["last_applied"]) == ("order:1", 4, 2)
    assert [(one["seq"], one["status"]) for one in found["between"]] == [(3, "dead"), (4, "held")]
    assert "the sku is unknown" in found["between"][0]["reason"]
    # The same from the sender's database and for a person.
    read = reconcile(sender=f"sqlite:///{tmp_path}/served.db")
    assert read.code == 7
    assert "order:1  acked #4  applied #2  in between 2" in read.out
    assert f"→ {found['mend']}" in read.out

    # And where a server shows the inbox, its API says the same as the store.
    with calling(None, site.store) as caller, opened(site.store) as inbox:
        by_api, by_store = ServerSide(caller, "hooklane"), StoreSide(inbox, "hooklane")
        sent = [Delivered("order:1", one["seq"], one["event"]) for one in found["between"]]
        assert list(by_api.owed(None, 100)) == list(by_store.owed(None, 100)) != []
        assert by_api.statuses(sent) == by_store.statuses(sent) == {sent[0].event_id: "dead", sent[1].event_id: "held"}
        assert by_api.applied("order:1") == by_store.applied("order:1") == 2
        assert by_api.sources() == by_store.sources() == {"hooklane"}

    site.broken.unlink()
    hooklane, *words = shlex.split(found["mend"])
    assert (hooklane, cli(*words).code) == ("hooklane", 0)

    assert settled(reconcile, "--key", "order:1")["keys"][0] | {"why": None} == {
        "key": "order:1",
        "last_acked": 4,
        "last_applied": 4,
        "events": 0,
        "between": [],
        "mend": None,
        "why": None,
    }


def _with(ended: Ended, *statuses: str) -> Ended | None:
    there = [one["status"] for key in ended.json["keys"] for one in key["between"]]
    return ended if there == list(statuses) else None


def test_what_a_restored_receiver_has_lost_is_sent_again_by_the_printed_command(
    cli: Cli, reconcile: Callable[..., Ended], site: Site
):
    publish(cli, "order:1")
    publish(cli, "order:2")
    settled(reconcile)
    site.stop()
    backed_up(site.folder / "receiver.db", site.folder / "backup.db")
    site.start()
    publish(cli, "order:1", 2)
    settled(reconcile)
    site.stop()
    for name in ("receiver.db", "receiver.db-wal", "receiver.db-shm"):
        (site.folder / name).unlink(missing_ok=True)
    backed_up(site.folder / "backup.db", site.folder / "receiver.db")
    site.start()

    found = only_key(reconcile("--json"))

    assert (found["key"], found["last_acked"], found["last_applied"]) == ("order:1", 3, 1)
    assert [(one["seq"], one["where"]) for one in found["between"]] == [(2, "lost"), (3, "lost")]
    hooklane, *words = shlex.split(found["mend"])
    assert (hooklane, words[:2]) == ("hooklane", ["events", "replay"])
    assert cli(*words).code == 0
    settled(reconcile)
    assert applied_seqs(cli, site, "order:1") == [1, 2, 3]

    # What a paused endpoint holds back is in between as well, and is mended at the sender.
    assert cli("endpoints", "pause", "shop").code == 0
    publish(cli, "order:1", 2)
    held_back = only_key(reconcile("--json"))
    assert [(one["where"], one["status"], one["events"]) for one in held_back["between"]] == [("sender", "paused", 2)]
    _, *words = shlex.split(held_back["mend"])
    assert cli(*words).code == 0
    assert settled(reconcile)["in_between"] == 0


def backed_up(this: Path, there: Path) -> None:
    with closing(sqlite3.connect(this)) as source, closing(sqlite3.connect(there)) as target:
        source.backup(target)


def applied_seqs(cli: Cli, site: Site, key: str) -> list[int]:
    rows = cli("inbox", "ls", "--store", site.store, "--key", key, "--status", "completed", "--json").json["items"]
    return sorted(row["seq"] for row in rows)


def test_what_cannot_be_compared_says_why(cli: Cli, db: Path, tmp_path: Path):
    sender, store = f"sqlite:///{db}", f"sqlite:///{tmp_path}/receiver.db"
    Inbox(store).close()

    def told(code: int, *more: str, sender: str = sender, receiver: str = store) -> str:
        ended = cli("reconcile", "--sender", sender, "--receiver", receiver, *more)
        assert (ended.code, ended.out) == (code, ""), ended
        return ended.talk[-1]

    assert cli("migrate", "up").code == 0
    assert "has no endpoint" in told(3)
    assert cli("endpoints", "add", "https://hooks.example.com/", "--name", "shop").code == 0
    assert "has nothing from a source hooklane: it is empty" in told(3)
    assert cli("reconcile", "--sender", sender, "--receiver", store, "--source", "hooklane").code == 0
    assert "nobody" in told(3, "--endpoint", "nobody")
    assert "--since" in told(2, "--since", "yesterday")
    assert "memory" in told(2, receiver="memory://")
    assert "--sender" in told(2, sender="redis://x")
    told(5, sender=f"http://127.0.0.1:{free_port()}")
    told(5, receiver=f"redis://127.0.0.1:{free_port()}")
    assert "there is no database" in told(1, receiver=f"sqlite:///{tmp_path}/nowhere.db")
    assert cli("endpoints", "add", "https://hooks.example.com/", "--name", "other").code == 0
    assert "--endpoint" in told(2, "--source", "hooklane")


def test_a_password_is_not_printed_and_the_command_names_a_variable_instead(monkeypatch: pytest.MonkeyPatch):
    commands = Commands("postgresql://u:pw@h/sender", "redis://:pw@h/0", "ep_1")

    assert commands.of(Mend(Act.HANDLE_AGAIN, ("7", "a b"))) == (
        "hooklane inbox replay 7 'a b' --yes --store \"$HOOKLANE_STORE\""
    )
    assert commands.of(Mend(Act.SEND_AGAIN, ("evt_1",))) == (
        'hooklane events replay evt_1 --endpoint ep_1 --yes --db "$HOOKLANE_DB"'
    )
    assert len(commands.advice) == 2
    monkeypatch.setenv("HOOKLANE_TENANT", "acme")
    assert commands.of(Mend(Act.RESUME)) == 'hooklane endpoints resume ep_1 --db "$HOOKLANE_DB" --tenant acme'
    assert "pw" not in "".join(commands.advice)
