"""The stream: changes as they happen, resumed after a gap, never faster than ten a second."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api
from tests.support.http_client import Connection
from tests.support.pace import scaled_s
from tests.support.processes import until
from tests.support.receiver import Answer, Sink

from hooklane.errors import StoreUnavailable
from hooklane.server import live_stream, stream_client, topics


@dataclass(frozen=True, slots=True)
class Told:
    kind: str
    id: str | None
    value: Any
    at: float


class Stream:
    """An open stream of one viewer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._text = ""
        self.heartbeats = 0

    async def next(self, kind: str | None = None) -> Told:
        async with asyncio.timeout(scaled_s(10)):
            while True:
                told = await self._frame()
                if kind is None or told.kind == kind:
                    return told

    async def _frame(self) -> Told:
        while "\n\n" not in self._text:
            reader = self._connection.reader
            size = int(await reader.readline(), 16)
            assert size, "the stream ended"
            self._text += (await reader.readexactly(size)).decode()
            await reader.readline()
        block, self._text = self._text.split("\n\n", 1)
        if block.startswith(":"):
            self.heartbeats += 1
            return Told("heartbeat", None, None, time.monotonic())
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        return Told(fields["event"], fields.get("id"), json.loads(fields["data"]), time.monotonic())


@asynccontextmanager
async def watching(api: Api, last_id: str | None = None, query: str = "") -> AsyncIterator[Stream]:
    async with api.connect() as connection:
        headers = {} if last_id is None else {"last-event-id": last_id}
        connection.writer.write(connection.request("GET", f"/api/v1/stream{query}", headers=headers))
        head = (await connection.reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert "content-type: text/event-stream" in head
        assert "x-accel-buffering: no" in head
        yield Stream(connection)


async def test_a_new_viewer_is_told_to_fetch_and_then_what_changes(api: Api, sink: Sink, endpoint: dict[str, Any]):
    async with watching(api) as stream:
        assert (await stream.next()).kind == "reset"

        event = await api.publish(key="A")

        [attempt] = (await stream.next("attempts")).value["items"]
        assert (attempt["event"], attempt["outcome"], attempt["status"]) == (event["id"], "delivered", 200)
        while (lane := (await stream.next("lanes")).value["items"][0])["state"] != "idle":
            pass
        assert (lane["key"], lane["head"], lane["tail"]) == ("A", 2, 1)


async def test_a_stream_that_never_begins_takes_no_place(api: Api):
    """Asked for with `HEAD`, or by a client that leaves at once: each held a place until the server was restarted."""
    live = api.server.services.live_stream
    for method in ["HEAD", "GET"] * 20:
        async with api.connect() as connection:
            connection.writer.write(connection.request(method, "/api/v1/stream"))
            if method == "HEAD":
                assert b"text/event-stream" in await connection.reader.readuntil(b"\r\n\r\n")
    async with watching(api) as stream:
        await stream.next("reset")  # all that was asked for before has been looked at

        await asyncio.to_thread(until, lambda: live.client_count == 1, what="all places but one free again")


async def test_an_event_in_flight_is_shown_as_such(api: Api, sink: Sink, endpoint: Any):
    may_answer = threading.Event()
    sink.react = lambda _: Answer(once=may_answer)
    async with watching(api) as stream:
        await stream.next("reset")
        await api.publish(key="A")

        lane = (await stream.next("lanes")).value["items"][0]
        while not lane["in_flight"]:
            lane = (await stream.next("lanes")).value["items"][0]
        assert lane["state"] == "active"
        may_answer.set()
        while lane["state"] != "idle":
            lane = (await stream.next("lanes")).value["items"][0]
        assert not lane["in_flight"]


async def test_a_viewer_that_comes_back_goes_on_where_it_was(api: Api, sink: Sink, endpoint: Any):
    async with watching(api) as keeps_looking:
        async with watching(api) as leaves:
            await leaves.next("reset")
            await api.publish(key="A")
            seen = await leaves.next("attempts")
        await api.publish(key="B")
        await sink.arrived(2)
        while (await keeps_looking.next("attempts")).value["items"][-1]["key"] != "B":
            pass

        async with watching(api, seen.id) as back:
            told = await back.next()
            assert told.kind != "reset"
            while told.kind != "attempts":
                told = await back.next()
            assert told.value["items"][0]["key"] == "B"


async def test_a_viewer_that_was_away_too_long_is_told_to_start_anew(api: Api, sink: Sink, endpoint: Any):
    async with watching(api) as stream:
        await stream.next("reset")
        await api.publish(key="A")
        last = await stream.next("attempts")
    for path in ("unknown", "x" * 3000, "0-0"):
        async with watching(api, path) as stream:
            assert (await stream.next()).kind == "reset"
    await api.publish(key="B")
    await sink.arrived(2)

    async with watching(api, last.id) as stream:
        assert (await stream.next()).kind == "reset"


async def test_a_busy_lane_is_told_at_most_ten_times_a_second(api: Api, sink: Sink, endpoint: Any):
    async with watching(api) as stream:
        await stream.next("reset")
        began = time.monotonic()
        for number in range(100):
            await api.publish(data=number, key="A")
        told = [await stream.next("lanes")]
        while told[-1].value["items"][0]["head"] != 101:
            told.append(await stream.next("lanes"))

    assert len(told) <= 10 * (time.monotonic() - began) + 2


async def test_a_recovery_is_told(api: Api, sink: Sink, endpoint: Any):
    sink.react = lambda _: Answer(status=422)
    async with watching(api) as stream:
        await stream.next("reset")
        await api.publish(key="A")
        lane = (await stream.next("lanes")).value["items"][0]
        while lane["state"] != "blocked":
            lane = (await stream.next("lanes")).value["items"][0]

        sink.react = lambda _: Answer()
        await api.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/replay")

        while lane["state"] != "idle":
            lane = (await stream.next("lanes")).value["items"][0]
        overview = (await stream.next("overview")).value
        assert overview["lanes"]["blocked"] == 0


async def test_what_other_processes_do_is_seen_too(start: Any, sink: Sink):
    delivers = await start()
    only_shows = await start(role=("api",))
    await delivers.endpoint(sink.url(), attempts_max=1)
    sink.react = lambda _: Answer(status=422)
    async with watching(only_shows) as stream:
        await stream.next("reset")
        await delivers.publish(key="A")

        lane = (await stream.next("lanes")).value["items"][0]
        while lane["state"] != "blocked":
            lane = (await stream.next("lanes")).value["items"][0]
    assert lane["key"] == "A"


async def test_a_quiet_stream_has_a_heartbeat(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream_client, "HEARTBEAT_S", 0.2)
    async with watching(api) as stream:
        first = await stream.next("heartbeat")
        second = await stream.next("heartbeat")

    assert stream.heartbeats == 2
    assert 0.1 <= second.at - first.at < scaled_s(2)


async def test_a_viewer_that_does_not_read_loses_its_frames_and_starts_anew():
    slow = stream_client.StreamClient()
    for number in range(stream_client.WAITING_MAX + 1):
        slow.put(stream_client.frame("lanes", str(number), b"{}"))

    text = await anext(slow.frames())

    assert text.startswith(b"event: reset")


async def test_an_open_stream_does_not_hold_up_the_end_of_the_server(start: Any):
    api = await start()
    async with watching(api) as stream:
        await stream.next("reset")
        began = time.monotonic()
        api.server.stop()
        await api.server.ended()

    assert time.monotonic() - began < scaled_s(3)


async def test_a_viewer_is_told_only_what_it_asked_for(api: Api, sink: Sink, endpoint: Any):
    async with watching(api, query="?topics=attempts") as stream:
        await stream.next("reset")
        await api.publish(key="A")
        await sink.arrived(1)
        assert (await stream.next()).kind == "attempts"
        await api.publish(key="A")
        assert (await stream.next()).kind == "attempts"

    assert (await api.call("GET", "/api/v1/stream?topics=weather")).code == "invalid_parameter"


async def test_every_lane_that_moved_is_told_however_many_moved_at_once(api: Api, sink: Sink, endpoint: Any):
    keys = {f"key-{number}" for number in range(400)}
    at_rest: set[str] = set()
    async with watching(api, query="?topics=lanes") as stream:
        await stream.next("reset")
        batch = {"events": [{"type": "a", "data": 1, "key": key} for key in sorted(keys)]}
        assert (await api.call("POST", "/api/v1/events/batch", batch)).status == 202

        async with asyncio.timeout(scaled_s(60)):
            while at_rest != keys:
                for lane in (await stream.next("lanes")).value["items"]:
                    (at_rest.add if lane["state"] == "idle" and lane["head"] == 2 else at_rest.discard)(lane["key"])


async def test_where_more_lanes_moved_than_can_be_told_viewers_are_told_to_fetch_anew(
    api: Api, endpoint: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(live_stream, "MOVED_MAX", 50)
    async with watching(api, query="?topics=overview") as stream:
        await stream.next("reset")
        batch = {"events": [{"type": "a", "data": 1, "key": f"key-{number}"} for number in range(200)]}
        assert (await api.call("POST", "/api/v1/events/batch", batch)).status == 202

        await stream.next("reset")


async def test_a_viewer_hears_of_endpoints_jobs_and_dead_letters(api: Api, sink: Sink, endpoint: Any):
    sink.react = lambda _: Answer(status=422)
    async with watching(api, query="?topics=endpoints,jobs,dead_letters") as stream:
        await stream.next("reset")
        await api.call("POST", f"/api/v1/endpoints/{endpoint['id']}/pause")
        while (await stream.next("endpoints")).value["items"][0]["state"] != "paused":
            pass
        await api.call("POST", f"/api/v1/endpoints/{endpoint['id']}/resume")
        await api.publish(key="A")

        told = (await stream.next("dead_letters")).value
        while not told["items"]:
            told = (await stream.next("dead_letters")).value
        letter = told["items"][0]
        assert (letter["key"], letter["reason"]) == ("A", "422")
        plan = (await api.call("POST", "/api/v1/plans", {"op": "skip", "ids": [letter["id"]]})).json
        job = (await api.call("POST", f"/api/v1/plans/{plan['id']}/run", {"note": "given up"})).json
        jobs = (await stream.next("jobs")).value["items"]
        while jobs[0]["state"] != "done":
            jobs = (await stream.next("jobs")).value["items"]
        assert jobs[0]["id"] == job["id"]


async def test_where_more_letters_died_than_are_told_viewers_are_told_to_fetch_anew(
    api: Api, sink: Sink, monkeypatch: pytest.MonkeyPatch
):
    """The newest fifty were told, and nobody learned of the others."""
    monkeypatch.setattr(topics, "LETTERS_SHOWN", 3)
    sink.react = lambda _: Answer(status=422)
    endpoint = await api.endpoint(sink.url(), attempts_max=1)
    await api.call("POST", f"/api/v1/endpoints/{endpoint['id']}/pause")
    batch = {"events": [{"type": "a", "data": 1, "key": f"key-{number}"} for number in range(20)]}
    assert (await api.call("POST", "/api/v1/events/batch", batch)).status == 202
    async with watching(api, query="?topics=dead_letters") as stream:
        await stream.next("dead_letters")
        await api.call("POST", f"/api/v1/endpoints/{endpoint['id']}/resume")

        await stream.next("reset")


async def test_a_dead_letter_is_told_though_the_store_failed_while_it_was_read(
    api: Api, sink: Sink, endpoint: Any, monkeypatch: pytest.MonkeyPatch
):
    """It was noted as told before all that is told of it was read."""
    services, failures = api.server.services, 0
    last_words = services.store.last_words

    async def fails_first(letters: Any) -> Any:
        nonlocal failures
        failures += bool(letters)
        if letters and failures == 1:
            raise StoreUnavailable("gone for a moment")
        return await last_words(letters)

    sink.react = lambda _: Answer(status=422)
    async with watching(api, query="?topics=dead_letters") as stream:
        await stream.next("dead_letters")
        monkeypatch.setattr(services.store, "last_words", fails_first)
        await api.publish(key="A")
        told = (await stream.next("dead_letters")).value
        while not told["items"]:
            told = (await stream.next("dead_letters")).value

    assert failures == 2
    assert [letter["key"] for letter in told["items"]] == ["A"]
