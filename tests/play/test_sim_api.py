"""`POST /api/v1/sim`: typed, bounded, one at a time, beside a server that goes on answering; and only where wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.http_client import Connection
from tests.support.inline_shop import Shop
from tests.support.pace import scaled_s
from tests.support.receiver import Sink
from tests.support.sqlite_files import new_outbox_file

from hooklane.cli import playground, process
from hooklane.cli.process import running
from hooklane.cli.serve import routes_for
from hooklane.config import Secret, Settings
from hooklane.server.api.documents import described
from hooklane.testing.play import Play, Trace, play
from hooklane.testing.play.run import SECRET

KEY = "test-key-0123456789"
SIM = "/api/v1/sim"


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(process, "_cores", lambda: 1)
    db, allow = new_outbox_file(tmp_path / "x.db"), ("127.0.0.0/8",)
    settings = Settings(db=db, port=0, api_key=Secret(KEY), egress_allow=allow, playground=True)
    async with (
        running(settings, routes=routes_for(settings)) as server,
        Connection(int(server.address.rpartition(":")[2]), {"authorization": f"Bearer {KEY}"}) as connection,
    ):
        yield connection


async def test_the_whole_trace_comes_in_one_answer_and_is_that_of_the_engine(served: Connection) -> None:
    faults = {"drop_ack": 0.1, "crash": 0.1, "crash_at": "before_answer"}
    faults |= {"worker_crash": 0.1, "worker_crash_at": "before_commit"}
    asked = {"scenario": "lost-ack", "seed": 7, "events": 30, "keys": 3, "rate": 20, "faults": faults}
    answer = await served.call("POST", SIM, asked)

    assert answer.status == 200
    told = msgspec.json.decode(answer.body, type=Trace)
    assert told == play(msgspec.convert(asked, Play))
    assert {"crashed", "worker_crashed", "worker_restarted"} <= {one.kind for one in told.steps}
    assert set(answer.json["meters"]["naive"]) == {"sent", "once", "lost", "twice", "out_of_order", "stale"}


async def test_scenarios_with_their_questions_are_listed_and_the_overview_names_the_feature(served: Connection) -> None:
    listed = (await served.call("GET", SIM)).json

    assert len(listed["scenarios"]) == 8
    assert [len(one["questions"]) for one in listed["scenarios"]] == [2, *[1] * 7]
    assert "playground" in (await served.call("GET", "/api/v1/overview")).json["features"]


async def test_the_description_of_the_api_holds_the_calls_with_their_shapes(served: Connection) -> None:
    document = (await served.call("GET", "/api/openapi.json")).json

    told = document["paths"][SIM]["post"]
    assert told["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Play"}
    assert told["responses"]["200"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Trace"}
    schemas = document["components"]["schemas"]
    assert schemas["Play"]["properties"]["events"]["anyOf"][0]["maximum"] == 200
    assert schemas["Play"]["properties"]["rate"]["anyOf"][0]["maximum"] == 200
    points = schemas["Faults"]["properties"]["worker_crash_at"]["enum"]
    assert set(points) == {"anywhere", "before_send", "before_answer", "before_commit", "after_commit"}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"scenario": "nope"}, "four-events"),
        ({"events": 201}, "events"),
        ({"seed": -1}, "seed"),
        ({"faults": {"drop_ack": 1.1}}, "drop_ack"),
        ({"faults": {"weather": 1}}, "weather"),
        ({"faults": {"worker_crash_at": "lunch"}}, "worker_crash_at"),
        ({"rate": 0}, "rate"),
        ({"receivers": []}, "receivers"),
        ({"receivers": ["ours", "ours"]}, "once"),
        ({"receivers": ["theirs"]}, "receivers"),
        ({"keys": 10_000}, "keys"),
    ],
)
async def test_what_cannot_be_played_is_told(served: Connection, body: Any, word: str) -> None:
    answer = await served.call("POST", SIM, body)

    assert (answer.status, answer.json["code"]) == (422, "invalid_body")
    assert word in answer.json["detail"]


async def test_it_needs_the_key_and_is_not_there_unless_it_was_switched_on(served: Connection) -> None:
    async with Connection(served.port, {}) as stranger:
        assert (await stranger.call("POST", SIM, {})).status == 401
    assert SIM not in described(routes_for(Settings()))["paths"]
    assert SIM in described(routes_for(Settings(playground=True)))["paths"]


async def test_runs_take_turns_while_the_server_answers_and_too_many_are_told_to_come_back(served: Connection) -> None:
    body = {"scenario": "lost-ack", "events": 120}

    async def one() -> int:
        async with Connection(served.port, {"authorization": f"Bearer {KEY}"}) as connection:
            return (await connection.call("POST", SIM, body)).status

    runs = [asyncio.create_task(one()) for _ in range(playground.WAITING_MAX + 2)]
    assert (await served.call("GET", "/healthz")).status == 200
    assert sorted(await asyncio.gather(*runs)) == [200] * playground.WAITING_MAX + [429] * 2
    assert (await served.call("POST", SIM, {})).status == 200, "it plays on afterwards"


async def test_a_run_whose_client_left_ends_and_makes_room(served: Connection) -> None:
    long = {"events": 200, "faults": {"drop_ack": 0.9, "drop_request": 0.5}}
    async with Connection(served.port, {"authorization": f"Bearer {KEY}"}) as leaving:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await leaving.call("POST", SIM, long)
    async with asyncio.timeout(scaled_s(4)):
        assert (await served.call("POST", SIM, {})).status == 200


async def test_a_run_that_takes_too_long_is_ended(served: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playground, "TOOK_S_MAX", 0.0)

    answer = await served.call("POST", SIM, {"events": 200, "faults": {"drop_ack": 1}})

    assert (answer.status, "fewer events" in answer.json["detail"]) == (422, True)


async def test_the_copies_of_a_scenario_reach_a_real_receiver(served: Connection, tmp_path: Path) -> None:
    shop = Shop(tmp_path, SECRET)
    try:
        asked = {"url": shop.url, "secret": SECRET, "play": {"scenario": "flapping"}}
        first, second = [(await served.call("POST", f"{SIM}/aim", asked)).json for _ in "ab"]
        assert first["accepted"] == first["events"] == 4
        assert first["applied_twice"] == second["applied_twice"] == 0
        assert len(first["copies"]) > 4
        assert len(shop.effects()) == len(set(shop.effects()))
    finally:
        shop.close()


@pytest.mark.parametrize("url", ["https://8.8.8.8/x", "http://10.0.0.1/x", "ftp://127.0.0.1/", "http://[::1]:9/"])
async def test_nothing_is_sent_beyond_what_the_operator_allowed(served: Connection, url: str) -> None:
    answer = await served.call("POST", f"{SIM}/aim", {"url": url, "secret": SECRET})

    assert answer.status == 422, answer
    assert "allow" in answer.json["detail"] or "begins with" in answer.json["detail"]


async def test_a_receiver_that_is_not_there_and_a_secret_that_is_none_are_told(served: Connection, sink: Sink) -> None:
    answer = await served.call("POST", f"{SIM}/aim", {"url": "http://127.0.0.1:9/", "secret": SECRET})
    assert (answer.status, "cannot reach" in answer.json["detail"]) == (422, True)

    answer = await served.call("POST", f"{SIM}/aim", {"url": sink.url("/x"), "secret": "hunter2"})
    assert (answer.status, "whsec_" in answer.json["detail"]) == (422, True)
    assert not sink.requests
