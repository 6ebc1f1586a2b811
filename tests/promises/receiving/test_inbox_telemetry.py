"""What the receiver tells: metrics with the names that dashboards rely on, and log lines without payloads."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import own_source, signed

from hooklane.errors import Reject
from hooklane.model.message import Request
from hooklane.receiver import Event
from hooklane.telemetry.inbox_log import InboxLog
from hooklane.telemetry.inbox_metrics import InboxMetrics, both


def busy_day(world: World, emit: Any) -> None:
    inbox = world.inbox(emit=emit)

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        if event.type == "order.bad":
            raise Reject("no")

    for id, type in (("evt_1", "order.created"), ("evt_1", "order.created"), ("evt_2", "order.bad")):
        inbox.receive(signed(id, type=type, data={"card": "4242424242424242"}))
    forged = signed()
    inbox.receive(Request(forged.method, forged.url, forged.headers, b"{}"))
    inbox.receive(Request(forged.method, "http://x/nobody", forged.headers, b"{}"))
    inbox.run_once()


def test_metrics_have_the_names_that_dashboards_rely_on(world: World) -> None:
    registry = CollectorRegistry()
    busy_day(world, InboxMetrics(registry))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("hooklane_inbox_received_total", source="hooklane", outcome="stored") == 2
    assert value("hooklane_inbox_received_total", source="hooklane", outcome="duplicate") == 1
    assert value("hooklane_inbox_verify_failures_total", source="hooklane", reason="mismatch") == 1
    assert value("hooklane_inbox_refused_total", source="", reason="unknown_source") == 1
    handler = "busy_day.handler"
    labels = {"source": "hooklane", "handler": handler}
    assert value("hooklane_inbox_handler_seconds_count", **labels, status="completed") == 1
    assert value("hooklane_inbox_handler_seconds_count", **labels, status="dead") == 1
    assert value("hooklane_inbox_lease_takeovers_total") == 0
    assert value("hooklane_fence_rejections_total") == 0


def test_log_lines_name_the_event_and_never_quote_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="hooklane.inbox"):
        busy_day(world, both(InboxLog(), lambda event: None))

    assert "handled source=hooklane" in caplog.text
    assert "evt_2" in caplog.text
    assert "4242" not in caplog.text
    assert "whsec" not in caplog.text
    assert {"ERROR", "WARNING", "DEBUG"} <= {record.levelname for record in caplog.records}
    (dead,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert dead.hooklane["event_id"] == "evt_2"  # type: ignore[attr-defined]
