"""Replay and skip do what was asked for and no more: by a status only what is in it, and of two people who decide about
the same dead letters at the same moment one decides each of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import beat_through, own_source, signed, signed_bytes
from tests.support.pace import scaled_s

from hooklane import Reject, Retry
from hooklane.model.message import Status
from hooklane.receiver import Event, Inbox

LETTERS = 24


def dead_letters(world: World, calls: list[str]) -> Inbox:
    inbox = world.inbox("durable")

    @own_source(inbox, order="none").on("*", name="handler")
    def handler(event: Event, tx: Any) -> None:
        calls.append(event.id)
        raise Reject("as the test wants it")

    for number in range(LETTERS):
        inbox.receive(signed(f"evt_{number}"))
    inbox.run_once()
    calls.clear()
    return inbox


def test_each_dead_letter_is_skipped_or_replayed_and_never_both(world: World) -> None:
    calls: list[str] = []
    inbox = dead_letters(world, calls)
    ids = [row.id for row in inbox.rows(status=Status.DEAD)]
    assert len(ids) == LETTERS
    together = threading.Barrier(2)

    def replay() -> int:
        together.wait(scaled_s(30))
        return sum(inbox.replay(id) for id in ids)

    def skip() -> int:
        together.wait(scaled_s(30))
        return inbox.skip(ids, note="known")

    with ThreadPoolExecutor(2) as threads:
        acts = [threads.submit(replay), threads.submit(skip)]
        replayed, skipped = (act.result(scaled_s(60)) for act in acts)
    inbox.run_once()

    assert replayed + skipped >= LETTERS
    by_status = {status: [row.message.event_id for row in inbox.rows(status=status)] for status in Status}
    # Who replays by id what another has skipped, and sees it so, owes it again: then it is not skipped any more.
    assert sorted(by_status[Status.DEAD]) == sorted(set(calls)), "the handler ran although it was skipped"
    assert len(by_status[Status.IGNORED]) + len(by_status[Status.DEAD]) == LETTERS
    assert len(calls) == len(set(calls))


def test_two_who_act_on_all_dead_letters_at_once_each_come_to_the_end(world: World) -> None:
    calls: list[str] = []
    inbox = dead_letters(world, calls)
    together = threading.Barrier(2)

    def act(of: Any) -> int:
        together.wait(scaled_s(30))
        done: int = of()
        return done

    with ThreadPoolExecutor(2) as threads:
        acts = [
            threads.submit(act, lambda: inbox.replay(status=Status.DEAD)),
            threads.submit(act, lambda: inbox.skip(status=Status.DEAD, note="known")),
        ]
        replayed, skipped = (one.result(scaled_s(60)) for one in acts)
    inbox.run_once()

    assert (replayed + skipped, len(calls)) == (LETTERS, replayed)


def test_a_dead_letter_that_cannot_be_read_can_be_given_up_and_grows_old(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, order="none").on("*", name="handler")(world.effect)
    inbox.receive(signed_bytes("evt_1", b"\x1f\x8b", at=world.clock.now))
    assert inbox.stats().dead == 1

    assert inbox.skip(status="dead", note="garbage", handler="handler") == 0
    assert [inbox.skip(status="dead", note="garbage") for _ in range(2)] == [1, 0]
    (row,) = inbox.rows(source="hooklane")
    assert (row.overall, row.reason, inbox.stats().dead) == (Status.IGNORED, "skipped: garbage", 0)
    beat_through(inbox, world.clock, days=31)
    assert inbox.prune().rows == 1


def test_a_dead_letter_of_a_mended_source_is_dead_no_more_after_its_replay(world: World) -> None:
    inbox = world.inbox()
    accounts: dict[str, str] = {}
    source = own_source(inbox, order="none", account=lambda message: accounts[message.event_id])
    source.on("*", name="handler")(world.effect)
    inbox.receive(signed(at=world.clock.now))
    assert inbox.stats().dead == 1

    accounts["evt_1"] = "mended"
    assert inbox.replay(status="dead") == 1
    inbox.run_once()
    assert (world.effects(), ends(inbox), inbox.stats().dead) == (["evt_1"], {"handler": "completed"}, 0)
    assert inbox.rows(status="dead") == []


def three_ends(world: World, calls: list[str]) -> Inbox:
    """One event that was applied by `charge`, is dead for `mail`, and is to be tried again by `crm`."""
    inbox = world.inbox("durable")
    source = own_source(inbox, order="none")

    @source.on("*", name="charge")
    def charge(event: Event, tx: Any) -> None:
        calls.append("charge")

    @source.on("*", name="mail")
    def mail(event: Event, tx: Any) -> None:
        calls.append("mail")
        raise Reject("bad template")

    @source.on("*", name="crm")
    def crm(event: Event, tx: Any) -> None:
        calls.append("crm")
        raise Retry(after=3600)

    inbox.receive(signed())
    inbox.run_once()
    calls.clear()
    return inbox


def ends(inbox: Inbox) -> dict[str, str]:
    (row,) = inbox.rows(source="hooklane")
    return {each.handler: str(each.status) for each in row.handlings}


def test_a_replay_by_status_runs_only_the_handlers_that_are_in_it(world: World) -> None:
    calls: list[str] = []
    inbox = three_ends(world, calls)

    assert inbox.replay(status="dead", handler="charge") == 0
    assert inbox.replay(status="dead") == 1
    inbox.run_once()
    assert calls == ["mail"]


def test_a_shadow_replay_by_status_runs_only_the_handlers_that_are_in_it(world: World) -> None:
    calls: list[str] = []
    inbox = three_ends(world, calls)

    assert [shadow.handler for shadow in inbox.replay(status="dead", shadow=True)] == ["mail"]
    assert calls == ["mail"]


def test_a_replay_by_status_gives_an_event_to_no_handler_that_came_later(world: World) -> None:
    calls: list[str] = []
    inbox = three_ends(world, calls)

    @inbox.sources["hooklane"].on("*", name="later")
    def later(event: Event, tx: Any) -> None:
        calls.append("later")

    assert inbox.replay(status="dead") == 1
    inbox.run_once()
    assert calls == ["mail"]
    assert inbox.replay(source="hooklane", handler="later") == 1
    inbox.run_once()
    assert calls == ["mail", "later"]


def test_a_skip_by_status_gives_up_only_what_is_in_it(world: World) -> None:
    inbox = three_ends(world, [])

    assert inbox.skip(status="dead", note="no mail") == 1
    assert ends(inbox) == {"charge": "completed", "mail": "ignored", "crm": "failed"}


@pytest.mark.parametrize(("status", "left"), [(None, "pending"), ("pending", "ignored")])
def test_a_skip_gives_up_what_is_pending_only_when_it_is_asked_for(world: World, status: Any, left: str) -> None:
    inbox = three_ends(world, [])
    inbox.replay(source="hooklane", handler="charge")

    inbox.skip(source="hooklane", status=status, note="known")
    assert ends(inbox)["charge"] == left
