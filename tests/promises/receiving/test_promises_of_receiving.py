"""What promise.md says about receiving, on every store."""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import (
    SECRET,
    beat_through,
    github,
    header,
    outcome,
    own_source,
    signed,
    signed_bytes,
    statuses,
)

from hooklane.core.admission.breaker import BreakerPolicy
from hooklane.core.admission.failures import RetryPolicy
from hooklane.errors import ConfigError, Reject, Retry, StoreUnavailable, TransactionMisused, UsageError
from hooklane.model.clock import wall_now
from hooklane.model.message import Request, Status
from hooklane.telemetry.events import BreakerTurned, CommitHookFailed, Conflicted, Handled, Received, Refused
from hooklane.testing.conformance_inbox import together

DAY_MS = 86_400_000


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_an_event_takes_effect_once_however_often_it_comes(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    own_source(inbox).on("order.*")(world.effect)
    verdicts = []
    for _ in range(3):
        verdicts.append(outcome(inbox.receive(signed())))
        inbox.run_once()

    assert ["stored" if mode == "durable" else "applied", "duplicate", "duplicate"] == verdicts
    assert world.effects() == ["evt_1"]


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


def test_nothing_is_acknowledged_before_it_is_stored(world: World) -> None:
    def power_cut(point: str) -> None:
        if point == "before_commit":
            raise StoreUnavailable("power cut")

    inbox = world.inbox(failpoint=power_cut)
    own_source(inbox).on("order.*")(world.effect)
    reply = inbox.receive(signed())

    assert (reply.status, header(reply, "retry-after"), outcome(reply)) == (503, "5", "busy")
    assert world.inbox().rows() == []


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
    assert ((again := inbox.receive(signed())).status, outcome(again)) == (200, "duplicate")


def test_a_dead_letter_is_replayed_with_the_same_id_and_bytes(world: World) -> None:
    inbox = world.inbox()
    broken = [True]

    @own_source(inbox).on("order.*")
    def mended(event: Any, tx: Any) -> None:
        if broken[0]:
            raise Reject("no")
        world.effect(event, tx)

    inbox.receive(signed())
    inbox.run_once()
    broken[0] = False
    (row,) = inbox.rows(status=Status.DEAD)
    assert inbox.replay(row.id) == 1
    inbox.run_once()

    assert (world.effects(), statuses(inbox)) == (["evt_1"], ["completed"])


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


def test_the_same_id_with_another_body_is_kept_apart_and_never_applied(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("order.*")(world.effect)
    inbox.receive(signed(data={"amount": 1}))
    inbox.run_once()
    reply = inbox.receive(signed(data={"amount": 1_000_000}))
    again = inbox.receive(signed(data={"amount": 1_000_000}))

    assert (reply.status, outcome(reply)) == (422, "conflict"), "our own sender is told"
    assert again.status == 422
    assert inbox.run_once() == 0
    assert statuses(inbox) == ["completed", "conflict"]
    assert world.effects() == ["evt_1"]
    assert len(world.told_of(Conflicted)) == 2


def test_a_third_party_is_told_200_about_a_conflict(world: World) -> None:
    inbox = world.inbox()
    inbox.source("other", [SECRET], profile="standard_webhooks")
    first = inbox.receive(signed_bytes("m1", b'{"type": "a"}', source="other"))
    second = inbox.receive(signed_bytes("m1", b'{"type": "b"}', source="other"))

    assert (first.status, second.status, outcome(second)) == (200, 200, "conflict")


def test_a_body_that_cannot_be_read_is_kept_as_a_dead_letter_and_answered_200(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox).on("*")(world.effect)
    poisons = [b"[" * 100_000, b'{"n": ' + b"9" * 5000 + b"}", b'{"n": NaN}', b'{"s": "\\ud800"}', b"\xff\xfe",
               b'{"a": 1, "a": 2}', b"not json"]  # fmt: skip
    for number, body in enumerate(poisons):
        reply = inbox.receive(signed_bytes(f"evt_{number}", body))
        assert (reply.status, outcome(reply)) == (200, "rejected")

    assert inbox.run_once() == 0
    assert statuses(inbox) == ["dead"] * len(poisons)
    assert [row.message.body for row in inbox.rows()] == poisons
    assert all("poison" in str(row.reason) for row in inbox.rows())


def test_an_id_that_nobody_signed_is_no_proof(world: World) -> None:
    inbox = world.inbox()
    inbox.source("github", ["hush-hush-hush"]).on("*")(world.effect)
    inbox.receive(github({"ref": "main", "after": "abc"}, delivery="d-1"))
    replayed = inbox.receive(github({"ref": "main", "after": "abc"}, delivery="d-2"))
    inbox.run_once()

    assert (replayed.status, outcome(replayed)) == (200, "conflict")
    assert len(world.effects()) == 1


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_token_that_signs_no_event_brings_one_event_only(world: World, mode: Any) -> None:
    """Mailgun signs a token: naive, whoever sees one request can send any event for five minutes."""
    inbox = world.inbox(mode)
    inbox.source("mailgun", ["signing key"]).on("*")(world.effect)
    seconds = str(world.clock.now // 1000)

    def deliver(event_id: str, token: str) -> str | None:
        signature = hmac.digest(b"signing key", (seconds + token).encode(), "sha256").hex()
        signed = {"timestamp": seconds, "token": token, "signature": signature}
        body = json.dumps({"signature": signed, "event-data": {"id": event_id, "event": "opened"}}).encode()
        return outcome(inbox.receive(Request.of("POST", "http://x/webhooks/mailgun", {}, body)))

    first = "stored" if mode == "durable" else "applied"
    assert [deliver("seen", "t1"), deliver("forged", "t1"), deliver("seen", "t1")] == [first, "conflict", "duplicate"]
    assert [deliver("seen", "t2"), deliver("next", "t3")] == ["duplicate", first]
    inbox.run_once()

    assert world.effects() == ["seen", "next"]


def test_a_tombstone_guards_longer_than_the_row(world: World) -> None:
    inbox = world.inbox()
    inbox.source("github", ["hush-hush-hush"]).on("*")(world.effect)
    captured = github({"ref": "main", "after": "abc"}, delivery="d-1")
    inbox.receive(captured)
    inbox.run_once()
    beat_through(inbox, world.clock, days=31)
    inbox.prune()

    assert inbox.rows() == []
    assert outcome(inbox.receive(captured)) == "duplicate"


def test_an_event_from_before_the_dedup_window_is_quarantined(world: World) -> None:
    inbox = world.inbox()
    own_source(inbox, event_age_ms_max=20 * DAY_MS).on("*")(world.effect)
    reply = inbox.receive(signed(timestamp="2020-01-01T00:00:00Z"))
    inbox.run_once()

    assert (reply.status, outcome(reply)) == (200, "too_old")
    assert (statuses(inbox), world.effects()) == (["too_old"], [])


@pytest.mark.parametrize(
    ("where", "expected"),
    [("eventId", "e"), ("event.hash", "h"), ("id", "i"), ("header:X-Id", "x"), (lambda event: event["a"][0], "f")],
)
def test_the_event_id_is_wherever_the_source_says(world: World, where: Any, expected: str) -> None:
    inbox = world.inbox()
    inbox.source("feed", unsafe=True, profile="standard_webhooks", event_id=where).on("*")(world.effect)
    body = {"eventId": "e", "event": {"hash": "h"}, "id": "i", "a": ["f"], "type": "t"}
    inbox.receive(Request.of("POST", "http://x/feed", {"X-Id": "x"}, json.dumps(body).encode()))
    inbox.run_once()
    assert world.effects() == [expected]


def test_without_an_id_the_same_content_is_the_same_event(world: World) -> None:
    inbox = world.inbox()
    inbox.source("feed", unsafe=True, profile="standard_webhooks", dedup="derived").on("*")(world.effect)
    for body in (b'{"type": "a", "n": 1}', b'{"n":1,"type":"a"}', b'{"type": "a", "n": 2}'):
        inbox.receive(Request.of("POST", "http://x/feed", {}, body))
    inbox.run_once()
    assert len(world.effects()) == 2


def test_a_window_in_which_an_old_copy_passes_as_new_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="at least 7 days"):
        own_source(world.inbox(), retention_ms=DAY_MS)
    with pytest.raises(ConfigError, match="less than retention_ms"):
        own_source(world.inbox(), event_age_ms_max=31 * DAY_MS)


def test_a_batch_is_one_row_for_each_of_its_events(world: World) -> None:
    inbox = world.inbox()
    inbox.source("sendgrid", unsafe=True).on("*")(world.effect)
    items = [{"sg_event_id": f"s{number}", "event": "open", "timestamp": 1} for number in (1, 2, 1)]
    request = Request.of("POST", "http://x/webhooks/sendgrid", {}, json.dumps(items).encode())
    first, second = inbox.receive(request), inbox.receive(request)
    inbox.run_once()

    assert (first.status, second.status, outcome(second)) == (200, 200, "duplicate")
    assert sorted(world.effects()) == ["s1", "s2"]


def test_tenants_do_not_shadow_each_other(world: World) -> None:
    inbox = world.inbox()
    tenants = iter(["a", "b", "a"])
    own_source(inbox, tenant=lambda message: next(tenants)).on("*")(world.effect)
    verdicts = [outcome(inbox.receive(signed())) for _ in range(3)]

    assert verdicts == ["stored", "stored", "duplicate"]


def test_a_state_that_comes_back_is_not_lost(world: World) -> None:
    inbox = world.inbox()
    feed: dict[str, Any] = {"unsafe": True, "profile": "standard_webhooks", "order": "none"}
    inbox.source("feed", dedup="state_token", event_id="hash", key="entity", **feed).on("*")(world.effect)
    for state in ("A", "A", "B", "A", "A"):
        body = json.dumps({"entity": "match:1", "hash": state, "type": "odds"}).encode()
        inbox.receive(Request.of("POST", "http://x/webhooks/feed", {}, body))
    inbox.run_once()

    assert world.effects() == ["A", "B", "A"]


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_states_of_one_batch_follow_each_other_as_they_came(world: World, mode: Any) -> None:
    inbox = world.inbox(mode)
    feed: dict[str, Any] = {"unsafe": True, "profile": "sportsstack", "order": "none"}
    inbox.source("feed", **feed).on("*")(world.effect)
    fresh: list[int] = []
    for states in (["B", "A"], ["B"], ["A", "B", "A"], ["A"], ["B"]):
        before = len(world.effects())
        events = [{"common_model_id": "match:1", "hash": state, "type": "odds"} for state in states]
        body = json.dumps({"events": events}).encode()
        assert inbox.receive(Request.of("POST", "http://x/webhooks/feed", {}, body)).status == 200
        inbox.run_once()
        fresh.append(len(world.effects()) - before)

    assert fresh == [2, 1, 3, 0, 1]


def test_a_state_is_applied_by_every_handler_and_after_a_failure_too(world: World) -> None:
    inbox = world.inbox("inline")
    feed: dict[str, Any] = {"unsafe": True, "profile": "standard_webhooks", "order": "none"}
    source = inbox.source("feed", dedup="state_token", event_id="hash", key="entity", **feed)
    source.on("*", name="first")(world.effect)
    failures = [RuntimeError("down")]

    @source.on("*", name="second")
    def second(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        if failures:
            raise failures.pop()

    body = json.dumps({"entity": "match:1", "hash": "A", "type": "odds"}).encode()
    replies = [inbox.receive(Request.of("POST", "http://x/webhooks/feed", {}, body)) for _ in range(3)]

    assert [reply.status for reply in replies] == [503, 200, 200]
    assert [outcome(reply) for reply in replies] == ["busy", "applied", "duplicate"]
    assert world.effects() == ["A", "A"]


def test_what_is_old_is_pruned_and_what_is_owed_never(world: World) -> None:
    inbox = world.inbox()
    source = own_source(inbox, order="none")
    source.on("order.created")(world.effect)

    @source.on("order.failed")
    def fail(event: Any, tx: Any) -> None:
        raise Reject("dead")

    inbox.receive(signed("evt_1"))
    inbox.receive(signed("evt_2", type="order.failed"))
    inbox.run_once()
    inbox.receive(signed("evt_3"))
    beat_through(inbox, world.clock, days=31)
    pruned = inbox.prune()

    assert pruned.rows == 1
    assert [row.message.event_id for row in inbox.rows()] == ["evt_2", "evt_3"]


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


def test_an_event_claimed_by_hand_is_fresh_once(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()
    seen = []
    for _ in range(2):
        with inbox.claim("smartcar", "evt_9", payload=b'{"a": 1}') as claim:
            seen.append(claim.fresh)
            if claim.fresh:
                world.effect(claim.event, claim.tx)

    assert (seen, claim.verdict, world.effects()) == ([True, False], "duplicate", ["evt_9"])
    with inbox.claim("smartcar", "evt_9", payload=b'{"a": 2}') as other:
        assert (other.fresh, other.verdict) == (False, "conflict")


def test_a_block_that_raises_undoes_its_claim(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()

    def fail(claim: Any) -> None:
        world.effect(claim.event, claim.tx)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), inbox.claim("smartcar", "evt_9") as claim:
        fail(claim)

    assert world.effects() == []
    with inbox.claim("smartcar", "evt_9") as claim:
        assert (claim.fresh, claim.event.attempt) == (True, 2)
        world.effect(claim.event, claim.tx)
    assert world.effects() == ["evt_9"]


async def test_an_event_can_be_claimed_by_hand_in_async_code(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()
    seen = []
    for _ in range(2):
        async with inbox.claim("smartcar", "evt_9") as claim:
            seen.append(claim.fresh)
            if claim.fresh:
                await world.aeffect(claim.event, claim.tx)

    assert (seen, world.effects()) == ([True, False], ["evt_9"])
    await inbox.aclose()


@pytest.mark.parametrize("how", ["commit", "rollback", "sql"])
@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_handler_that_ends_the_transaction_itself_is_told_so(sql_world: World, mode: Any, how: str) -> None:
    world, inbox = sql_world, sql_world.inbox(mode)

    @own_source(inbox).on("*")
    def meddler(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        if how == "sql":
            tx.execute("COMMIT")
        else:
            getattr(tx, how)()

    inbox.receive(signed())
    inbox.run_once()

    (row,) = inbox.rows()
    assert row.overall is Status.DEAD
    assert "commit" in str(row.handlings[0].error)
    assert "TransactionMisused" in str(row.handlings[0].error)
    if world.name == "sqlite":
        assert world.effects() == [], "there it is not even possible"


def test_a_block_that_commits_is_told_so(sql_world: World) -> None:
    inbox = sql_world.inbox()
    with pytest.raises(TransactionMisused), inbox.claim("smartcar", "evt_9") as claim:
        claim.tx.execute("COMMIT")


def test_a_savepoint_in_a_handler_is_fine(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()

    @own_source(inbox).on("*")
    def careful(event: Any, tx: Any) -> None:
        tx.execute("SAVEPOINT maybe")
        world.effect(event, tx)
        tx.execute("ROLLBACK TO SAVEPOINT maybe")
        world.effect(event, tx)

    inbox.receive(signed())
    inbox.run_once()
    assert (statuses(inbox), world.effects()) == (["completed"], ["evt_1"])


def test_a_source_without_a_secret_is_refused_unless_called_unsafe(world: World) -> None:
    inbox = world.inbox()
    with pytest.raises(ConfigError, match="secrets"):
        inbox.source("stripe")
    assert inbox.source("stripe", unsafe=True).grade == "unsafe"


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
