"""Commands against a real server, with a person's usual day: send, wait, block, replay, skip."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.processes.cli.conftest import Ended
from tests.support.processes import until
from tests.support.receiver import Answer, Sink

Cli = Callable[..., Ended]


@pytest.fixture
def endpoint(cli: Cli, server: str, sink: Sink) -> dict[str, Any]:
    made = cli("endpoints", "add", sink.url(), "--name", "shop", "--attempts-max", "2", "--backoff-ms", "10", "--json")
    assert made.code == 0, made
    return dict(made.json)


def dead_letters(cli: Cli, many: int) -> list[str]:
    def listed() -> tuple[list[str]] | None:
        items = cli("dlq", "ls", "--json").json["items"]
        return ([one["id"] for one in items],) if len(items) == many else None

    return until(listed, what=f"{many} dead letters")[0]


def test_a_waiting_send_says_what_came_of_it(cli: Cli, endpoint: Any, sink: Sink):
    good = cli("send", "order.paid", "{}", "--key", "order:1", "--wait")
    sink.react = lambda _: Answer(status=422)
    bad = cli("send", "order.paid", "{}", "--key", "order:1", "--wait", "--json")

    assert (good.code, "delivered" in good.out, "order:1 #1" in good.out) == (0, True, True)
    assert bad.code == 1
    assert bad.json["deliveries"][0]["state"] == "dead"
    assert bad.talk == ["hooklane: HL001 the delivery is dead"]


def test_a_waiting_send_gives_up_when_the_time_is_over(cli: Cli, endpoint: Any):
    cli("endpoints", "pause", "shop")

    ended = cli("send", "a", "1", "--key", "k", "--wait", "--timeout", "0.2")

    assert (ended.code, ended.talk) == (1, ["hooklane: HL001 the delivery is queued"])


def test_dead_letters_are_listed_noted_replayed_and_skipped(cli: Cli, endpoint: Any, sink: Sink):
    sink.react = lambda _: Answer(status=422, body=b"unknown sku")
    for key in ("A", "B", "C"):
        cli("send", "order.paid", "{}", "--key", key)
    letters = dead_letters(cli, 3)

    assert "422" in cli("dlq", "ls").out
    assert cli("dlq", "note", letters[0], "see OPS-412").code == 0
    assert "see OPS-412" in cli("dlq", "show", letters[0]).out
    assert len([json.loads(line) for line in cli("dlq", "export").out.splitlines()]) == 3
    assert cli("lanes", "ls", "--state", "blocked").out.count("#1 dead") == 3
    assert "died after 2 tries (last: 422 'unknown sku')" in cli("lanes", "why", "A").out

    sink.react = lambda _: Answer()
    without_note = cli("dlq", "skip", letters[0], "--yes")
    skipped = cli("dlq", "skip", letters[0], "--note", "cancelled", "--yes")
    replayed = cli("dlq", "replay", letters[1], "--json")
    partly = cli("dlq", "replay", letters[0], letters[2])

    assert (without_note.code, "--note" in without_note.err) == (2, True)
    assert skipped.code == 0
    assert "consumer sees" in skipped.err
    assert (replayed.code, replayed.json["action"]) == (0, "replay")
    assert partly.code == 6
    assert dead_letters(cli, 0) == []


def test_all_are_replayed_only_with_a_yes(cli: Cli, endpoint: Any, sink: Sink):
    sink.react = lambda _: Answer(status=422)
    for key in ("A", "B"):
        cli("send", "a", "1", "--key", key)
    dead_letters(cli, 2)
    sink.react = lambda _: Answer()

    assert cli("dlq", "replay", "--all").code == 2
    assert cli("dlq", "replay", "--all", "--yes", "--endpoint", "shop").code == 0
    assert dead_letters(cli, 0) == []


def test_an_endpoint_is_tried_out(cli: Cli, endpoint: Any):
    assert cli("endpoints", "test", "shop").out.startswith("ok  200")
    assert cli("endpoints", "probe", "shop", "--json").json["reachable"] is True


def test_a_lane_at_several_endpoints_wants_one_named(cli: Cli, endpoint: Any, sink: Sink):
    cli("endpoints", "add", sink.url(), "--name", "other")
    cli("send", "a", "1", "--key", "k/1", "--wait")

    assert cli("lanes", "why", "k/1").code == 2
    assert cli("lanes", "why", "k/1", "--endpoint", "other").out.startswith("Nothing waits on k/1")
    assert cli("lanes", "show", "k/1", "--endpoint", "shop", "--json").json["key"] == "k/1"
