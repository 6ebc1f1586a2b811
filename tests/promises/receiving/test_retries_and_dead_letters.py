"""A handler that fails, asks for more time or gives up, on every store."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pydantic
import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import (
    outcome,
    own_source,
    signed,
    statuses,
)

from hooklane.core.admission.breaker import BreakerPolicy
from hooklane.core.admission.failures import RetryPolicy
from hooklane.errors import Reject, Retry, StoreUnavailable
from hooklane.model.message import Request, Status
from hooklane.telemetry.events import BreakerTurned, Handled, Received, Refused

DAY_MS = 86_400_000


def test_a_failing_handler_is_retried_with_growing_full_jitter_and_dies_with_its_story(world: World) -> None:
    inbox = world.inbox()

    @own_source(inbox).on("order.*", retry=RetryPolicy(attempts_max=3))
    def down(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        raise RuntimeError("the bank is closed")

    inbox.receive(signed())
    waits = []
    while inbox.run_once():
        (handled,) = world.told_of(Handled)[-1:]
        waits.append(handled.retry_in_ms)
        world.clock.pass_ms(handled.retry_in_ms or 0)

    assert waits == [2500, 5000, None]
    (row,) = inbox.rows(status=Status.DEAD)
    (handling,) = row.handlings
    assert (3, world.effects()) == (handling.attempts, [])
    assert "the bank is closed" in str(handling.error)
    assert "in down" in str(handling.traceback)
    assert signed().body == row.message.body


def test_a_handler_may_say_when_to_come_back(world: World) -> None:
    inbox = world.inbox()

    @own_source(inbox).on("order.*")
    def later(event: Any, tx: Any) -> None:
        if event.attempt == 1:
            raise Retry(after=90)
        world.effect(event, tx)

    inbox.receive(signed())
    inbox.run_once()
    world.clock.pass_ms(89_999)
    assert inbox.run_once() == 0
    world.clock.pass_ms(1)
    assert inbox.run_once() == 1
    assert world.effects() == ["evt_1"]


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_after_any_number_of_times_put_off_an_outage_does_not_kill_an_event(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    calls: list[int] = []

    @own_source(inbox, order="none").on("order.*")
    def later(event: Any, tx: Any) -> None:
        calls.append(event.attempt)
        if len(calls) <= 100:
            raise Retry("not yet", after=1)
        if len(calls) <= 120:
            raise StoreUnavailable("the database that the handler writes to is away")
        world.effect(event, tx)

    for _ in range(122):
        inbox.receive(signed(at=world.clock.now))
        inbox.run_once()
        world.clock.pass_ms(60_000)

    assert (len(calls), statuses(inbox)) == (121, ["completed"])
    assert world.effects() == ["evt_1"]


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_an_event_that_is_put_off_on_purpose_ends_by_its_age_and_not_by_attempts(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    calls: list[int] = []
    errors: list[Exception] = []

    @own_source(inbox, order="none", breaker=BreakerPolicy(calls_min=3)).on("order.*")
    def later(event: Any, tx: Any) -> None:
        calls.append(event.attempt)
        raise errors.pop() if errors else Retry("not yet", after=60)

    def deliver() -> None:
        if mode == "inline":
            inbox.receive(signed(at=world.clock.now))
        world.clock.pass_ms(60_000)
        inbox.run_once()

    inbox.receive(signed(at=world.clock.now))
    for _ in range(30):
        deliver()
    assert statuses(inbox) == ["failed"]
    assert len(calls) >= 30
    assert calls[:7] == [1, 2, 3, 4, 5, 6, 7], "and there are attempts left for a bug"
    errors.append(RuntimeError("a bug"))
    deliver()
    assert statuses(inbox) == ["failed"]
    world.clock.pass_ms(8 * DAY_MS)
    inbox.run_once()

    (row,) = inbox.rows()
    assert (str(row.overall), "age_max" in str(row.handlings[0].error)) == ("dead", True)
    assert world.told_of(BreakerTurned) == [], "the handler says when, so nothing needs to pause it"


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_rejected_event_is_a_dead_letter_at_once_and_the_sender_stops(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)

    @own_source(inbox).on("order.*")
    def never(event: Any, tx: Any) -> None:
        raise Reject("not ours")

    reply = inbox.receive(signed())
    inbox.run_once()

    assert (200, "stored" if mode == "durable" else "rejected") == (reply.status, outcome(reply))
    assert statuses(inbox) == ["dead"]
    assert [one.error for row in inbox.rows() for one in row.handlings] == ["Reject: not ours"]
    assert ((again := inbox.receive(signed())).status, outcome(again)) == (200, "duplicate")


def test_attempts_and_deliveries_are_told_apart_from_events(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("order.*")(world.effect)
    for number in (1, 2, 3):
        request = signed()
        inbox.receive(
            Request(request.method, request.url, (*request.headers, ("x-attempt", str(number))), request.body)
        )
    inbox.run_once()
    inbox.stats()

    (row,) = inbox.rows()
    assert (row.message.attempt, row.copies) == (1, 3)
    assert [each.attempt for each in world.told_of(Received)] == [1, 2, 3]
    assert world.effects() == ["evt_1"]


def test_every_verdict_is_told_with_its_source_and_no_payload(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("order.*")(world.effect)
    inbox.receive(signed())
    inbox.receive(signed())
    forged = signed()
    inbox.receive(Request(forged.method, forged.url, forged.headers, b"{}"))
    inbox.run_once()

    assert [str(each.verdict) for each in world.told_of(Received)] == ["stored", "duplicate"]
    assert [(each.source, each.reason, each.status) for each in world.told_of(Refused)] == [
        ("hooklane", "mismatch", 401)
    ]
    assert [(each.status, each.attempt) for each in world.told_of(Handled)] == [(Status.COMPLETED, 1)]
    assert "order.created" in repr(world.told)
    assert '"n": 1' not in repr(world.told)


def test_stats_tell_what_is_owed_how_old_it_is_and_what_died(world: World) -> None:
    inbox = world.inbox()

    @own_source(inbox, order="none").on("*")
    def maybe(event: Any, tx: Any) -> None:
        if event.type == "order.bad":
            raise Reject("no")

    inbox.receive(signed("evt_1", type="order.bad"))
    inbox.run_once()
    inbox.receive(signed("evt_2"))
    world.clock.pass_ms(1500)
    stats = inbox.stats()

    assert (stats.dead, stats.total(Status.PENDING), stats.lag_ms) == (1, 1, 1500)


def no_json(_: Any) -> None:
    json.loads("<html>502 Bad Gateway</html>")


def no_text(_: Any) -> None:
    b"\xff".decode()


def no_msgspec(_: Any) -> None:
    msgspec.json.decode(b"<html>502 Bad Gateway</html>")


@pytest.mark.parametrize("mode", ["durable", "inline"])
@pytest.mark.parametrize("ask", [no_json, no_text, no_msgspec])
def test_an_answer_of_another_service_that_cannot_be_read_is_asked_for_again(world: World, mode: Any, ask: Any) -> None:
    """Naive: what cannot be read is poison. A service that is down answers HTML, and every event died of it."""
    inbox = world.inbox(mode)
    calls: list[int] = []

    @own_source(inbox).on("order.*")
    def reserve(event: Any, tx: Any) -> None:
        calls.append(event.attempt)
        if len(calls) == 1:
            ask(event)
        world.effect(event, tx)

    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    assert statuses(inbox) == ["failed"]
    world.clock.pass_ms(60_000)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()

    assert (world.effects(), statuses(inbox)) == (["evt_1"], ["completed"])


def no_model(event: Any) -> None:
    class Order(pydantic.BaseModel):
        lines: list[int]

    Order.model_validate(event.data)


def no_struct(event: Any) -> None:
    class Order(msgspec.Struct):
        lines: list[int]

    msgspec.convert(event.data, Order)


@pytest.mark.parametrize("mode", ["durable", "inline"])
@pytest.mark.parametrize("read", [no_model, no_struct])
def test_an_event_that_does_not_fit_the_handlers_model_is_a_dead_letter_at_once(
    world: World, mode: Any, read: Any
) -> None:
    """It would not fit at the eighth attempt either, and must not open a breaker."""
    inbox = world.inbox(mode)
    calls: list[int] = []

    @own_source(inbox).on("order.*")
    def ship(event: Any, _: Any) -> None:
        calls.append(event.attempt)
        read(event)

    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    world.clock.pass_ms(60_000)
    inbox.run_once()

    assert (calls, statuses(inbox)) == ([1], ["dead"])
