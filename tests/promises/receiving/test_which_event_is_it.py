"""Is it the same event as before? Ids, copies, conflicts, batches and states, on every store."""

from __future__ import annotations

import hmac
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import (
    SECRET,
    beat_through,
    github,
    outcome,
    own_source,
    signed,
    signed_bytes,
    statuses,
)

from hooklane.core.profiles import find_profile
from hooklane.errors import ConfigError
from hooklane.model.clock import Instant
from hooklane.model.message import Request
from hooklane.telemetry.events import Conflicted
from hooklane.testing.build_request import Draft, build_request
from hooklane.testing.credentials import credentials
from hooklane.testing.provider import provider_for

DAY_MS = 86_400_000


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


def with_checksum_of(genuine: bytes, forged: bytes) -> bytes:
    """*forged*, an object, with a member more that gives it the CRC-32 of *genuine*: bits of it are solved for."""
    letters = 64
    head = forged.removesuffix(b"}") + b', "x": "'

    def written(bits: int) -> bytes:
        return head + bytes(0x40 | (bits >> n & 1) for n in range(letters)) + b'"}'

    plain = zlib.crc32(written(0))
    rows: dict[int, tuple[int, int]] = {}  # by its highest bit: a change of the checksum, and the letters that make it
    for n in range(letters):
        change, bits = zlib.crc32(written(1 << n)) ^ plain, 1 << n
        while change and change.bit_length() in rows:
            known = rows[change.bit_length()]
            change, bits = change ^ known[0], bits ^ known[1]
        if change:
            rows[change.bit_length()] = change, bits
    wanted, found = zlib.crc32(genuine) ^ plain, 0
    while wanted:
        change, bits = rows[wanted.bit_length()]
        wanted, found = wanted ^ change, found ^ bits
    return written(found)


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_signed_checksum_brings_one_event_only(world: World, mode: Any) -> None:
    """PayPal signs a CRC-32 of the body: naive, whoever sees one request can send any event for ever."""
    profile = find_profile("paypal")
    held = credentials(profile)
    inbox = world.inbox(mode)
    inbox.source("paypal", [held.secret], **held.options).on()(world.effect)
    at = Instant(1_700_000_000_000)
    seen, again, other = (
        build_request(profile, held, "PAYMENT.SALE.COMPLETED", {}, id=id, at=Instant(at + wait_ms), event_time=at)
        for id, wait_ms in (("WH-1", 0), ("WH-1", 60_000), ("WH-2", 60_000))
    )
    forged = replace(seen, body=with_checksum_of(seen.body, b'{"id": "WH-F", "event_type": "PAYMENT.SALE.COMPLETED"}'))

    told = [outcome(inbox.receive(each)) for each in (seen, forged, seen, again, other)]
    inbox.run_once()

    first = "stored" if mode == "durable" else "applied"
    assert told == [first, "conflict", "duplicate", "duplicate", first]
    assert world.effects() == ["WH-1", "WH-2"]


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


def test_without_an_id_the_same_content_is_the_same_event(world: World) -> None:
    inbox = world.inbox()
    inbox.source("feed", unsafe=True, profile="standard_webhooks", dedup="derived").on("*")(world.effect)
    for body in (b'{"type": "a", "n": 1}', b'{"n":1,"type":"a"}', b'{"type": "a", "n": 2}'):
        inbox.receive(Request.of("POST", "http://x/feed", {}, body))
    inbox.run_once()
    assert len(world.effects()) == 2


def test_an_id_of_ones_own_tells_events_apart_where_the_profile_knows_none(world: World) -> None:
    inbox = world.inbox()
    found = inbox.source("clickup", unsafe=True, event_id=["history_items.0.id", "task_id"])
    found.on()(world.effect)
    for task, note in (("t1", "a"), ("t1", "b"), ("t2", "a")):
        body = json.dumps({"event": "taskUpdated", "task_id": task, "note": note}).encode()
        inbox.receive(Request.of("POST", "http://x/clickup", [], body))

    assert {row.message.event_id for row in inbox.rows()} == {"t1", "t2"}
    assert statuses(inbox).count("conflict") == 1


def test_an_id_in_a_header_that_is_signed_is_a_signed_id(world: World) -> None:
    inbox = world.inbox()
    found = inbox.source("hooklane", [SECRET], event_id="header:webhook-id")
    found.on("order.*")(world.effect)

    assert found.grade == inbox.source("other", [SECRET], profile="hooklane").grade == "signed"


def test_a_certificate_that_cannot_be_fetched_now_is_no_refusal(world: World) -> None:
    inbox = world.inbox()
    known = credentials(find_profile("sns"))
    is_away = True

    def fetch(url: str) -> bytes | None:
        if is_away:
            raise OSError("the network is away")
        return known.options["certificates"](url)  # type: ignore[no-any-return]

    found = inbox.source("sns", known.secret, **{**known.options, "certificates": fetch})
    found.on()(world.effect)
    provider = provider_for("sns", found.profile, known, inbox.clock)
    sent = provider.send(Draft(type="Notification", data={"Message": "x"}, id="m1", event_time=inbox.clock()))
    first = inbox.receive(sent.request, "sns")
    is_away = False

    assert (first.status, dict(first.headers)["retry-after"]) == (503, "5")
    assert inbox.receive(sent.request, "sns").status == 200


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


def test_accounts_do_not_shadow_each_other(world: World) -> None:
    inbox = world.inbox()
    accounts = iter(["a", "b", "a"])
    own_source(inbox, account=lambda message: next(accounts)).on("*")(world.effect)
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


def test_a_source_without_a_secret_is_refused_unless_called_unsafe(world: World) -> None:
    inbox = world.inbox()
    with pytest.raises(ConfigError, match="secrets"):
        inbox.source("stripe")
    assert inbox.source("stripe", unsafe=True).grade == "unsafe"
