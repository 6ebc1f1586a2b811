"""One shape for an attempt: what the log of an event shows is what the live stream told."""

from typing import Any

from tests.promises.sending.api.conftest import Api
from tests.promises.sending.api.test_stream_api import watching
from tests.support.receiver import Answer, Sink

CONTRACT = [
    *("id", "event", "endpoint", "key", "seq", "attempt", "attempts_max", "started_at", "took_ms", "outcome", "status"),
    *("failure", "said", "next_at"),
]


async def told_by_the_stream(api: Api, many: int, **event: Any) -> tuple[str, list[Any]]:
    """The id of a new event, and its first *many* attempts as the stream tells them."""
    async with watching(api, query="?topics=attempts") as stream:
        published = await api.publish(**event)
        told: list[Any] = []
        while len(told) < many:
            told += (await stream.next("attempts")).value["items"]
        return published["id"], told


async def test_the_log_and_the_stream_tell_an_attempt_in_the_same_shape(api: Api, sink: Sink):
    sink.follow([Answer(status=503, body=b"later"), Answer(headers={"hooklane-outcome": "applied"})])
    endpoint = await api.endpoint(sink.url(), backoff_ms=20, attempts_max=7)
    event_id, told = await told_by_the_stream(api, 2, key="order:7")

    logged = (await api.get(f"/api/v1/events/{event_id}/attempts"))["items"]

    assert told == [{name: value for name, value in one.items() if name != "detail"} for one in logged]
    assert [list(one)[: len(CONTRACT)] for one in told] == [CONTRACT] * 2
    first, second = told
    assert (first["endpoint"], first["key"], first["seq"]) == (endpoint["id"], "order:7", 1)
    assert (first["attempt"], first["attempts_max"], first["outcome"], first["status"]) == (1, 7, "retry", 503)
    assert (second["outcome"], second["said"], second["next_at"]) == ("delivered", "applied", None)
    assert first["started_at"] < first["next_at"] <= second["started_at"]
    assert {first["id"].count("att_"), second["id"].count("att_")} == {1}


async def test_an_attempt_of_an_event_without_a_key_has_no_key_and_no_seq(api: Api, sink: Sink):
    await api.endpoint(sink.url())
    event_id, [told] = await told_by_the_stream(api, 1)

    [logged] = (await api.get(f"/api/v1/events/{event_id}/attempts"))["items"]

    assert (told["key"], told["seq"], told["outcome"]) == (None, None, "delivered")
    assert (logged["key"], logged["seq"], logged["id"]) == (None, None, told["id"])


async def test_a_410_is_told_as_a_retry_since_nothing_is_given_up(api: Api, sink: Sink):
    sink.react = lambda _: Answer(status=410)
    endpoint = await api.endpoint(sink.url())
    event_id, [told] = await told_by_the_stream(api, 1, key="A")

    metrics = (await api.call("GET", "/metrics")).body.decode()

    assert (told["outcome"], told["status"], told["next_at"]) == ("retry", 410, None)
    assert (await api.get(f"/api/v1/events/{event_id}/attempts"))["items"][0]["outcome"] == "retry"
    assert f'hooklane_attempts_total{{endpoint="{endpoint["id"]}",outcome="retry"}} 1.0' in metrics
