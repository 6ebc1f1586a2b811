"""Retention counts the time in which duplicates could come; silence is part of it, downtime is not (R5)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import DAY_MS, outcome, own_source, signed, through_lambda

from hooklane.core.admission.retention import STILL_MS, beat, cutoff
from hooklane.errors import StoreUnavailable
from hooklane.model.clock import Instant
from hooklane.model.inbox import Heartbeat
from hooklane.receiver import Inbox

HOUR_MS = 3_600_000
both_modes = pytest.mark.parametrize("mode", ["durable", "inline"])


def receiver(world: World, mode: Any = "inline", **options: Any) -> Inbox:
    """A process that receives, started now."""
    inbox = world.inbox(mode, **options)
    own_source(inbox, order="none", retention_ms=7 * DAY_MS).on("*")(world.effect)
    return inbox


def receive(inbox: Inbox, world: World, event_id: str) -> str | None:
    return outcome(inbox.receive(signed(event_id, at=world.clock.now)))


@both_modes
def test_an_inbox_with_sparse_traffic_prunes_what_is_old(world: World, mode: Any) -> None:
    """Two events a day for 20 days, and a prune a day, in a process that runs all the while."""
    inbox = receiver(world, mode)
    for day in range(20):
        for half in range(2):
            receive(inbox, world, f"evt_{day}_{half}")
            inbox.run_once()
            world.clock.pass_ms(DAY_MS // 2)
        inbox.prune()

    assert 2 * 7 <= len(inbox.rows()) <= 2 * 9
    assert receive(inbox, world, "evt_19_0") == "duplicate"


def test_a_process_that_only_prunes_can_prune_beside_a_silent_receiver(world: World) -> None:
    """As a cron job does: it sees when the receiver was last heard of, and is not itself a sign of life."""
    inbox = receiver(world)
    for day in range(16):
        receive(inbox, world, f"evt_{day}")
        world.clock.pass_ms(DAY_MS)
        receiver(world).prune()

    assert len(inbox.rows()) <= 9


def test_a_process_that_is_closed_and_started_anew_each_day_was_not_down_while_it_was_silent(world: World) -> None:
    """A deployment a day, hours after the last event; a cron job prunes."""
    for day in range(16):
        inbox = receiver(world)
        world.clock.pass_ms(DAY_MS // 2)
        receive(inbox, world, f"evt_{day}")
        world.clock.pass_ms(DAY_MS // 2)
        inbox.close()
        world.clock.pass_ms(10_000)
        receiver(world).prune()

    assert 7 <= len(receiver(world).rows()) <= 9


def test_what_is_claimed_by_hand_now_and_then_is_pruned_too(world: World) -> None:
    inbox = receiver(world)
    for day in range(16):
        with inbox.claim("hooklane", f"job_{day}", payload=b"{}") as claim:
            assert claim.fresh
        world.clock.pass_ms(DAY_MS)
        inbox.prune()

    assert len(inbox.rows()) <= 9


@both_modes
@pytest.mark.parametrize("first", ["prune", "receive"])
def test_a_process_that_was_down_for_longer_than_the_window_prunes_nothing_right_after(
    world: World, mode: Any, first: str
) -> None:
    before = receiver(world, mode)
    receive(before, world, "evt_1")
    before.run_once()
    before.close()
    world.clock.pass_ms(40 * DAY_MS)  # nobody receives
    inbox = receiver(world, mode)
    if first == "receive":
        receive(inbox, world, "evt_2")
        inbox.run_once()
    assert inbox.prune().rows == 0
    world.clock.pass_ms(2 * HOUR_MS)
    receive(inbox, world, "evt_3")
    assert inbox.prune().rows == 0, "nor later: the downtime does not count"

    assert receive(inbox, world, "evt_1") == "duplicate"
    for _ in range(8):
        world.clock.pass_ms(DAY_MS)
        receive(inbox, world, "evt_3")
        inbox.run_once()
    inbox.prune()
    assert inbox.rows(event_id="evt_1") == [], "but after its retention of uptime it goes"


def test_a_worker_that_runs_while_nobody_receives_is_no_sign_of_a_receiver(world: World) -> None:
    web = receiver(world, "durable")
    receive(web, world, "evt_1")
    web.close()
    worker = receiver(world, "durable")
    for _ in range(40):
        worker.run_once()
        world.clock.pass_ms(DAY_MS)
        worker.run_once()
    worker.prune()
    web = receiver(world, "durable")

    assert receive(web, world, "evt_1") == "duplicate"


def test_a_store_that_was_away_is_downtime_although_the_process_ran(world: World) -> None:
    is_away = [False]

    def failpoint(point: str) -> None:
        if is_away[0]:
            raise StoreUnavailable("the store is away")

    inbox = receiver(world, failpoint=failpoint)
    receive(inbox, world, "evt_1")
    is_away[0] = True
    for _ in range(40):
        world.clock.pass_ms(DAY_MS)
        assert inbox.receive(signed("evt_2", at=world.clock.now)).status == 503
    is_away[0] = False
    world.clock.pass_ms(2 * HOUR_MS)
    receive(inbox, world, "evt_2")
    inbox.prune()

    assert receive(inbox, world, "evt_1") == "duplicate"


def test_a_function_that_is_started_for_each_request_prunes_too(world: World) -> None:
    """Lambda: what the platform starts and ends says nothing about whether requests are answered."""
    for day in range(16):
        inbox = receiver(world)
        assert through_lambda(inbox)(signed(f"evt_{day}", at=world.clock.now)).status == 200
        world.clock.pass_ms(20 * HOUR_MS)
        receiver(world).prune()
        inbox.close()

    assert len(receiver(world).rows()) <= 12


def test_a_gap_counts_from_the_last_sign_of_life_to_the_start_of_the_process() -> None:
    last, now = Heartbeat(Instant(1_000_000)), Instant(1_000_000 + 10 * HOUR_MS)
    was_up = beat(last, now, retention_ms=7 * DAY_MS, up_since=Instant(900_000))
    was_down = beat(last, now, retention_ms=7 * DAY_MS, up_since=Instant(1_000_000 + 4 * HOUR_MS))

    assert (was_up.down_ms, was_up.seen_at) == (0, now)
    assert (was_down.down_ms, was_down.down_until) == (4 * HOUR_MS, 1_000_000 + 4 * HOUR_MS)
    assert beat(last, now, retention_ms=7 * DAY_MS).down_ms == 10 * HOUR_MS, "who beats each minute was still"
    assert beat(last, Instant(last.seen_at + STILL_MS), retention_ms=7 * DAY_MS).down_ms == 0


def test_while_nobody_is_heard_of_the_cutoff_stands() -> None:
    seen = Heartbeat(Instant(100 * DAY_MS))
    cutoffs = {
        cutoff(seen, Instant(day * DAY_MS), retention_ms=7 * DAY_MS, settle_ms=HOUR_MS) for day in (100, 110, 200)
    }
    assert cutoffs == {93 * DAY_MS}
