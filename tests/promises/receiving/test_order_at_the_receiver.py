"""Events of one key are applied in the right order, whatever the network and the handlers do."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import SECRET, beat_through, header, outcome, own_source, signed, statuses

from hooklane.core.admission.failures import RetryPolicy
from hooklane.errors import ConfigError, Reject, Retry
from hooklane.model.clock import wall_now
from hooklane.model.message import Request, Status
from hooklane.receiver import Event, latest, refetch, sequence
from hooklane.telemetry.events import FenceRejected, GapClosed, WorkerTroubled


def in_lane(seq: int, *, key: str = "order:7", prev_seq: int | None = None, **options: Any) -> Request:
    return signed(f"{key.replace(':', '_')}_{seq}", key=key, seq=seq, prev_seq=prev_seq, **options)


def drain(inbox: Any, world: World, passes: int = 50) -> None:
    """Work until nothing is due, retries included."""
    for _ in range(passes):
        if not inbox.run_once():
            return
    raise AssertionError("the inbox never came to rest")


def test_a_handler_that_fails_on_seq_3_never_lets_seq_4_apply_first(world: World) -> None:
    inbox = world.inbox()
    tried: list[int | None] = []

    @own_source(inbox).on("*")
    def fails_on_three(event: Event, tx: Any) -> None:
        tried.append(event.seq)
        if event.seq == 3 and event.attempt < 3:
            raise RuntimeError("not yet")
        world.effect(event, tx)

    for seq in (1, 2, 3, 4, 5):
        assert inbox.receive(in_lane(seq)).status == 200
    drain(inbox, world)
    assert tried == [1, 2, 3]
    world.clock.pass_ms(3_600_000)
    drain(inbox, world)
    assert tried == [1, 2, 3, 3]
    world.clock.pass_ms(3_600_000)
    drain(inbox, world)

    assert [f"order_7_{seq}" for seq in (1, 2, 3, 4, 5)] == world.effects()
    assert tried == [1, 2, 3, 3, 3, 4, 5]


def test_other_keys_go_on_while_one_waits(world: World) -> None:
    inbox = world.inbox()

    @own_source(inbox).on("*")
    def stuck(event: Event, tx: Any) -> None:
        if event.key == "A":
            raise RuntimeError("stuck")
        world.effect(event, tx)

    for seq, key in itertools.product((1, 2), "AB"):
        inbox.receive(in_lane(seq, key=key))
    drain(inbox, world)
    assert world.effects() == ["B_1", "B_2"]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_order_of_arrival_every_key_applies_in_sequence(world: World, seed: int) -> None:
    inbox = world.inbox()
    own_source(inbox, order=sequence(baseline=1)).on("*")(world.effect)
    chance = random.Random(seed)
    deliveries = [in_lane(seq, key=key) for seq in range(1, 8) for key in "AB"] * 2
    chance.shuffle(deliveries)
    for delivery in deliveries:
        inbox.receive(delivery)
        if chance.random() < 0.5:
            inbox.run_once(limit=chance.randint(1, 3))
    drain(inbox, world)

    for key in "AB":
        applied = [each for each in world.effects() if each.startswith(key)]
        assert [f"{key}_{seq}" for seq in range(1, 8)] == applied


@pytest.mark.parametrize("seqs", [(4, 5, 6), (6, 5, 4), (5, 4, 6)], ids=str)
def test_a_key_begins_at_the_earliest_of_the_first_events_that_come_together(
    world: World, seqs: tuple[int, ...]
) -> None:
    inbox = world.inbox()
    items = [{"sg_event_id": f"s{seq}", "event": "open", "timestamp": 1, "of": "k", "nr": seq} for seq in seqs]
    order = sequence(key="of", seq="nr")
    inbox.source("sendgrid", unsafe=True, order=order).on("*", name="h")(world.effect)

    reply = inbox.receive(Request.of("POST", "http://x/webhooks/sendgrid", {}, json.dumps(items).encode()))
    for _ in seqs:
        inbox.run_once()

    assert reply.status == 200
    assert world.effects() == ["s4", "s5", "s6"]


def test_one_that_comes_early_is_held_and_then_released(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    inbox.receive(in_lane(1))
    inbox.run_once()
    early = inbox.receive(in_lane(3))
    inbox.run_once()
    assert (early.status, outcome(early), world.effects()) == (200, "held", ["order_7_1"])
    assert statuses(inbox, event_id="order_7_3") == ["held"]
    inbox.receive(in_lane(2))
    drain(inbox, world)

    assert world.effects() == ["order_7_1", "order_7_2", "order_7_3"]


def test_one_whose_predecessor_is_here_but_not_applied_is_no_gap(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    assert [outcome(inbox.receive(in_lane(seq))) for seq in (1, 2, 3)] == ["stored", "stored", "stored"]
    drain(inbox, world)
    assert world.effects() == ["order_7_1", "order_7_2", "order_7_3"]


def test_an_inline_gap_is_refused_and_says_what_is_expected(world: World) -> None:
    inbox = world.inbox("inline", clock=wall_now)
    own_source(inbox).on("*")(world.effect)
    assert outcome(inbox.receive(in_lane(1))) == "applied"
    gap = inbox.receive(in_lane(3))
    assert (gap.status, header(gap, "webhook-expected-seq"), outcome(gap)) == (409, "2", "held")
    assert len(inbox.rows()) == 1, "nothing of it was stored"
    assert outcome(inbox.receive(in_lane(2))) == "applied"
    assert outcome(inbox.receive(in_lane(3))) == "applied"

    assert world.effects() == ["order_7_1", "order_7_2", "order_7_3"]


def test_after_a_skip_by_the_sender_the_successor_names_the_last_one_that_was_acked(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    inbox.receive(in_lane(6))
    inbox.receive(in_lane(8, prev_seq=6))
    drain(inbox, world)
    late = inbox.receive(in_lane(7))

    assert world.effects() == ["order_7_6", "order_7_8"]
    assert (late.status, outcome(late)) == (200, "stale")
    assert inbox.run_once() == 0


def test_an_old_seq_is_stopped_by_the_cursor_even_when_its_row_is_gone(world: World) -> None:
    """F65: the dedup row expired, and the copy comes back."""
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    for seq in (1, 2):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    beat_through(inbox, world.clock, days=31)
    assert inbox.prune().rows == 2
    again = inbox.receive(in_lane(1, at=world.clock.now))
    drain(inbox, world)

    assert (again.status, outcome(again)) == (200, "stale")
    assert world.effects() == ["order_7_1", "order_7_2"]


def test_a_dead_letter_blocks_its_key_until_it_is_replayed(world: World) -> None:
    inbox = world.inbox()
    broken = [True]

    @own_source(inbox).on("*", retry=RetryPolicy(attempts_max=1))
    def poison(event: Event, tx: Any) -> None:
        if event.seq == 1 and broken[0]:
            raise RuntimeError("bug")
        world.effect(event, tx)

    for seq in (1, 2):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    assert (statuses(inbox), world.effects()) == (["dead", "held"], [])
    broken[0] = False
    inbox.replay(status="dead")
    drain(inbox, world)
    assert world.effects() == ["order_7_1", "order_7_2"]


def test_a_dead_letter_can_be_skipped_by_hand_and_the_key_moves_on(world: World) -> None:
    inbox = world.inbox()

    @own_source(inbox).on("*")
    def poison(event: Event, tx: Any) -> None:
        if event.seq == 1:
            raise Reject("bug")
        world.effect(event, tx)

    for seq in (1, 2):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    assert inbox.skip(status="dead", note="known") == 1
    drain(inbox, world)
    assert (statuses(inbox), world.effects()) == (["ignored", "completed"], ["order_7_2"])


@pytest.mark.parametrize("policy", ["skip", "resync"])
def test_a_dead_letter_lets_its_key_go_on_where_the_policy_says_so(world: World, policy: Any) -> None:
    inbox = world.inbox()
    fetched: list[str] = []
    order = sequence(on_dead=policy, resync=lambda key, tx: fetched.append(key))

    @own_source(inbox, order=order).on("*")
    def poison(event: Event, tx: Any) -> None:
        if event.seq == 1:
            raise Reject("bug")
        world.effect(event, tx)

    for seq in (1, 2):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    assert (statuses(inbox), world.effects()) == (["dead", "completed"], ["order_7_2"])
    assert fetched == ([] if policy == "skip" else ["order:7"])


@pytest.mark.parametrize("policy", ["stop", "skip", "resync"])
def test_a_gap_is_waited_out_and_then_treated_by_policy(world: World, policy: Any) -> None:
    inbox = world.inbox()
    fetched: list[str] = []
    order = sequence(gap_timeout=60, on_gap=policy, resync=lambda key, tx: fetched.append(key))
    own_source(inbox, order=order).on("*")(world.effect)
    for seq in (1, 3, 4):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    world.clock.pass_ms(59_000)
    assert inbox.runner.run(inbox.gaps.close()) == 0
    world.clock.pass_ms(2_000)
    closed = inbox.runner.run(inbox.gaps.close())
    drain(inbox, world)

    expected = ["order_7_1"] if policy == "stop" else ["order_7_1", "order_7_3", "order_7_4"]
    assert (0 if policy == "stop" else 1, expected) == (closed, world.effects())
    assert fetched == (["order:7"] if policy == "resync" else [])
    assert [each.by for each in world.told_of(GapClosed)] == ([] if policy == "stop" else [policy])


def test_a_failing_predecessor_is_no_gap_however_long_it_takes(world: World) -> None:
    inbox = world.inbox()

    @own_source(inbox, order=sequence(gap_timeout=1, on_gap="skip")).on("*")
    def slow(event: Event, tx: Any) -> None:
        if event.seq == 1 and event.attempt == 1:
            raise Retry(after=3600)
        world.effect(event, tx)

    for seq in (1, 2):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    world.clock.pass_ms(600_000)
    assert inbox.runner.run(inbox.gaps.close()) == 0
    world.clock.pass_ms(3_600_000)
    drain(inbox, world)
    assert world.effects() == ["order_7_1", "order_7_2"]


def test_a_type_that_a_handler_does_not_want_still_counts_in_its_key(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("order.paid")(world.effect)
    inbox.receive(in_lane(1, type="order.paid"))
    assert outcome(inbox.receive(in_lane(2, type="order.seen"))) == "ignored"
    inbox.receive(in_lane(3, type="order.paid"))
    drain(inbox, world)

    assert world.effects() == ["order_7_1", "order_7_3"]
    assert statuses(inbox) == ["completed", "ignored", "completed"]


def test_a_type_that_nobody_wants_moves_its_key_on_in_inline_mode_without_a_worker(world: World) -> None:
    inbox = world.inbox("inline", clock=wall_now)
    own_source(inbox).on("order.paid")(world.effect)
    paid, seen = {"type": "order.paid"}, {"type": "order.seen"}
    outcomes = [outcome(inbox.receive(in_lane(seq, **kind))) for seq, kind in ((1, paid), (2, seen), (3, paid))]
    early = inbox.receive(in_lane(5, **seen))
    again = inbox.receive(in_lane(2, **seen))
    late = inbox.receive(signed("another", key="order:7", seq=2, **seen))

    assert (outcomes, world.effects()) == (["applied", "ignored", "applied"], ["order_7_1", "order_7_3"])
    assert (early.status, header(early, "webhook-expected-seq")) == (409, "4")
    assert (outcome(again), outcome(late)) == ("duplicate", "stale")
    assert statuses(inbox) == ["completed", "ignored", "completed", "stale"]


BOTH = pytest.mark.parametrize("mode", ["durable", "inline"])


def of_order(data: Any) -> Any:
    """Where the orders of a shop are; what is no order has none, and this raises."""
    return data["data"]["order"]


BY_ORDER = sequence(key=lambda data: of_order(data)["id"], seq=lambda data: of_order(data)["version"])


@BOTH
def test_a_function_that_cannot_read_other_types_keeps_them_from_no_handler(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    source = own_source(inbox, order="none")
    source.on("order.*", order=BY_ORDER, name="orders")(world.effect)
    source.on("order.*", order=refetch(key=lambda data: of_order(data)["id"]), name="hints")(lambda event, tx: None)
    source.on("customer.*", name="customers")(world.effect)
    replies = [
        inbox.receive(signed("evt_1", type="order.created", data={"order": {"id": "o", "version": 1}})),
        inbox.receive(signed("evt_2", type="customer.created", data={"customer": 7})),
        inbox.receive(signed("evt_3", type="order.paid", data={"order": {"id": "o", "version": 2}})),
    ]
    drain(inbox, world)

    assert [outcome(reply) for reply in replies] == ["stored" if mode == "durable" else "applied"] * 3
    assert (world.effects(), set(statuses(inbox))) == (["evt_1", "evt_2", "evt_3"], {"completed"})


@BOTH
@pytest.mark.parametrize("order", [BY_ORDER, refetch(key=lambda data: of_order(data)["id"])], ids=["place", "hint"])
def test_an_event_that_one_handlers_function_cannot_read_is_a_dead_letter_of_that_one_only(
    world: World, mode: Any, order: Any
) -> None:
    inbox = world.inbox(mode)
    source = own_source(inbox, order="none")
    source.on("order.*", order=order, name="broken")(world.effect)
    source.on("order.*", name="plain")(world.effect)
    reply = inbox.receive(signed(type="order.created"))
    again = inbox.receive(signed(type="order.created"))
    drain(inbox, world)
    (row,) = inbox.rows()
    handled = {each.handler: each for each in row.handlings}

    assert (reply.status, outcome(reply), outcome(again)) == (200, "rejected", "duplicate")
    assert (handled["broken"].status, handled["plain"].status, world.effects()) == ("dead", "completed", ["evt_1"])
    assert "KeyError: 'order'" in (handled["broken"].error or "")
    assert "of_order" in (handled["broken"].traceback or "")
    assert inbox.replay(status="dead", handler="broken") == 1
    drain(inbox, world)
    assert (statuses(inbox), world.effects()) == (["dead"], ["evt_1"]), "it still cannot be read"


def test_an_event_that_is_replayed_to_functions_that_cannot_read_it_is_given_to_the_others(world: World) -> None:
    inbox = world.inbox()
    source = own_source(inbox, order="none")
    for number, word in ((1, "order.created"), (2, "customer.created")):
        assert outcome(inbox.receive(signed(f"evt_{number}", type=word))) == "ignored"
    source.on("order.*", order=BY_ORDER, name="orders")(world.effect)
    source.on("*", name="all")(world.effect)

    assert inbox.replay(source="hooklane") == 2
    drain(inbox, world)
    assert (world.effects(), statuses(inbox)) == (["evt_1", "evt_2"], ["dead", "completed"])


def test_what_a_mended_function_can_read_takes_its_place_in_the_sequence_when_it_is_replayed(world: World) -> None:
    inbox = world.inbox()
    field = ["wrong"]
    order = sequence(key="key", seq=lambda data: data["data"][field[0]])
    own_source(inbox, order=order).on("*")(world.effect)

    def come(*numbers: int) -> None:
        for number in numbers:
            inbox.receive(in_lane(number, data={"right": number}))
        drain(inbox, world)

    come(2)
    field[0] = "right"
    come(1, 3)
    assert (world.effects(), statuses(inbox)) == (["order_7_1"], ["dead", "completed", "held"])
    inbox.replay(status="dead")
    drain(inbox, world)
    assert world.effects() == ["order_7_1", "order_7_2", "order_7_3"]


def test_what_is_replayed_and_early_waits_for_its_predecessor(world: World) -> None:
    inbox = world.inbox()
    field = ["wrong"]
    order = sequence(key="key", seq=lambda data: data["data"][field[0]], baseline=1)
    own_source(inbox, order=order).on("*")(world.effect)
    inbox.receive(in_lane(2, data={"right": 2}))
    field[0] = "right"
    inbox.replay(status="dead")
    drain(inbox, world)
    assert world.effects() == []
    inbox.receive(in_lane(1, data={"right": 1}))
    drain(inbox, world)
    world.clock.pass_ms(3_600_000)
    drain(inbox, world)

    assert world.effects() == ["order_7_1", "order_7_2"]


@BOTH
def test_a_seq_that_is_no_whole_number_is_a_dead_letter_and_not_applied_out_of_order(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    own_source(inbox, order=sequence(key="data.k", seq="data.n")).on("*")(world.effect)
    wrong = (2**63, -1, 2.5, float(2**60), "two", True, [2], "9" * 19)
    for number, seq in enumerate((1, *wrong)):
        inbox.receive(signed(f"evt_{number}", data={"k": "k", "n": seq}))
    drain(inbox, world)
    dead = inbox.rows(status=Status.DEAD)

    assert (world.effects(), len(dead)) == (["evt_0"], len(wrong))
    assert all("a seq must be a whole number" in (row.handlings[0].error or "") for row in dead)


def test_a_seq_is_the_same_number_as_text_or_with_a_point(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, order=sequence(key="data.k", seq="data.n")).on("*")(world.effect)
    for number, seq in enumerate((1, 3.0, "4", 2)):
        inbox.receive(signed(f"evt_{number}", data={"k": "k", "n": seq}))
    drain(inbox, world)

    assert world.effects() == ["evt_0", "evt_3", "evt_1", "evt_2"]


def test_an_event_without_a_key_stands_in_no_line(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    inbox.receive(signed("evt_a"))
    inbox.receive(in_lane(2))
    drain(inbox, world)
    assert world.effects() == ["evt_a", "order_7_2"]


def test_wrong_orders_are_refused_with_all_that_is_wrong() -> None:
    with pytest.raises(ConfigError) as refused:
        sequence(on_gap="jump", on_dead="resync", gap_timeout=0)  # type: ignore[arg-type]
    assert len(refused.value.problems) == 3


# The latest wins


def stamped(number: int, at: Any, *, entity: str = "sub_1", type: str = "sub.updated", **more: Any) -> Request:
    body = {"id": f"e{number}", "type": type, "created": at, "data": {"object": {"id": entity}}, **more}
    return Request.of("POST", "http://x/webhooks/shop", {}, json.dumps(body).encode())


def shop(inbox: Any, handler: Any, **options: Any) -> None:
    source = inbox.source("shop", profile="standard_webhooks", unsafe=True, event_id="id")
    source.on("*", order=latest(key="data.object.id", at="created", **options))(handler)


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_an_older_event_never_overwrites_a_newer_one(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    shop(inbox, world.effect)
    for number, at in enumerate([100, 300, 200, 300.5, "1970-01-01T00:05:00.4Z", 301]):
        inbox.receive(stamped(number, at))
        drain(inbox, world)

    assert world.effects() == ["e0", "e1", "e3", "e5"]
    assert [each.message.event_id for each in inbox.rows(status=Status.STALE)] == ["e2", "e4"]


def test_times_are_compared_as_times_and_not_as_text(world: World) -> None:
    inbox = world.inbox()
    shop(inbox, world.effect)
    times = ["2026-01-01T10:00:45Z", "2026-01-01T10:00:45.500Z", "2026-01-01T12:00:46+02:00", "2026-01-01T10:00:45.9Z"]
    for number, at in enumerate(times):
        inbox.receive(stamped(number, at))
        drain(inbox, world)
    assert world.effects() == ["e0", "e1", "e2"]


def test_entities_are_apart_and_a_failed_event_is_not_its_own_successor(world: World) -> None:
    inbox = world.inbox()
    failed: list[str] = []

    def once_failing(event: Event, tx: Any) -> None:
        if not failed:
            failed.append(event.id)
            raise Retry(after=0)
        world.effect(event, tx)

    shop(inbox, once_failing)
    inbox.receive(stamped(1, 100))
    inbox.receive(stamped(2, 50, entity="sub_2"))
    drain(inbox, world)
    assert sorted(world.effects()) == ["e1", "e2"]


def test_ties_go_by_version_then_rank_of_the_type_then_id(world: World) -> None:
    inbox = world.inbox()
    shop(inbox, world.effect, version="v")
    cases = [(1, "sub.updated", None), (2, "sub.created", None), (3, "sub.deleted", None), (4, "sub.updated", 2),
             (5, "sub.updated", 10), (6, "sub.updated", 9)]  # fmt: skip
    for number, type, version in cases:
        inbox.receive(stamped(number, 100, type=type, v=version))
        drain(inbox, world)
    assert world.effects() == ["e1", "e3", "e4", "e5"]


def test_types_of_one_second_that_follow_the_creation_are_applied_after_it(world: World) -> None:
    inbox = world.inbox()
    shop(inbox, world.effect)
    for number, word in enumerate(["created", "finalized", "paid", "deleted", "paid"]):
        inbox.receive(stamped(number, 100, type=f"invoice.{word}"))
        drain(inbox, world)
    inbox.receive(stamped(9, 100, type="invoice.created"))
    drain(inbox, world)

    assert world.effects() == ["e0", "e1", "e2", "e3"]
    assert [each.message.event_id for each in inbox.rows(status=Status.STALE)] == ["e4", "e9"]


def test_a_late_update_cannot_raise_the_dead(world: World) -> None:
    inbox = world.inbox()
    shop(inbox, world.effect)
    inbox.receive(stamped(1, 200, type="sub.deleted"))
    drain(inbox, world)
    inbox.receive(stamped(2, 150, type="sub.updated"))
    inbox.receive(stamped(3, 200, type="sub.updated"))
    drain(inbox, world)
    assert world.effects() == ["e1"]


def test_a_tie_may_ask_the_provider(world: World) -> None:
    inbox = world.inbox()
    tied: list[tuple[str, bool]] = []
    shop(inbox, lambda event, tx: tied.append((event.id, event.tied)), on_tie="refetch")
    for number, at in [(2, 100), (1, 100), (3, 90)]:
        inbox.receive(stamped(number, at))
        drain(inbox, world)
    assert tied == [("e2", False), ("e1", True)]


def test_a_clock_ahead_of_time_is_quarantined_and_freezes_nothing(world: World) -> None:
    inbox = world.inbox()
    shop(inbox, world.effect)
    inbox.receive(stamped(1, "2999-01-01T00:00:00Z"))
    inbox.receive(stamped(2, 100))
    drain(inbox, world)
    (dead,) = inbox.rows(status=Status.DEAD)

    assert (dead.message.event_id, "future_clock" in str(dead.handlings[0].error)) == ("e1", True)
    assert world.effects() == ["e2"]


def test_an_event_that_does_not_say_when_is_a_dead_letter_and_not_a_guess(world: World) -> None:
    inbox = world.inbox()
    shop(inbox, world.effect)
    inbox.receive(stamped(1, None))
    drain(inbox, world)
    assert (statuses(inbox), world.effects()) == (["dead"], [])


# Thin events


def test_hints_about_one_key_are_coalesced(world: World) -> None:
    inbox = world.inbox()
    fetched: list[str] = []
    source = own_source(inbox, order="none")

    @source.on("*", order=refetch(key="data.id"))
    def fetch(event: Event, tx: Any) -> None:
        fetched.append(event.data["id"])
        world.effect(event, tx)

    for number in range(6):
        inbox.receive(signed(f"evt_{number}", data={"id": f"car{number % 2}"}))
    drain(inbox, world)
    assert fetched == ["car0", "car1"]
    inbox.receive(signed("evt_9", data={"id": "car0"}))
    drain(inbox, world)

    assert fetched == ["car0", "car1", "car0"], "a hint that comes after the fetch is fetched again"
    assert set(statuses(inbox)) == {"completed"}


def test_the_newest_event_of_an_entity_is_applied_again_when_it_is_replayed_and_an_older_one_is_not(
    world: World,
) -> None:
    inbox = world.inbox()
    own_source(inbox, order=latest(key="data.id", at="data.at")).on("*")(world.effect)
    for number in (1, 2):
        inbox.receive(signed(f"evt_{number}", data={"id": "o", "at": 1_700_000_000 + number}))
    inbox.run_once()
    inbox.replay(source="hooklane")
    inbox.run_once()

    assert world.effects() == ["evt_1", "evt_2", "evt_2"]


def test_what_was_applied_in_its_place_of_a_sequence_is_not_applied_once_more(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    for seq in (1, 2):
        inbox.receive(in_lane(seq))
    drain(inbox, world)

    assert inbox.replay(source="hooklane") == 0
    drain(inbox, world)

    assert world.effects() == ["order_7_1", "order_7_2"]
    assert statuses(inbox) == ["completed", "completed"], "and it still says that it was applied"


def test_a_dead_letter_that_was_passed_over_does_not_keep_a_later_gap_open(world: World) -> None:
    inbox = world.inbox()

    @own_source(inbox, order=sequence(gap_timeout=10, on_gap="skip", on_dead="skip")).on("*")
    def rejects_two(event: Event, tx: Any) -> None:
        if event.seq == 2:
            raise Reject("never")
        world.effect(event, tx)

    for seq in (1, 2, 3, 5):
        inbox.receive(in_lane(seq))
        drain(inbox, world)
    world.clock.pass_ms(20_000)
    inbox.runner.run(inbox.tend())
    drain(inbox, world)
    assert world.effects() == ["order_7_1", "order_7_3", "order_7_5"]


def test_keys_that_wait_for_a_person_do_not_keep_others_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklane.receiver.gaps.PAGE", 2)
    inbox = world.inbox()
    own_source(inbox, order=sequence(gap_timeout=10, on_gap="stop")).on("*", name="careful")(world.effect)
    other = inbox.source("other", [SECRET], profile="hooklane", order=sequence(gap_timeout=10, on_gap="skip"))
    other.on("*", name="carefree")(world.effect)
    lanes = [("hooklane", f"stopped_{number}") for number in range(9)] + [("other", "skipped")]
    for source, key in lanes:
        for seq in (1, 3):
            inbox.receive(in_lane(seq, key=key, source=source))
        drain(inbox, world)
        world.clock.pass_ms(100)
    for _ in range(4):
        world.clock.pass_ms(20_000)
        inbox.runner.run(inbox.tend())
    drain(inbox, world)
    assert [effect for effect in world.effects() if effect.endswith("_3")] == ["skipped_3"]


def test_a_resync_that_fails_keeps_no_other_key_waiting(world: World) -> None:
    inbox = world.inbox()
    away = {"bad"}

    def fetch(key: str, tx: Any) -> None:
        if key in away:
            raise ConnectionError("the provider is away")

    order = sequence(gap_timeout=10, on_gap="resync", resync=fetch)
    own_source(inbox, order=order).on("*")(world.effect)
    for key, seq in itertools.product(("bad", "good"), (1, 3)):
        inbox.receive(in_lane(seq, key=key))
        world.clock.pass_ms(100)
    drain(inbox, world)
    for _ in range(2):
        world.clock.pass_ms(20_000)
        inbox.runner.run(inbox.tend())
        drain(inbox, world)
        assert [effect for effect in world.effects() if effect.endswith("_3")] == ["good_3"]
    assert "the provider is away" in world.told_of(WorkerTroubled)[0].error
    away.clear()
    world.clock.pass_ms(20_000)
    inbox.runner.run(inbox.tend())
    drain(inbox, world)
    assert world.effects()[-1] == "bad_3"


def test_a_dead_letter_whose_resync_fails_is_put_off_and_keeps_no_other_waiting(world: World) -> None:
    inbox = world.inbox()
    away, fetched = {"bad"}, []

    def fetch(key: str, tx: Any) -> None:
        if key in away:
            raise ConnectionError("the provider is away")
        fetched.append(key)

    order = sequence(on_dead="resync", resync=fetch)

    @own_source(inbox, order=order, retry=RetryPolicy(attempts_max=1)).on("*")
    def fails_on_bad(event: Event, tx: Any) -> None:
        if (event.key, event.seq) == ("bad", 1):
            raise RuntimeError("never")
        world.effect(event, tx)

    for key, seq in itertools.product(("bad", "good"), (1, 2)):
        inbox.receive(in_lane(seq, key=key))
    drain(inbox, world)
    assert world.effects() == ["good_1", "good_2"]
    (first,) = inbox.rows(event_id="bad_1")
    assert first.handlings[0].error == "resync: ConnectionError: the provider is away; after RuntimeError: never"
    assert world.told_of(FenceRejected) == []

    away.clear()
    world.clock.pass_ms(3_600_000)
    drain(inbox, world)
    assert (fetched, world.effects()) == (["bad"], ["good_1", "good_2", "bad_2"])
    assert statuses(inbox, event_id="bad_1") == ["dead"]


def test_whoever_calls_run_once_needs_nobody_else_to_close_gaps(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, order=sequence(gap_timeout=10, on_gap="skip")).on("*")(world.effect)
    for seq in (1, 3):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    assert world.effects() == ["order_7_1"]
    world.clock.pass_ms(20_000)
    assert inbox.run_once() == 1
    assert world.effects() == ["order_7_1", "order_7_3"]


def test_gaps_are_closed_also_while_there_is_always_something_to_handle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklane.receiver.worker.TEND_MS", 0)
    inbox = world.inbox()
    own_source(inbox, order=sequence(gap_timeout=10, on_gap="skip")).on("*")(world.effect)
    for seq in (1, 3):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    world.clock.pass_ms(20_000)
    for number in range(5):
        inbox.receive(in_lane(1, key=f"busy_{number}"))
    assert inbox.run_once(2) == 2
    assert statuses(inbox, event_id="order_7_3") == ["pending"]


def test_a_key_that_waits_for_what_never_came_goes_on_when_a_person_skips(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    for seq in (1, 4, 5, 6):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    assert world.effects() == ["order_7_1"]
    assert inbox.skip(event_id="order_7_5", note="not before 4") == 0
    assert inbox.skip(event_id="order_7_4", note="2 and 3 are lost") == 1
    drain(inbox, world)
    assert world.effects() == ["order_7_1", "order_7_5", "order_7_6"]
    assert outcome(inbox.receive(in_lane(3))) == "stale"


def test_a_held_event_is_not_given_up_before_what_it_waits_for(world: World) -> None:
    inbox = world.inbox()
    failures = [RuntimeError("not yet")]

    @own_source(inbox).on("*")
    def fails_once(event: Event, tx: Any) -> None:
        if event.seq == 2 and failures:
            raise failures.pop()
        world.effect(event, tx)

    for seq in (1, 2, 3, 4):
        inbox.receive(in_lane(seq))
    drain(inbox, world)
    assert inbox.skip(status="held", note="in a hurry") == 0
    world.clock.pass_ms(3_600_000)
    drain(inbox, world)
    assert world.effects() == [f"order_7_{seq}" for seq in (1, 2, 3, 4)]


def test_a_dead_letter_without_a_place_fetches_no_key(world: World) -> None:
    inbox = world.inbox()
    fetched: list[str] = []
    order = sequence(on_dead="resync", resync=lambda key, tx: fetched.append(key))

    @own_source(inbox, order=order, retry=RetryPolicy(attempts_max=1)).on("*")
    def fails(event: Event, tx: Any) -> None:
        raise RuntimeError("never")

    inbox.receive(signed())
    drain(inbox, world)

    assert (statuses(inbox), fetched) == (["dead"], [])
