"""Logs as JSON: one wide line for each attempt and each handling, and in none of them a payload or a secret."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api, Start
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Sink

from hooklane import Inbox
from hooklane.config import Secret
from hooklane.telemetry.inbox_log import InboxLog
from hooklane.telemetry.json_log import JsonFormatter

CANARIES = ("canary-payload", "canary-header", "canary-token", "canary-answer", "canary-key")


@pytest.fixture
def lines() -> Iterator[Any]:
    """What this process logs from here on, as JSON, at every level."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
async def api(start: Start) -> Api:
    made: Api = await start(log_format="json")
    return made


async def test_an_attempt_is_one_wide_line_without_payload_or_secret(api: Api, sink: Sink, lines: Any) -> None:
    sink.react = lambda _: Answer(status=503, body=b"canary-answer")
    endpoint = await api.endpoint(
        sink.url("/hook?token=canary-token"),
        headers={"x-api-key": "canary-header"},
        attempts_max=2,
        backoff_ms=20,
    )
    event = await api.publish("order.created", {"card": "canary-payload"}, key="order:1")
    await sink.arrived(2)

    def attempts() -> list[dict[str, Any]]:
        return [line for line in lines() if line.get("event") == "attempt"]

    async def both() -> bool:
        return len(attempts()) == 2

    await eventually(both)
    first, second = attempts()
    assert (first["level"], first["outcome"], first["status"], first["attempt"]) == ("warning", "retry", 503, 1)
    assert (second["level"], second["outcome"], second["reason"]) == ("error", "dead", "503")
    assert (first["event_id"], first["endpoint"], first["key"]) == (event["id"], endpoint["id"], "order:1")
    assert {"took_ms", "age_ms", "next_at", "at", "tenant", "seq"} <= first.keys()
    written = json.dumps(lines())
    for secret in (*CANARIES, endpoint["secret"], endpoint["secret"].removeprefix("whsec_")):
        assert secret not in written


def test_a_handling_is_one_wide_line_and_its_error_is_told_by_type(lines: Any) -> None:
    from tests.promises.receiving.kit import own_source, signed

    inbox = Inbox("memory://", emit=InboxLog())
    source = own_source(inbox)

    @source.on("*", order="none")
    def handle(event: Any, tx: Any) -> None:
        raise ValueError("canary-payload")

    inbox.receive(signed("evt_1", data={"card": "canary-payload"}))
    inbox.run_once()
    inbox.close()

    [handled] = [line for line in lines() if line.get("event") == "handled"]
    assert (handled["event_id"], handled["status"], handled["error"]) == ("evt_1", "failed", "ValueError")
    assert "canary-payload" not in json.dumps(lines())


def test_what_is_secret_by_its_type_is_not_written_wherever_it_comes_from(lines: Any) -> None:
    log = logging.getLogger("hooklane.test")
    try:
        raise ValueError("canary-payload")
    except ValueError:
        log.exception("with %s and %s", Secret("canary-key"), b"canary-payload")
    log.info("named %(key)s", {"key": Secret("canary-key")})
    log.info("fields", extra={"hooklane": {"key": Secret("canary-key"), "deep": [{"raw": b"canary-payload"}], "n": 1}})
    log.info("line one\nline two")

    told = lines()
    assert [line.get("message") for line in told[:2]] == ["with <Secret> and <bytes>", "named <Secret>"]
    assert (told[0]["exception"], told[0]["raised_at"].partition(":")[0]) == ("ValueError", "test_json_logs.py")
    assert told[2] == told[2] | {"key": "<Secret>", "deep": [{"raw": "<bytes>"}], "n": 1}
    assert told[3]["message"] == "line one\nline two"  # inside of one line of JSON
    written = json.dumps(told)
    assert not [canary for canary in CANARIES if canary in written]
