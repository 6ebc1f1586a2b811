"""Equal bytes are not always the same event: unsigned ids and topics, and states that two entities share."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import beat_through, github, outcome, statuses

from hooklane import Request
from hooklane.telemetry.events import Conflicted

SECRET = "hush-hush-hush"
both_modes = pytest.mark.parametrize("mode", ["durable", "inline"])


def shopify(body: Any, *, id: str | None, topic: str) -> Request:
    """A request as Shopify signs it: the body only; id and topic in headers that anyone can change."""
    raw = json.dumps(body).encode()
    headers = {
        "x-shopify-topic": topic,
        "x-shopify-hmac-sha256": base64.b64encode(hmac.digest(SECRET.encode(), raw, hashlib.sha256)).decode(),
    }
    if id is not None:
        headers["x-shopify-event-id"] = id
    return Request.of("POST", "http://x/webhooks/shopify", headers, raw)


@both_modes
def test_an_equal_body_of_another_topic_is_another_event(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    inbox.source("shopify", [SECRET]).on()(world.effect)
    order = {"id": 1, "total": "9.00"}
    replies = [
        inbox.receive(shopify(order, id="e1", topic="orders/create")),
        inbox.receive(shopify(order, id="e2", topic="orders/paid")),
    ]
    inbox.run_once()

    assert {reply.status for reply in replies} == {200}
    assert world.effects() == ["e1", "e2"]


@both_modes
def test_an_equal_body_and_topic_under_another_id_is_kept_as_a_conflict_and_can_be_replayed(
    world: World, mode: Any
) -> None:
    inbox = world.inbox(mode)
    inbox.source("github", [SECRET]).on()(world.effect)
    push = {"ref": "main", "after": "abc"}
    replies = [inbox.receive(github(push, delivery=id)) for id in ("d-1", "d-2", "d-2", "d-1")]
    inbox.run_once()

    assert [reply.status for reply in replies] == [200] * 4
    assert [outcome(reply) for reply in replies][1:] == ["conflict", "conflict", "duplicate"]
    assert {told.event_id for told in world.told_of(Conflicted)} == {"d-2"}
    assert world.effects() == ["d-1"]
    (kept,) = inbox.rows(status="conflict")
    assert (kept.message.event_id, json.loads(kept.message.body)) == ("d-2", push)
    assert "d-1" in str(kept.reason)
    assert inbox.replay(kept.id) == 1
    inbox.run_once()
    assert world.effects() == ["d-1", "d-2"]


@both_modes
@pytest.mark.parametrize("id", ["e1", None], ids=["under_one_id", "without_ids"])
def test_another_topic_under_the_same_id_is_kept_as_a_conflict_and_can_be_replayed(
    world: World, mode: Any, id: str | None
) -> None:
    """One act of a merchant has one event id, and may be told under several topics."""
    inbox = world.inbox(mode)
    seen: list[str] = []

    @inbox.source("shopify", [SECRET]).on()
    def handle(event: Any, tx: Any) -> None:
        seen.append(event.type)

    topics = ["orders/create", "orders/paid", "orders/fulfilled", "orders/create", "orders/paid"]
    replies = [inbox.receive(shopify({"id": 1}, id=id, topic=topic)) for topic in topics]
    inbox.run_once()

    assert [reply.status for reply in replies] == [200] * 5
    assert [outcome(reply) for reply in replies][1:] == ["conflict", "conflict", "duplicate", "conflict"]
    assert seen == ["orders/create"]
    kept = inbox.rows(status="conflict")
    assert sorted(row.message.type for row in kept) == ["orders/fulfilled", "orders/paid"]
    assert {(row.message.body, row.reason) for row in kept} == {
        (b'{"id": 1}', "another topic arrived before under this id")
    }
    assert inbox.replay([row.id for row in kept]) == 2
    inbox.run_once()
    assert sorted(seen) == ["orders/create", "orders/fulfilled", "orders/paid"]


@both_modes
def test_a_replayed_body_does_not_take_the_place_of_the_event_whose_id_it_borrows(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    inbox.source("github", [SECRET]).on()(world.effect)
    for body, delivery in (({"n": 1}, "d-1"), ({"n": 1}, "d-2"), ({"n": 2}, "d-2")):
        inbox.receive(github(body, delivery=delivery))
    inbox.run_once()

    assert world.effects() == ["d-1", "d-2"]
    assert sorted(statuses(inbox)) == ["completed", "completed", "conflict"]


@both_modes
def test_the_same_event_sent_again_after_its_row_has_gone_is_a_duplicate(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    inbox.source("github", [SECRET]).on()(world.effect)
    captured = github({"ref": "main"}, delivery="d-1")
    inbox.receive(captured)
    inbox.run_once()
    beat_through(inbox, world.clock, days=31)
    assert inbox.prune().rows == 1
    replayed = [inbox.receive(captured), inbox.receive(github({"ref": "main"}, delivery="d-2"))]
    inbox.run_once()

    assert [outcome(reply) for reply in replayed] == ["duplicate", "conflict"]
    assert len(world.effects()) == 1


def test_of_a_crowd_of_equal_bodies_under_many_ids_one_takes_effect_and_none_is_dropped(world: World) -> None:
    from hooklane.testing.conformance_inbox import together

    inbox = world.inbox()
    inbox.source("github", [SECRET]).on()(world.effect)
    replies = together(8, lambda n: inbox.receive(github({"ref": "main"}, delivery=f"d-{n}")))
    inbox.run_once()

    assert {reply.status for reply in replies} == {200}
    assert len(world.effects()) == 1
    assert sorted(statuses(inbox)) == ["completed"] + ["conflict"] * 7


def feed(states: list[tuple[str, str]]) -> Request:
    events = [{"common_model_id": entity, "hash": state, "type": "odds"} for entity, state in states]
    return Request.of("POST", "http://x/webhooks/feed", {}, json.dumps({"events": events}).encode())


@both_modes
def test_two_entities_in_the_same_state_are_two_events(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    inbox.source("feed", unsafe=True, profile="sportsstack", order="none").on("*")(world.effect)
    sent = [[("match:1", "A")], [("match:2", "A")], [("match:1", "A"), ("match:2", "A"), ("match:3", "A")]]
    replies = [inbox.receive(feed(states)) for states in sent]
    replies += [inbox.receive(feed([("match:1", "B"), ("match:2", "B")])), inbox.receive(feed([("match:2", "A")]))]
    inbox.run_once()

    assert [reply.status for reply in replies] == [200] * 5
    assert sorted(row.message.key or "" for row in inbox.rows()) == ["match:1"] * 2 + ["match:2"] * 3 + ["match:3"]
    assert sorted(world.effects()) == ["A"] * 4 + ["B"] * 2


def test_a_step_of_one_entity_has_another_key_than_that_of_its_twin(world: World) -> None:
    inbox = world.inbox()
    keys: list[str] = []

    @inbox.source("feed", unsafe=True, profile="sportsstack", order="none").on("*")
    def handle(event: Any, tx: Any) -> None:
        keys.append(event.step_key("charge"))

    inbox.receive(feed([("match:1", "A"), ("match:2", "A")]))
    inbox.run_once()

    assert len(set(keys)) == 2
