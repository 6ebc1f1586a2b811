"""Figures over time: they outlive the process that counted them, and those of all processes add up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.promises.sending.api.conftest import KEY, Api, Start
from tests.support.http_client import Connection
from tests.support.receiver import Answer, Sink

from hooklane.cli.process import Running, running
from hooklane.config import Secret, Settings


@asynccontextmanager
async def connected(server: Running) -> AsyncIterator[Api]:
    async with Connection(int(server.address.rpartition(":")[2]), {"authorization": f"Bearer {KEY}"}) as connection:
        yield Api(server, connection)


def summed(answer: Any, m: str, by: str = "") -> float:
    [one] = [one for one in answer["series"] if (one["m"], one["by"]) == (m, by)]
    return sum(value or 0 for value in one["values"])


async def test_figures_outlive_their_process_and_add_up_over_all(shared_db: str, start: Start, sink: Sink) -> None:
    settings = Settings(db=shared_db, port=0, api_key=Secret(KEY), egress_allow=("127.0.0.0/8",))
    async with running(settings) as server, connected(server) as first:
        endpoint = await first.endpoint(sink.url(), attempts_max=2, backoff_ms=20)
        for number in range(3):
            await first.publish(key=f"k{number}")
        await sink.arrived(3)
        sink.react = lambda _: Answer(status=422)
        await first.publish(key="dies")
        await sink.arrived(5)

    second: Api = await start(db=shared_db, role=("api",))
    third: Api = await start(db=shared_db, role=("api",))
    await second.publish(key="a")
    await second.server.services.series.write(whole=True)
    await third.publish(key="b")

    told = await third.get("/api/v1/series?range=15m")
    assert told["step_s"] == 10
    assert summed(told, "published") == 6
    assert summed(told, "attempts", "delivered") == 3
    assert (summed(told, "attempts", "retry"), summed(told, "attempts", "dead")) == (1, 1)
    by_endpoint = await third.get("/api/v1/series?range=24h&by=endpoint&m=attempts")
    assert (by_endpoint["step_s"], summed(by_endpoint, "attempts", endpoint["id"])) == (60, 5)
    of_one = await third.get(f"/api/v1/series?m=attempts,attempt_ms&endpoint={endpoint['id']}&range=7d")
    assert (of_one["step_s"], summed(of_one, "attempts", "delivered")) == (600, 3)
    assert summed(of_one, "attempt_ms", "p95") > 0
    assert "endpoint.created" in {mark["kind"] for mark in told["marks"]}


async def test_a_series_that_does_not_exist_is_refused_with_what_does(api: Api) -> None:
    for query in ("m=weather", "by=colour", "range=2y", "range=7d&step=10"):
        assert (await api.call("GET", f"/api/v1/series?{query}")).code == "invalid_parameter"


async def test_the_audit_log_is_searched_by_who_did_what_to_which(api: Api, sink: Sink) -> None:
    one = await api.endpoint(sink.url("/a"))
    other = await api.endpoint(sink.url("/b"))
    await api.call("POST", f"/api/v1/endpoints/{one['id']}/pause")

    async def found(query: str) -> list[tuple[str, str]]:
        return [(line["action"], line["subject"]) for line in (await api.get(f"/api/v1/audit?{query}"))["items"]]

    assert await found(f"subject={one['id']}") == [("endpoint.paused", one["id"]), ("endpoint.created", one["id"])]
    assert await found("action=*.created&limit=1") == [("endpoint.created", other["id"])]
    assert await found("actor=nobody") == []
    assert await found("before=2020-01-01T00:00:00Z") == []
    assert len(await found("after=2020-01-01T00:00:00Z&actor=api")) == 3
