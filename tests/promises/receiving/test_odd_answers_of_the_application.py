"""The application's own functions and a stranger's own text: whatever they are, the event is kept and told of once."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import outcome, own_source, signed, statuses
from tests.support.processes import until

from hooklane import latest, refetch, sequence
from hooklane.errors import ConfigError, UsageError
from hooklane.model.clock import Instant, rfc3339, wall_now
from hooklane.model.message import Request
from hooklane.telemetry.events import CommitHookFailed, Refused

BOTH = pytest.mark.parametrize("mode", ["durable", "inline"])


def raises(_: Any) -> Any:
    raise KeyError("what this event does not have")


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        {"account": raises},
        {"account": lambda message: ["a", "list"]},
        {"order": sequence(key=raises, seq="seq")},
        {"order": sequence(key="key", seq=raises)},
        {"order": refetch(key=raises)},
    ],
    ids=["account", "account of no name", "key", "seq", "hint"],
)
def test_an_event_that_the_applications_own_function_cannot_read_is_a_dead_letter(
    world: World, mode: Any, options: dict[str, Any]
) -> None:
    inbox = world.inbox(mode)
    own_source(inbox, **options).on("*")(world.effect)
    reply = inbox.receive(signed(key="k", seq=1))
    inbox.run_once()

    assert (reply.status, outcome(reply), statuses(inbox)) == (200, "rejected", ["dead"])
    assert world.effects() == []


@BOTH
@pytest.mark.parametrize("order", [latest(key=raises, at="timestamp"), latest(key="id", at=raises)], ids=["key", "at"])
def test_a_function_of_latest_that_raises_makes_a_dead_letter_at_once(world: World, mode: Any, order: Any) -> None:
    inbox = world.inbox(mode)
    own_source(inbox, order=order).on("*")(world.effect)
    assert inbox.receive(signed()).status == 200
    inbox.run_once()
    (row,) = inbox.rows(source="hooklane")

    assert statuses(inbox) == ["dead"]
    assert "the application's function raised" in str(row.handlings[0].error)
    assert world.effects() == []


@BOTH
@pytest.mark.parametrize(("account", "kept"), [(None, "default"), (7, "7"), ("a\0b", None)])
def test_an_account_is_kept_under_a_name_that_every_store_can_hold(
    world: World, mode: Any, account: Any, kept: Any
) -> None:
    inbox = world.inbox(mode)
    own_source(inbox, account=lambda message: account).on("*")(world.effect)
    assert inbox.receive(signed()).status == 200
    inbox.run_once()
    (row,) = inbox.rows(source="hooklane")

    assert world.effects() == ["evt_1"]
    assert row.message.account == kept or (kept is None and row.message.account.startswith("sha256:"))


@BOTH
@pytest.mark.parametrize("key", ["a\0b", "x" * 5000])
@pytest.mark.parametrize(
    "order",
    [
        sequence(key="data.key", seq="seq"),
        refetch(key="data.key"),
        latest(key="data.key", at="timestamp"),
        latest(key="id", at="timestamp", version="data.key"),
    ],
    ids=["sequence", "refetch", "latest", "version"],
)
def test_a_key_that_no_store_could_hold_does_not_keep_its_event_out(
    world: World, mode: Any, order: Any, key: str
) -> None:
    inbox = world.inbox(mode)
    own_source(inbox, order=order).on("*")(world.effect)
    reply = inbox.receive(signed(key="k", seq=1, data={"key": key}))
    inbox.run_once()

    assert (reply.status, world.effects(), statuses(inbox)) == (200, ["evt_1"], ["completed"])


def test_long_keys_that_begin_alike_are_different_keys(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, order=latest(key="data.key", at="timestamp")).on("*")(world.effect)
    newer, older = rfc3339(Instant(2_000)), rfc3339(Instant(1_000))
    inbox.receive(signed("evt_1", data={"key": "x" * 600 + "a"}, timestamp=newer))
    inbox.receive(signed("evt_2", data={"key": "x" * 600 + "b"}, timestamp=older))
    inbox.run_once()

    assert world.effects() == ["evt_1", "evt_2"]


def test_a_header_in_no_stores_alphabet_does_not_keep_its_event_out(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    request = signed()
    odd = Request(request.method, request.url, (*request.headers, ("user-agent", "a\0b\ud800é")), request.body)
    assert inbox.receive(odd).status == 200
    inbox.run_once()

    assert world.effects() == ["evt_1"]


class Untold(Exception):
    """Has no words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unasked(Exception):
    """Hands every question on to what it wraps, which is not there: asked for `sqlstate` or `__notes__`, it fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


def nested() -> Exception:
    """Deeper than the interpreter can go: its traceback cannot be told."""
    error: Exception = ValueError("the innermost")
    for _ in range(3_000):
        error = ExceptionGroup("one more", [error])
    return error


@BOTH
@pytest.mark.parametrize("error", [Untold, Unasked, nested])
def test_an_error_that_cannot_be_told_is_recorded_all_the_same(world: World, mode: Any, error: Any) -> None:
    def fails(event: Any, tx: Any) -> None:
        raise error()

    inbox = world.inbox(mode)
    own_source(inbox).on("*")(fails)
    reply = inbox.receive(signed())
    inbox.run_once()

    assert (reply.status, statuses(inbox)) == (200 if mode == "durable" else 503, ["failed"])
    (row,) = inbox.rows(source="hooklane")
    assert str(row.handlings[0].error).startswith(type(error()).__name__)
    assert "in fails" in str(row.handlings[0].traceback)


class Panic(BaseException):
    """As Rust's libraries panic, and as gevent, eventlet and others time out: no Exception."""


@BOTH
@pytest.mark.parametrize("error", [Panic, BaseExceptionGroup], ids=["panic", "group"])
def test_what_a_library_raises_besides_exceptions_is_a_failure_of_its_handler(
    world: World, mode: Any, error: Any
) -> None:
    def fails(event: Any, tx: Any) -> None:
        raise Panic("index out of bounds") if error is Panic else BaseExceptionGroup("several", [Panic()])

    inbox = world.inbox(mode)
    own_source(inbox).on("*")(fails)
    inbox.receive(signed())
    inbox.run_once()

    assert statuses(inbox) == ["failed"]
    (row,) = inbox.rows(source="hooklane")
    assert str(row.handlings[0].error).startswith(error.__name__)


class GreenletExit(BaseException):
    """As gevent and eventlet end a thread."""


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, GreenletExit])
def test_what_ends_its_caller_is_no_failure_of_the_handler(world: World, end: type[BaseException]) -> None:
    def ends(event: Any, tx: Any) -> None:
        raise end

    inbox = world.inbox()
    own_source(inbox).on("*")(ends)
    inbox.receive(signed())
    with pytest.raises(end):
        inbox.run_once()

    assert statuses(inbox) == ["in_progress"]


def test_a_worker_outlives_a_library_that_panics(world: World) -> None:
    """Naive: its thread ends, and with it the only worker of the process."""

    def fails(event: Any, tx: Any) -> None:
        if event.id == "evt_1":
            raise Panic
        world.effect(event, tx)

    inbox = world.inbox(clock=wall_now)
    own_source(inbox).on("*")(fails)
    inbox.start_worker()
    inbox.receive(signed("evt_1"))
    until(lambda: statuses(inbox) == ["failed"], what="a failure on record")
    inbox.receive(signed("evt_2"))

    until(lambda: world.effects() == ["evt_2"], what="the next event's turn")
    inbox.close()


def test_a_commit_hook_that_panics_is_told(world: World) -> None:
    def panics() -> None:
        raise Panic

    inbox = world.inbox()
    own_source(inbox).on("*")(lambda event, tx: event.on_commit(panics))
    inbox.receive(signed())
    inbox.run_once()

    assert statuses(inbox) == ["completed"]
    (failed,) = world.told_of(CommitHookFailed)
    assert "Panic" in failed.error


@BOTH
def test_a_handler_whose_work_is_a_generator_is_a_dead_letter_and_not_done(world: World, mode: Any) -> None:
    """Naive: it gave back something, so it is done. Nothing of it has run."""

    def rows(event: Any, tx: Any) -> Any:
        yield world.effect(event, tx)

    inbox = world.inbox(mode)
    own_source(inbox).on("*")(lambda event, tx: rows(event, tx))
    inbox.receive(signed())
    inbox.run_once()

    (row,) = inbox.rows(source="hooklane")
    assert (row.overall, world.effects()) == ("dead", [])
    assert "must not yield" in (row.handlings[0].error or "")


@BOTH
def test_an_async_handler_that_returns_what_it_should_await_is_a_dead_letter_and_not_done(
    world: World, mode: Any
) -> None:
    """Naive: it was awaited, so it is done. What it gave back was not."""

    async def work(event: Any, tx: Any) -> None:
        raise AssertionError("nobody awaits it")

    async def handler(event: Any, tx: Any) -> Any:
        return work(event, tx)  # and not `await work(event, tx)`

    inbox = world.inbox(mode)
    own_source(inbox).on("*")(handler)
    inbox.receive(signed())
    inbox.run_once()

    (row,) = inbox.rows(source="hooklane")
    assert row.overall == "dead"
    assert "none of its work was done: await it" in (row.handlings[0].error or "")


def test_a_handler_that_yields_is_refused(world: World) -> None:
    def rows(event: Any, tx: Any) -> Any:
        yield event

    async def later(event: Any, tx: Any) -> Any:
        yield event

    for handler in (rows, later):
        with pytest.raises(UsageError, match="has a yield in it"):
            own_source(world.inbox()).on("*")(handler)


@BOTH
def test_a_handler_whose_work_nobody_awaited_is_a_dead_letter_and_not_done(world: World, mode: Any) -> None:
    async def works(event: Any, tx: Any) -> None:
        raise AssertionError("nobody awaits it")

    def traced(event: Any, tx: Any) -> Any:
        return works(event, tx)  # as a decorator does that does not know of async functions

    inbox = world.inbox(mode)
    own_source(inbox).on("*")(traced)
    inbox.receive(signed())
    inbox.run_once()

    (row,) = inbox.rows(source="hooklane")
    assert row.overall == "dead"
    assert "make it async def" in (row.handlings[0].error or "")


def test_a_commit_hook_that_nobody_awaited_is_told(world: World) -> None:
    async def thanks() -> None: ...

    inbox = world.inbox()
    own_source(inbox).on("*")(lambda event, tx: event.on_commit(thanks))
    inbox.receive(signed())
    inbox.run_once()

    (failed,) = world.told_of(CommitHookFailed)
    assert "make it async def" in failed.error


def test_a_resync_of_another_kind_than_its_handler_is_refused(world: World) -> None:
    async def fetch(key: str, tx: Any) -> None: ...

    order = sequence(on_gap="resync", resync=fetch)
    with pytest.raises(ConfigError, match="is sync, so resync must be"):
        own_source(world.inbox()).on("*", order=order)(world.effect)
    with pytest.raises(ConfigError, match="is async, so resync must be"):
        own_source(world.inbox()).on("*", order=sequence(on_gap="resync", resync=print))(world.aeffect)


# Replay to handlers that never saw an event


def test_a_quarantined_event_that_is_replayed_takes_its_place_in_the_sequence(world: World) -> None:
    """Naive: it is applied as if it stood alone, and who waits behind it waits for ever."""
    inbox = world.inbox()
    own_source(inbox, event_age_ms_max=3_600_000).on("*")(world.effect)
    now = world.clock.now
    for seq, at in ((1, now), (2, Instant(now - 7_200_000)), (3, now)):
        inbox.receive(signed(f"evt_{seq}", key="k", seq=seq, at=now, timestamp=rfc3339(at)))
    inbox.run_once()
    assert (world.effects(), statuses(inbox, source="hooklane")) == (["evt_1"], ["completed", "too_old", "held"])
    inbox.replay(status="too_old")
    inbox.run_once()

    assert world.effects() == ["evt_1", "evt_2", "evt_3"]


def test_events_replayed_to_a_new_handler_apply_in_sequence_when_one_fails(world: World) -> None:
    inbox = world.inbox()
    source = own_source(inbox)
    for seq in (1, 2, 3):
        assert outcome(inbox.receive(signed(f"evt_{seq}", key="k", seq=seq))) == "ignored"
    broken = True

    @source.on("*", name="new")
    def handler(event: Any, tx: Any) -> None:
        if event.seq == 2 and broken:
            raise RuntimeError("not yet")
        world.effect(event, tx)

    assert inbox.replay(status="ignored") == 3
    inbox.run_once()
    assert world.effects() == ["evt_1"]
    broken = False
    world.clock.pass_ms(60_000)
    inbox.run_once()
    inbox.receive(signed("evt_4", key="k", seq=4, at=world.clock.now))
    inbox.run_once()

    assert world.effects() == ["evt_1", "evt_2", "evt_3", "evt_4"]


# A secret that the provider tells


def asana(secret: str, *, greeting: bool = False, gid: str = "1") -> Request:
    if greeting:
        return Request.of("POST", "https://receiver.test/webhooks/asana", {"x-hook-secret": secret}, b"")
    event = {"action": "added", "resource": {"gid": gid, "resource_type": "task"}, "created_at": "2026-01-01T00:00:00Z"}
    body = json.dumps({"events": [event]}).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return Request.of("POST", "https://receiver.test/webhooks/asana", {"x-hook-signature": signature}, body)


def test_a_secret_that_arrives_in_the_first_request_is_kept_and_verifies_what_follows(world: World) -> None:
    kept: list[str] = []
    inbox = world.inbox()
    inbox.source("asana", learn=kept.append).on("*")(world.effect)
    assert inbox.receive(asana("told-in-band")).status == 401
    greeted = inbox.receive(asana("told-in-band", greeting=True))
    assert (greeted.status, dict(greeted.headers)["x-hook-secret"], kept) == (200, "told-in-band", ["told-in-band"])
    assert inbox.receive(asana("told-in-band")).status == 200
    assert inbox.receive(asana("a stranger's", greeting=True)).status == 401
    assert inbox.receive(asana("a stranger's", gid="2")).status == 401
    inbox.run_once()

    assert (len(world.effects()), kept) == (1, ["told-in-band"])


@pytest.mark.parametrize("name", ["asana", "notion"])
def test_a_blank_secret_is_refused_and_not_kept(world: World, name: str) -> None:
    kept: list[str] = []
    inbox = world.inbox()
    inbox.source(name, learn=kept.append)
    request = Request.of("POST", f"/webhooks/{name}", {"x-hook-secret": "  "}, b'{"verification_token": "  "}')
    reply = inbox.receive(request)

    assert (reply.status, kept) == (401, [])


def test_a_secret_that_could_not_be_kept_is_asked_for_again(world: World) -> None:
    inbox = world.inbox()
    inbox.source("asana", learn=raises)
    reply = inbox.receive(asana("told-in-band", greeting=True))

    assert (reply.status, world.told_of(Refused)[-1].status) == (503, 503)
    assert inbox.receive(asana("told-in-band")).status == 401
