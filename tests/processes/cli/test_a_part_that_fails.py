"""A part of the server that fails ends the process with one clear line and a code: never one that looks healthy."""

import json
import os
import sqlite3
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes.cli.broken_part import PARTS
from tests.support.fork_server import fork
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port, until
from tests.support.receiver import Sink
from tests.support.tree import ROOT, SOURCE

WITHIN_S = 60


def call(url: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=scaled_s(WITHIN_S)) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read() or b"null")


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_fails_ends_the_server_with_one_clear_line(part: str, sink: Sink, tmp_path: Path):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = (sys.executable, "-m", "tests.processes.cli.broken_part", part, "serve", "--no-auth", "--port", str(port))
    options = ("--db", f"sqlite:///{tmp_path}/h.db", "--egress-allow", "127.0.0.0/8")
    env = {"PYTHONPATH": os.pathsep.join([SOURCE, str(ROOT)])}
    with Child([*command, *options], log=tmp_path / "log", env=env, cwd=ROOT, born=fork) as child:

        def provoked() -> bool:
            if child.returncode is None:
                try:
                    call(url, "POST", "/api/v1/endpoints", {"url": sink.url(), "timeout_ms": 1_000})
                    call(url, "POST", "/api/v1/events", {"type": "a.b", "key": "k", "data": {}})
                except (OSError, ValueError):
                    pass  # not there yet, or just going
            return child.returncode is not None

        until(provoked, what="the end of the process", within_s=WITHIN_S)

        assert child.returncode == 70, child.output()
        last = child.output().splitlines()[-1]
        assert last.startswith("hooklane: "), child.output()
        # The door is shut before the store is: no publish meets a store that is closed.
        assert "handler is closed" not in child.output()
        assert "after shutdown" not in child.output()
        assert "planted" in last


def test_an_old_row_with_a_nonsense_rate_limit_stops_nobody_after_a_restart(
    start_hooklane: Callable[..., Child], sink: Sink, tmp_path: Path
):
    port, db = free_port(), tmp_path / "h.db"
    url = f"http://127.0.0.1:{port}"
    options = ("serve", "--no-auth", "--db", f"sqlite:///{db}", "--port", str(port), "--egress-allow", "127.0.0.0/8")
    first = start_hooklane(*options)
    first.wait_for_http(f"{url}/readyz", status=200)
    _, bad = call(url, "POST", "/api/v1/endpoints", {"url": sink.url("/bad"), "rate_limit": 5})
    _, odd = call(url, "POST", "/api/v1/endpoints", {"url": sink.url("/odd")})
    _, good = call(url, "POST", "/api/v1/endpoints", {"url": sink.url("/good")})
    assert first.stop() == 0
    with sqlite3.connect(db) as conn:
        for endpoint, field, value in ((bad, "rate_limit", 5e-324), (odd, "attempts_max", "many")):
            [doc] = conn.execute("SELECT doc FROM hooklane_endpoint WHERE id = ?", (endpoint["id"],)).fetchone()
            changed = json.dumps({**json.loads(doc), field: value}).encode()
            conn.execute("UPDATE hooklane_endpoint SET doc = ? WHERE id = ?", (changed, endpoint["id"]))
    conn.close()

    second = start_hooklane(*options)
    second.wait_for_http(f"{url}/readyz", status=200)
    status, _ = call(url, "POST", "/api/v1/events", {"type": "a.b", "key": "k", "data": {}})
    until(lambda: {"/bad", "/good"} <= {one.path for one in sink.requests}, what="both deliveries", within_s=WITHIN_S)
    _, held = call(url, "GET", f"/api/v1/endpoints/{odd['id']}")
    paused, _ = call(url, "POST", f"/api/v1/endpoints/{bad['id']}/pause")

    assert (status, held["state"], paused) == (202, "disabled", 200)
    assert "its row cannot be read" in second.output()
    assert {one.path for one in sink.requests} == {"/bad", "/good"}
    assert good["state"] == "active"
    assert second.stop() == 0
