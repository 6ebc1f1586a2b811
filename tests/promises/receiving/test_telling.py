"""What the receiver tells operators: one line to turn on, nothing secret in it, and no harm when it fails."""

from __future__ import annotations

import json
import logging

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.promises.receiving.kit import own_source, signed

from hooklane import Inbox, Reject, Request
from hooklane.core.admission.breaker import BreakerPolicy
from hooklane.telemetry import InboxLog, InboxMetrics, both
from hooklane.testing import Webhooks

CANARY = "4242-canary-4242"
PROMISED = [  # interfaces.md, the receiver's share
    "hooklane_inbox_received_total",
    "hooklane_inbox_verify_failures_total",
    "hooklane_inbox_handler_seconds",
    "hooklane_inbox_lease_takeovers_total",
    "hooklane_fence_rejections_total",
    "hooklane_dead_letters",
]


@pytest.fixture
def registry():
    return CollectorRegistry()


def failing(where="memory://", **options):
    """An inbox whose handler rejects everything, and quotes it."""
    inbox = Inbox(where, **options)

    @own_source(inbox, order="none", breaker=BreakerPolicy(calls_min=2)).on("*", name="handler")
    def handler(event, tx):
        if event.type == "order.bad":
            raise Reject(f"cannot read {event.raw!r}")
        if event.type == "order.down":
            raise RuntimeError(f"down with\n{event.raw!r}\x1b[31m")

    return inbox


def test_metrics_are_turned_on_by_one_line_and_have_the_promised_names(registry):
    inbox = failing(emit=InboxMetrics(registry))
    inbox.receive(signed("evt_1", type="order.bad"))
    inbox.run_once()

    exposed = generate_latest(registry).decode()
    for name in PROMISED:
        assert f"# HELP {name.removesuffix('_total')}" in exposed or f"# HELP {name} " in exposed, name
    assert 'hooklane_dead_letters{side="inbox"} 1.0' in exposed
    assert 'hooklane_inbox_received_total{outcome="stored",source="hooklane"} 1.0' in exposed
    inbox.replay(status="dead")
    assert 'hooklane_dead_letters{side="inbox"} 0.0' in generate_latest(registry).decode()


def test_the_breakers_state_and_the_lag_are_metrics(registry):
    inbox = failing(emit=InboxMetrics(registry))
    for number in range(3):
        inbox.receive(signed(f"evt_{number}", type="order.down"))
    inbox.run_once()

    value = registry.get_sample_value
    assert value("hooklane_inbox_breaker_state", {"source": "hooklane", "handler": "handler"}) == 2
    assert value("hooklane_inbox_oldest_pending_seconds") >= 0
    assert value("hooklane_inbox_lag_seconds_count") >= 2


def test_two_inboxes_share_a_registry_and_their_dead_letters_add_up(registry):
    inboxes = [failing(emit=InboxMetrics(registry)) for _ in range(2)]
    for inbox in inboxes:
        inbox.receive(signed("evt_1", type="order.bad"))
        inbox.run_once()

    assert registry.get_sample_value("hooklane_dead_letters", {"side": "inbox"}) == 2


def test_no_label_is_what_a_stranger_wrote(registry):
    inbox = failing(emit=InboxMetrics(registry))
    for number in range(50):
        inbox.receive(Request("POST", f"http://x/{CANARY}-{number}", (), b"{}"))

    assert CANARY not in generate_latest(registry).decode()


@pytest.mark.parametrize("as_json", [False, True])
def test_nothing_that_was_sent_is_in_a_line_and_nobody_writes_a_line_of_their_own(caplog, as_json):
    inbox = failing(emit=InboxLog(as_json=as_json))
    with caplog.at_level(logging.DEBUG, logger="hooklane.inbox"):
        for type in ("order.bad", "order.down", "order.good"):
            inbox.receive(signed(f"evt_{type[6:]}", type=type, data={"card": CANARY}))
        inbox.receive(Request("POST", "http://x/hooklane", (("webhook-signature", CANARY),), b"{}"))
        inbox.receive(signed("evt_x"), source="nobody\nERROR all is lost \x1b[31m\u202e")
        inbox.run_once()

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) >= 8
    assert all(line.isprintable() and line.isascii() for line in lines)
    assert CANARY not in "".join(lines)
    assert "whsec" not in "".join(lines)
    if as_json:
        assert {json.loads(line)["event"] for line in lines} == {"received", "refused", "handled"}
    assert {record.hooklane["error"] for record in caplog.records if "error" in record.hooklane} == {
        "Reject",
        "RuntimeError",
    }


def test_every_verdict_is_one_line(caplog):
    inbox = Inbox("memory://", "inline", emit=InboxLog())
    source = inbox.source("stripe", ["whsec_x"])
    source.on("*", name="handler")(lambda event, tx: None)
    with caplog.at_level(logging.DEBUG, logger="hooklane.inbox"), Webhooks(inbox) as webhooks:
        event = webhooks.stripe("invoice.paid", {"object": {"n": 1}})
        conflict = webhooks.changed(event, {"object": {"n": 2}})
        webhooks.deliver(event, event, conflict, webhooks.tampered(event))

    told = [record.hooklane for record in caplog.records]
    verdicts = [each["verdict"] for each in told if each["event"] == "received"]
    assert verdicts == ["applied", "duplicate", "conflict"]
    assert [each["reason"] for each in told if each["event"] == "refused"] == ["mismatch"]


def test_a_sink_that_fails_harms_neither_the_answer_nor_the_other_sinks(registry, caplog):
    def broken(event):
        raise RuntimeError("no disk")

    inbox = failing(emit=both(broken, InboxMetrics(registry)))
    assert inbox.receive(signed("evt_1")).status == 200
    inbox.run_once()

    assert (
        registry.get_sample_value(
            "hooklane_inbox_handler_seconds_count", {"source": "hooklane", "handler": "handler", "status": "completed"}
        )
        == 1
    )
    assert "a sink of telemetry failed on Received" in caplog.text
