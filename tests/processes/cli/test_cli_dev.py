"""`hooklane dev`: everything on this machine with one command."""

import json
import re
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.processes.cli.conftest import Ended
from tests.support.pace import scaled_s
from tests.support.processes import Child, until
from tests.support.receiver import Sink
from tests.support.tree import SOURCE

from hooklane.model.message import Status
from hooklane.receiver import Inbox

Start = Callable[..., Child]


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=scaled_s(5)) as answer:
        return json.load(answer)


def started(start: Start, *arguments: str) -> tuple[Child, str]:
    child = start("dev", "--no-open", "--port", "0", *arguments)
    return child, child.wait_for_line(r"Dashboard\s+(http://\S+)")[1]


def test_the_demo_moves_can_be_broken_and_mended(start_hooklane: Start, tmp_path: Path):
    child, url = started(start_hooklane, "--demo")

    def delivered(more: int) -> bool:
        return bool(ask(f"{url}/api/v1/overview")["ledger"]["delivered"] >= more)

    until(lambda: delivered(5), what="deliveries")
    assert ask(f"{url}/api/v1/demo")["receiver"] == "ok"
    ask(f"{url}/api/v1/demo", {"broken": ["order:1001"]})

    def blocked() -> Any:
        return [lane for lane in ask(f"{url}/api/v1/lanes?state=blocked")["items"] if lane["key"] == "order:1001"]

    [lane] = until(blocked, what="a blocked lane")
    so_far = ask(f"{url}/api/v1/overview")["ledger"]["delivered"]
    until(lambda: delivered(so_far + 3), what="the other lanes to flow on")
    ask(f"{url}/api/v1/demo", {"broken": []})
    ask(f"{url}/api/v1/dead-letters/{lane['dead_letter']}/replay", {})
    until(lambda: not blocked(), what="the lane to flow again")

    assert "applied" in child.output()
    told = re.findall(r"✓ \S+ +(order:\d+) #(\d+) +(demo \w+)", child.output())
    assert len({endpoint for _, _, endpoint in told}) == 2
    for lane in {(key, endpoint) for key, _, endpoint in told}:  # each endpoint counts the events of a key by itself
        seqs = [int(seq) for key, seq, endpoint in told if (key, endpoint) == lane]
        assert seqs == sorted(seqs), lane
    assert (tmp_path / ".hooklane" / "dev.db").exists()
    assert child.stop() == 0
    assert "Traceback" not in child.output()


def test_the_demo_has_no_controls_without_being_asked_for(start_hooklane: Start):
    _, url = started(start_hooklane)

    assert ask(f"{url}/healthz") == {"status": "ok"}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(f"{url}/api/v1/demo")


def test_lost_answers_make_copies_and_one_effect(start_hooklane: Start, tmp_path: Path):
    child, url = started(start_hooklane, "--demo")
    ask(f"{url}/api/v1/demo", {"receiver": "lost_ack"})

    place = child.wait_for_line(r"(order:\d+ #\d+) +demo shop +502 .*try 1/4")[1]
    child.wait_for_line(rf"{place} +demo shop +200 .*duplicate")

    assert child.stop() == 0
    with closing(Inbox(f"sqlite:///{tmp_path}/.hooklane/dev.db", mode="inline")) as inbox:
        at_shop = [one for one in inbox.rows(limit=1_000) if one.message.source == "shop"]
        [row] = [one for one in at_shop if f"{one.message.key} #{one.message.seq}" == place]
    assert row.copies >= 2
    assert [(one.status, one.attempts) for one in row.handlings] == [(Status.COMPLETED, 1)]


def test_what_is_posted_is_forwarded_signed_with_a_secret_that_stays(start_hooklane: Start, sink: Sink):
    import standardwebhooks

    child, url = started(start_hooklane, "--forward-to", f"127.0.0.1:{sink.port}/hooks")
    secret = child.wait_for_line(r"HOOKLANE_SECRET=(whsec_\S+)")[1]
    ask(f"{url}/in/dev", {"type": "order.created", "key": "order:1", "n": 1})
    ask(f"{url}/in/dev", ["anything"])

    first, second = sink.wait_for(2, where=lambda request: request.method == "POST")
    standardwebhooks.Webhook(secret).verify(first.body, dict(first.headers))
    bodies = {json.loads(request.body)["type"]: json.loads(request.body) for request in (first, second)}
    assert bodies["order.created"]["data"] == {"type": "order.created", "key": "order:1", "n": 1}
    assert bodies["order.created"]["key"] == "order:1"
    assert bodies["webhook.received"]["data"] == ["anything"]
    assert child.stop() == 0

    again, _ = started(start_hooklane, "--forward-to", f"127.0.0.1:{sink.port}/hooks")
    assert again.wait_for_line(r"HOOKLANE_SECRET=(whsec_\S+)")[1] == secret


def test_fresh_forgets_what_was(start_hooklane: Start, sink: Sink, process: Callable[..., Ended]):
    child, url = started(start_hooklane, "--forward-to", sink.url("/"))
    assert process("send", "a", "1", "--server", url).code == 0
    assert child.stop() == 0

    _, url = started(start_hooklane, "--fresh", "--forward-to", sink.url("/"))

    assert ask(f"{url}/api/v1/events")["items"] == []


def test_fresh_forgets_nothing_of_one_that_runs(start_hooklane: Start, process: Callable[..., Ended], tmp_path: Path):
    child, url = started(start_hooklane)
    file = (tmp_path / ".hooklane/dev.db").stat().st_ino
    assert process("send", "a", "1", "--server", url).code == 0

    ended = process("dev", "--no-open", "--port", "0", "--fresh")

    assert ended.code == 1
    assert "another process already delivers from" in ended.talk[-1]
    assert (tmp_path / ".hooklane/dev.db").stat().st_ino == file
    assert [one["type"] for one in ask(f"{url}/api/v1/events")["items"]] == ["a"]
    assert child.stop() == 0


def test_fresh_removes_no_tables_that_are_not_its_own(process: Callable[..., Ended], tmp_path: Path):
    db = tmp_path / "app.db"
    with closing(sqlite3.connect(db)) as conn:
        conn.execute("CREATE TABLE orders (id INTEGER)")
        conn.commit()
    (tmp_path / "notes.txt").write_text("not a database, whatever it is called")

    own = process("dev", "--no-open", "--port", "0", "--fresh", "--db", "sqlite:///app.db")
    other = process("dev", "--no-open", "--port", "0", "--fresh", "--db", "sqlite:///notes.txt")

    assert (own.code, other.code) == (1, 1)
    assert "tables that are not hooklane's (orders)" in own.talk[-1]
    with closing(sqlite3.connect(db)) as conn:
        assert conn.execute("SELECT count(*) FROM orders").fetchall() == [(0,)]
    assert (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize(("into", "code"), [("| head -1 >/dev/null", 0), (">/dev/full", 1)], ids=["head", "full"])
def test_it_ends_in_good_order_when_nothing_more_can_be_printed(tmp_path: Path, into: str, code: int):
    command = f"{sys.executable} -m hooklane dev --demo --no-open --port 0 2>dev.err"
    with Child(
        ["bash", "-c", f"{command} {into}; exit ${{PIPESTATUS[0]}}"],
        log=tmp_path / "log",
        cwd=tmp_path,
        env={"PYTHONPATH": SOURCE},
    ) as child:
        assert child.wait(within_s=60) == code

    told = (tmp_path / "dev.err").read_text()
    assert "Traceback" not in told
    assert ("No space left on device" in told) is (code == 1)


def test_a_target_that_may_not_be_reached_is_one_line(process: Callable[..., Ended]):
    ended = process("dev", "--no-open", "--port", "0", "--forward-to", "http://10.0.0.1/")

    assert ended.code == 1
    assert ended.talk[-1].startswith("hooklane: HL142 this host is not allowed")
