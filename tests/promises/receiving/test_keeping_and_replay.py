"""How long is a row kept, and what can be replayed from it? On every store."""

from __future__ import annotations

from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import (
    SECRET,
    beat_through,
    outcome,
    own_source,
    signed,
    statuses,
)

from hooklane.errors import Reject, UsageError
from hooklane.receiver import retention
from hooklane.telemetry.events import Pruned

DAY_MS = 86_400_000


def test_many_are_replayed_by_a_filter_and_everything_only_on_purpose(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("order.*")(world.effect)
    for number in range(5):
        inbox.receive(signed(f"evt_{number}", type="order.created" if number % 2 else "order.paid"))
    inbox.run_once()

    assert inbox.replay(type="order.created") == 2
    inbox.run_once()
    assert world.effects()[5:] == ["evt_1", "evt_3"]
    with pytest.raises(UsageError, match="say which rows"):
        inbox.replay()


def test_a_shadow_replay_runs_new_code_and_leaves_no_trace(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("order.*")(world.effect)
    inbox.receive(signed())
    inbox.run_once()
    later = world.inbox()

    @own_source(later).on("order.*", name="fresh")
    def new_code(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        raise KeyError("amount")

    (shadow,) = later.replay(source="hooklane", shadow=True)

    assert (shadow.event_id, shadow.handler, shadow.error) == ("evt_1", "fresh", "KeyError: 'amount'")
    assert (world.effects(), statuses(inbox)) == (["evt_1"], ["completed"])


def test_an_event_that_no_handler_wanted_can_be_replayed_to_a_new_one(world: World) -> None:
    inbox = world.inbox()
    source = own_source(inbox, order="none")
    assert outcome(inbox.receive(signed())) == "ignored"
    source.on("order.*")(world.effect)
    assert inbox.replay(event_id="evt_1") == 1
    inbox.run_once()

    assert world.effects() == ["evt_1"]


def test_a_process_without_the_handlers_can_replay_skip_and_prune(world: World) -> None:
    """As the command line does."""
    inbox = world.inbox()

    @own_source(inbox).on("*")
    def fail(event: Any, tx: Any) -> None:
        if event.seq == 1 and event.attempt == 1:
            raise Reject("no")
        world.effect(event, tx)

    for seq in (1, 2):
        inbox.receive(signed(f"a_{seq}", key="a", seq=seq))
        inbox.receive(signed(f"b_{seq}", key="b", seq=seq))
    inbox.run_once()
    desk = world.inbox()
    assert desk.skip(event_id="a_1", note="known") == 1
    assert desk.skip(event_id="b_1", note="known") == 1
    inbox.run_once()
    assert sorted(world.effects()) == ["a_2", "b_2"]
    assert desk.replay(event_id="a_2") == 0, "an applied seq is not applied again"
    assert statuses(inbox, event_id="a_2") == ["completed"]
    beat_through(desk, world.clock, days=31)
    assert desk.prune().rows == 4


def test_nothing_is_pruned_right_after_a_long_downtime_and_the_downtime_does_not_count(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("order.*")(world.effect)
    inbox.receive(signed())
    inbox.run_once()
    world.clock.pass_ms(40 * DAY_MS)  # the inbox lies still
    late = world.inbox()
    own_source(late)

    assert late.prune().rows == 0
    beat_through(late, world.clock, days=0)
    assert len(late.rows()) == 1
    assert outcome(late.receive(signed(at=world.clock.now))) == "duplicate"


def test_what_was_claimed_by_hand_grows_old_too(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, order="none").on("*")(world.effect)
    with inbox.claim("jobs", "job_1", payload=b"{}") as claim:
        assert claim.fresh
    beat_through(inbox, world.clock, days=31)
    assert inbox.prune().rows == 1
    assert inbox.rows(source="jobs") == []


def test_what_a_removed_source_left_grows_old_too(world: World) -> None:
    before = world.inbox()
    own_source(before, order="none").on("*")(world.effect)
    before.receive(signed(at=world.clock.now))
    before.run_once()
    inbox = world.inbox()
    inbox.source("renamed", [SECRET], profile="hooklane", order="none").on("*")(world.effect)
    beat_through(inbox, world.clock, days=31)

    assert inbox.prune().rows == 1
    assert inbox.rows(source="hooklane") == []


def test_a_source_of_another_process_is_left_to_it(world: World) -> None:
    other = world.inbox()
    own_source(other, order="none", retention_ms=90 * DAY_MS).on("*")(world.effect)
    inbox = world.inbox()
    inbox.source("mine", [SECRET], profile="hooklane", order="none").on("*")(world.effect)
    for event_id in ("evt_1", "evt_2"):
        other.receive(signed(event_id, at=world.clock.now))
        other.run_once()
        beat_through(inbox, world.clock, days=20)
    beat_through(inbox, world.clock, days=5)

    assert inbox.prune().rows == 0
    assert outcome(other.receive(signed("evt_1", at=world.clock.now))) == "duplicate"


def test_a_worker_prunes_until_all_that_is_old_went(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PRUNE_ROWS", 2)
    monkeypatch.setattr(retention, "PRUNE_BATCHES_MAX", 2)
    inbox = world.inbox()
    own_source(inbox, order="none").on("*")(world.effect)
    for number in range(11):
        inbox.receive(signed(f"evt_{number}", at=world.clock.now))
    inbox.run_once()
    inbox.run_once()
    beat_through(inbox, world.clock, days=31)

    left = []
    for _ in range(4):
        inbox.run_once()
        left.append(len(inbox.rows(source="hooklane")))
    assert left == [7, 3, 0, 0]
    assert [(each.rows, each.more) for each in world.told_of(Pruned)] == [(4, True), (4, True), (3, False)]


def test_a_replay_by_filter_passes_over_what_was_purged(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, order="none", payload_ms=3 * DAY_MS).on("*")(world.effect)
    for event_id in ("evt_1", "evt_2"):
        inbox.receive(signed(event_id, at=world.clock.now))
        inbox.run_once()
        beat_through(inbox, world.clock, days=2)
    assert inbox.prune().payloads == 1

    assert inbox.replay(source="hooklane") == 1
    inbox.run_once()
    assert world.effects() == ["evt_1", "evt_2", "evt_2"]


def test_a_purged_payload_still_recognises_its_duplicate(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, payload_ms=DAY_MS).on("order.*")(world.effect)
    inbox.receive(signed())
    inbox.run_once()
    beat_through(inbox, world.clock, days=2)
    assert inbox.prune().payloads == 1

    (row,) = inbox.rows()
    assert (row.message.body, row.purged) == (b"", True)
    assert outcome(inbox.receive(signed(at=world.clock.now))) == "duplicate"
    with pytest.raises(UsageError, match="purged"):
        inbox.replay(row.id)
