"""Handlers, sync and async, and what becomes of their effects, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import (
    header,
    outcome,
    own_source,
    signed,
    statuses,
)

from hooklane.errors import ConfigError, Retry
from hooklane.model.clock import wall_now
from hooklane.model.message import Request, Status
from hooklane.telemetry.events import CommitHookFailed
from hooklane.testing.conformance_inbox import together


@pytest.mark.parametrize("mode", ["durable", "inline"])
async def test_async_handlers_take_effect_once_too(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    own_source(inbox).on("order.*")(world.aeffect)
    replies = await asyncio.gather(*(inbox.areceive(signed()) for _ in range(4)))
    await inbox.arun_once()

    assert {reply.status for reply in replies} == {200}
    assert world.effects() == ["evt_1"]
    await inbox.aclose()


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_async_handlers_can_be_reached_from_sync_code(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    own_source(inbox).on("order.*")(world.aeffect)
    assert inbox.receive(signed()).status == 200
    inbox.run_once()

    assert world.effects() == ["evt_1"]


@pytest.mark.parametrize("mode", ["durable", "inline"])
async def test_sync_handlers_can_be_reached_from_async_code(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    own_source(inbox).on("order.*")(world.effect)
    assert (await inbox.areceive(signed())).status == 200
    await inbox.arun_once()

    assert world.effects() == ["evt_1"]
    await inbox.aclose()


def test_each_handler_has_its_own_status(world: World) -> None:
    inbox = world.inbox("inline")
    source = own_source(inbox, order="none")
    source.on("order.*", name="good")(world.effect)

    @source.on("*", name="bad")
    def bad(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        raise RuntimeError("down")

    assert inbox.receive(signed()).status == 503
    (row,) = inbox.rows()
    assert {each.handler: each.status for each in row.handlings} == {"good": Status.COMPLETED, "bad": Status.FAILED}
    assert world.effects() == ["evt_1"]


def test_raw_bytes_and_the_headers_that_prove_them_are_kept_and_no_credential(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("order.*")(world.effect)
    request = signed()
    secretive = (*request.headers, ("authorization", "Bearer hush"), ("cookie", "a=b"), ("x-api-key", "hush"))
    inbox.receive(Request(request.method, request.url, secretive, request.body))

    (row,) = inbox.rows()
    assert request.body == row.message.body
    assert {name for name, _ in row.headers} == {
        "content-type",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    }


def test_what_runs_after_the_commit_runs_once_and_its_error_is_told(world: World) -> None:
    inbox = world.inbox()
    calls: list[int] = []

    @own_source(inbox).on("*")
    def hooked(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        event.on_commit(lambda: calls.append(len(world.effects())))
        event.on_commit(lambda: 1 // 0)

    inbox.receive(signed())
    inbox.run_once()
    assert (calls, statuses(inbox)) == ([1], ["completed"])
    assert len(world.told_of(CommitHookFailed)) == 1


def test_a_step_key_is_the_same_at_every_attempt_and_another_for_every_step(world: World) -> None:
    inbox = world.inbox()
    keys: list[tuple[str, str]] = []

    @own_source(inbox).on("*")
    def charge(event: Any, tx: Any) -> None:
        keys.append((event.step_key("charge"), event.step_key("mail")))
        if event.attempt < 3:
            raise Retry(after=0)

    inbox.receive(signed())
    for _ in range(4):
        inbox.run_once()
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0][0] != keys[0][1]


def test_copies_that_come_together_in_inline_mode_wait_or_are_told_to_come_back(world: World) -> None:
    inbox = world.inbox("inline", clock=wall_now)
    own_source(inbox).on("*")(world.effect)
    replies = together(6, lambda _: inbox.receive(signed()))

    assert {reply.status for reply in replies} == {200}
    assert sorted(str(outcome(reply)) for reply in replies) == ["applied"] + ["duplicate"] * 5
    assert world.effects() == ["evt_1"]


def test_more_requests_than_a_source_takes_are_told_429(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, rate_limit=1.0).on("*")(world.effect)
    replies = [inbox.receive(signed(f"evt_{number}")) for number in range(4)]
    assert [reply.status for reply in replies] == [200, 200, 429, 429]
    assert header(replies[2], "retry-after") == "1"
    world.clock.pass_ms(1_000)
    assert inbox.receive(signed("evt_2")).status == 200
    with pytest.raises(ConfigError, match="rate_limit"):
        own_source(world.inbox(), rate_limit=0)
