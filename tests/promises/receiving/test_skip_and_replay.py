"""Of two people who decide about the same dead letters at the same moment, one decides each of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import own_source, signed
from tests.support.pace import scaled_s

from hooklane import Reject
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
