"""Plans, jobs, the audit log and the ledger over the API and by the command line, on a whole server."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_client import Connection
from tests.support.pace import scaled_s
from tests.support.receiver import Answer

from hooklane.cli.process import Running, running
from hooklane.config import Secret, Settings

KEY = "test-key-0123456789"
BAD = Answer(status=422, body=b"unknown sku")


class Server:
    """A running server with a client, and the command line pointed at it."""

    def __init__(self, url: str, connection: Connection, db: Path) -> None:
        self.url = url
        self.connection = connection
        self.db = db

    async def ask(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = await self.connection.call(method, f"/api/v1{path}", body, {})
        assert answer.status == status, (answer.status, answer.body)
        return answer.json if answer.body else None

    async def until(self, path: str, holds: Any) -> Any:
        async with asyncio.timeout(scaled_s(20)):
            while True:
                found = await self.ask("GET", path)
                if holds(found):
                    return found
                await asyncio.sleep(0.02)

    async def cli(self, *words: str, direct: bool = False) -> tuple[int, str, str]:
        where = ["--db", f"sqlite:///{self.db}"] if direct else ["--server", self.url]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hooklane",
            *words,
            *where,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"HOOKLANE_API_KEY": KEY, "PYTHONPATH": ":".join(sys.path), "PATH": ""},
            cwd=self.db.parent,
        )
        out, err = await asyncio.wait_for(process.communicate(), scaled_s(30))
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


def connected(one: Running) -> Connection:
    return Connection(int(one.address.rpartition(":")[2]), {"authorization": f"Bearer {KEY}"})


@pytest.fixture
async def server(tmp_path):
    db = tmp_path / "hooklane.db"
    settings = Settings(db=f"sqlite:///{db}", port=0, api_key=Secret(KEY), egress_allow=("127.0.0.0/8",), ui=False)
    async with running(settings) as one, connected(one) as connection:
        yield Server(one.address, connection, db)


async def blocked(server: Server, sink: Any, *keys: str, behind: int = 2) -> dict[str, Any]:
    """An endpoint whose keys each have a dead head, and events behind it."""
    sink.react = lambda request: BAD if request.headers["x-seq"] == "1" else Answer(status=200)
    endpoint = await server.ask(
        "POST", "/endpoints", {"url": sink.url(), "name": "shop", "attempts_max": 1}, status=201
    )
    for key in keys:
        for _ in range(behind + 1):
            await server.ask("POST", "/events", {"type": "order.paid", "key": key, "data": {}}, status=202)
    await server.until("/dead-letters", lambda page: len(page["items"]) == len(keys))
    return endpoint


async def test_a_filter_is_planned_shown_and_run_as_a_job(server, sink):
    endpoint = await blocked(server, sink, "A", "B")
    sink.react = lambda request: Answer(status=200)

    plan = await server.ask(
        "POST",
        "/plans",
        {"op": "replay", "filter": {"endpoint": endpoint["id"], "http": "4xx", "after": "-2h"}},
        status=201,
    )
    assert plan["counts"] == {"members": 2, "keys": 2, "refused": 0}
    assert [(one["key"], one["members"]) for one in plan["by_key"]] == [("A", 1), ("B", 1)]
    job = await server.ask("POST", f"/plans/{plan['id']}/run", {"digest": plan["digest"], "rate": 50}, status=202)
    again = await server.ask("POST", f"/plans/{plan['id']}/run", {"digest": plan["digest"]}, status=202)
    done = await server.until(f"/jobs/{job['id']}", lambda found: found["state"] == "done")

    assert again["id"] == job["id"]
    assert (done["counts"]["delivered"], done["settled"], done["rate"]) == (2, 2, 50)
    members = (await server.ask("GET", f"/jobs/{job['id']}/members?progress=delivered"))["items"]
    assert [(one["key"], one["seq"], one["progress"]) for one in members] == [
        ("A", 1, "delivered"),
        ("B", 1, "delivered"),
    ]
    assert (await server.ask("GET", "/dead-letters"))["items"] == []


async def test_an_event_that_is_named_is_sent_again_to_the_endpoint_that_is_named_and_to_no_other(server, sink):
    for name in ("shop", "billing"):
        await server.ask("POST", "/endpoints", {"url": sink.url(f"/{name}"), "name": name}, status=201)
    made = await server.ask("POST", "/events", {"type": "order.paid", "key": "A", "data": {}}, status=202)
    other = await server.ask("POST", "/events", {"type": "order.void", "key": "A", "data": {}}, status=202)
    await server.until("/overview", lambda found: found["ledger"]["delivered"] == 4)

    again = await server.cli("events", "replay", made["id"], "--endpoint", "billing", "--yes")
    nowhere = await server.cli("events", "replay", other["id"], "--endpoint", "ep_nobody", "--yes")

    assert (again[0], again[1].split()[1:]) == (0, ["1", "delivered"]), again
    assert nowhere[0] == 3, nowhere
    paths = [request.path for request in sink.requests if request.headers["webhook-id"] == made["id"]]
    assert sorted(paths) == ["/billing", "/billing", "/shop"]


async def test_a_plan_that_changed_is_answered_with_409_and_the_names(server, sink):
    await blocked(server, sink, "A", "B")
    plan = await server.ask("POST", "/plans", {"op": "skip", "filter": {}}, status=201)
    letter = (await server.ask("GET", "/dead-letters"))["items"][0]["id"]
    await server.ask("POST", f"/dead-letters/{letter}/skip", {"note": "mine"})

    problem = await server.ask("POST", f"/plans/{plan['id']}/run", {"note": "all"}, status=409)

    assert problem["code"] == "plan_changed"
    assert problem["detail"] == "1 delivery has changed since the plan was made: make a new plan and review it"
    assert problem["errors"] == [{"id": letter}]


NONSENSE = (
    {"op": "replay"},
    {"op": "burn", "ids": ["x"]},
    {"op": "replay", "ids": []},
    {"op": "replay", "filter": {"state": "queued"}},
    {"op": "replay", "filter": {"http": "9xx"}},
    {"op": "replay", "filter": {"after": "yesterday"}},
    {"op": "replay", "filter": {"colour": "red"}},
    {"op": "replay", "filter": {}, "endpoint": "ep_x"},
)


async def test_a_plan_that_makes_no_sense_is_refused_with_the_reason(server):
    for body in NONSENSE:
        assert (await server.ask("POST", "/plans", body, status=422))["code"] == "invalid_body", body
    await server.ask("POST", "/plans/pln_nothing/run", {}, status=404)
    await server.ask("GET", "/jobs/job_nothing", status=404)


@pytest.mark.parametrize("why", [{"http": "5xx"}, {"reason": "timeout"}])
async def test_delivered_events_are_not_replayed_by_a_reason_which_they_do_not_have(server, sink, why):
    await server.ask("POST", "/endpoints", {"url": sink.url()}, status=201)
    await server.ask("POST", "/events", {"type": "order.paid", "key": "A", "data": {}}, status=202)
    await sink.arrived(1)

    body = {"op": "replay", "filter": {"state": "delivered", **why}}
    problem = await server.ask("POST", "/plans", body, status=422)

    assert problem["code"] == "invalid_body"
    assert problem["detail"].startswith(f"{next(iter(why))} says why an event failed")
    for state in ("dead", "skipped"):
        await server.ask("POST", "/plans", {"op": "replay", "filter": {"state": state, **why}}, status=201)


async def test_every_act_goes_on_record_and_no_secret_with_it(server, sink):
    endpoint = await blocked(server, sink, "A")
    at = f"/endpoints/{endpoint['id']}"
    letter = (await server.ask("GET", "/dead-letters"))["items"][0]["id"]
    await server.ask("PATCH", at, {"name": "other", "timeout_ms": 900})
    await server.ask("POST", f"{at}/pause")
    await server.ask("POST", f"{at}/resume")
    rotated = await server.ask("POST", f"{at}/rotate", {})
    shown = await server.ask("POST", f"{at}/reveal")
    await server.ask("PATCH", f"/dead-letters/{letter}", {"note": "look at the sku"})
    await server.ask("POST", f"/dead-letters/{letter}/skip", {"note": "OPS-412"})
    await server.ask("DELETE", f"{at}?backlog=drain", status=204)

    lines = (await server.ask("GET", "/audit"))["items"][::-1]

    assert [(one["action"], one["note"]) for one in lines] == [
        ("endpoint.created", sink.url()),
        ("endpoint.changed", "name, timeout_ms"),
        ("endpoint.paused", ""),
        ("endpoint.resumed", ""),
        ("endpoint.rotated", ""),
        ("secret.shown", ""),
        ("dead_letter.noted", "look at the sku"),
        ("dead_letter.skipped", "OPS-412"),
        ("endpoint.deleted", "backlog=drain"),
    ]
    assert shown["secrets"][0] == rotated["secret"]
    assert not any(secret in str(lines) for secret in shown["secrets"])


async def test_o4_a_line_that_was_edited_or_removed_with_sqlite3_is_named(server, sink):
    for n in range(4):
        await server.ask("POST", "/endpoints", {"url": sink.url(), "name": f"e{n}"}, status=201)
    whole = await server.ask("GET", "/audit/verify")
    told: dict[str, int] = {}
    with closing(sqlite3.connect(server.db, isolation_level=None)) as conn:
        for how, tamper, line in (
            ("edited", "UPDATE hooklane_audit SET actor = 'somebody else' WHERE n = ?", 2),
            ("removed", "DELETE FROM hooklane_audit WHERE n = ?", 2),
            ("removed at the end", "DELETE FROM hooklane_audit WHERE n = ?", 4),
        ):
            kept = conn.execute("SELECT * FROM hooklane_audit WHERE n = ?", (line,)).fetchone()
            conn.execute(tamper, (line,))
            told[how] = (await server.ask("GET", "/audit/verify"))["broken"]["line"]
            if how == "edited":
                code, _, err = await server.cli("audit", "verify")
            marks = ", ".join("?" * len(kept))
            conn.execute(f"INSERT OR REPLACE INTO hooklane_audit VALUES ({marks})", kept)
    again = await server.ask("GET", f"/audit/verify?expect={whole['last']}")

    assert (whole["whole"], whole["lines"]) == (True, 4)
    assert told == {"edited": 2, "removed": 2, "removed at the end": 4}
    assert (code, "line 2 is not as it was written" in err) == (7, True)
    assert again["whole"]


async def test_the_command_line_replays_by_filter_and_tells_what_failed(server, sink):
    await blocked(server, sink, "A", "B", "C")
    sink.react = lambda request: BAD if request.headers["x-key"] == "B" else Answer(status=200)

    shown, plan, _ = await server.cli("dlq", "replay", "--filter", "endpoint:shop http:4xx", "--plan", "--json")
    asked, _, why = await server.cli("dlq", "replay", "--filter", "endpoint:shop http:4xx")
    code, out, _ = await server.cli("dlq", "replay", "--filter", "endpoint:shop", "--rate", "100/s", "--yes", "--json")

    assert (shown, json.loads(plan)["counts"]["members"]) == (0, 3)
    assert asked == 2
    assert "--yes" in why
    assert code == 6
    counts = json.loads(out)["counts"]
    assert (counts["delivered"], counts["failed"]) == (2, 1)


async def test_the_command_line_shows_what_a_skip_releases_before_it_is_done(server, sink):
    await blocked(server, sink, "order:1017")
    letter = (await server.ask("GET", "/dead-letters"))["items"][0]["id"]

    _, shown, _ = await server.cli("dlq", "skip", letter, "--plan")
    no_note, _, _ = await server.cli("dlq", "skip", letter, "--yes")
    code, out, err = await server.cli("dlq", "skip", letter, "--note", "customer cancelled, OPS-412", "--yes")

    assert "consumer sees seq 0 → 2" in shown
    assert "#2 order.paid  #3 order.paid" in shown
    assert no_note == 2
    assert (code, "skipped 1, released 2" in out) == (0, True), err
    acts = json.loads((await server.cli("audit", "ls", "--json"))[1])["items"]
    assert [one["note"] for one in acts if one["action"] == "dead_letter.skipped"] == ["customer cancelled, OPS-412"]


async def test_events_are_replayed_by_the_command_line_since_a_time(server, sink):
    await server.ask("POST", "/endpoints", {"url": sink.url(), "name": "shop"}, status=201)
    for _ in range(3):
        await server.ask("POST", "/events", {"type": "order.paid", "key": "A", "data": {}}, status=202)
    await server.until("/ledger", lambda found: found["items"][0]["counts"]["delivered"] == 3)

    code, out, err = await server.cli("events", "replay", "--filter", "after:-1h endpoint:shop", "--yes")

    assert (code, "3 delivered" in out) == (0, True), err
    assert [one.headers["x-seq"] for one in sink.requests] == ["1", "2", "3"] * 2


async def test_doctor_checks_the_ledger_and_names_what_does_not_add_up(server, sink):
    await blocked(server, sink, "A")

    well, told, _ = await server.cli("doctor")
    with closing(sqlite3.connect(server.db)) as conn, conn:
        conn.execute("DELETE FROM hooklane_lane_event WHERE seq = 2")
    ill, _, _ = await server.cli("doctor")
    direct, out, _ = await server.cli("doctor", "--json", direct=True)

    assert well == 0
    assert "3 deliveries accepted" in told
    assert "1 key is blocked" in told
    assert (ill, direct) == (7, 7)
    checks = json.loads(out)["checks"]
    assert any(one["name"] == "ledger" and one["state"] == "wrong" for one in checks)


async def test_publishes_over_http_are_refused_beyond_the_quota_and_on_a_full_disk(tmp_path, sink):
    db = tmp_path / "small.db"
    settings = Settings(
        db=f"sqlite:///{db}",
        port=0,
        api_key=Secret(KEY),
        egress_allow=("127.0.0.0/8",),
        ui=False,
        quota=3,
        disk_free_min=1,
    )
    async with running(settings) as one, connected(one) as connection:
        small = Server(one.address, connection, db)
        endpoint = await small.ask("POST", "/endpoints", {"url": sink.url()}, status=201)
        await small.ask("POST", f"/endpoints/{endpoint['id']}/pause")
        event = {"type": "a", "data": {}}
        for _ in range(3):
            await small.ask("POST", "/events", event, status=202)

        over = await connection.call("POST", "/api/v1/events", event, {})
        batch = await connection.call("POST", "/api/v1/events/batch", {"events": [event, event]}, {})
        from hooklane import Outbox  # an application of ours on the same file

        Outbox(f"sqlite:///{db}").publish("a", {}, key="mine")
        await small.ask("POST", f"/endpoints/{endpoint['id']}/resume")
        await small.until("/ledger", lambda found: found["items"][0]["counts"]["delivered"] == 4)
        await one.services.publish_limits.look()
        await small.ask("POST", "/events", event, status=202)
        one.services.publish_limits._free = lambda _: 0
        await one.services.publish_limits.look()
        full = await connection.call("POST", "/api/v1/events", event, {})
        reading = await small.ask("GET", "/events")

    assert (over.status, over.json["code"], batch.status) == (429, "quota_exceeded", 429)
    assert "retry-after" in over.headers
    assert (full.status, full.json["code"]) == (507, "storage_full")
    assert len(reading["items"]) == 5
