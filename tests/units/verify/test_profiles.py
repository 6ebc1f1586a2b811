"""Every profile accepts what its provider sends, reads it right, and says how much that proves."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hooklane.core.profiles import find_profile, profile_names
from hooklane.core.verify.document import canonical
from hooklane.core.verify.messages import DERIVED, Poison, fingerprint
from hooklane.core.verify.open_request import Messages, open_request, unsigned
from hooklane.core.verify.places import (
    InBody,
    InEnvelope,
    InHeader,
    Joined,
    Proven,
    Reading,
    dig,
    read_at,
    read_first,
)
from hooklane.core.verify.profile import Dedup, Grade, Profile
from hooklane.core.verify.reading import Unit, read_instant
from hooklane.core.verify.ring import keyring
from hooklane.core.verify.scheme import SignedItems, Token
from hooklane.core.verify.shared_secret import Algorithm, BadSecret, HmacKey
from hooklane.core.verify.urls import effective_url
from hooklane.errors import ConfigError, UsageError, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Message, Request
from hooklane.testing.build_request import Draft, build_batch, build_request
from hooklane.testing.credentials import credentials
from hooklane.testing.sign_request import sign_request

AT = Instant(1_700_000_000_000)
LATER = Instant(AT + 3_600_000)

# What the issue and the list of providers ask for by name.
ASKED = [
    "standard_webhooks",
    "hooklane",
    "stripe",
    "github",
    "gitlab",
    "bitbucket",
    "shopify",
    "slack",
    "smartcar",
    "sportsstack",
    "twilio",
    "square",
    "paddle",
    "discord",
    "sendgrid",
    "paypal",
    "adyen",
    "linear",
    "mailgun",
    "meta",
    "hubspot",
    "twitch",
    "zendesk",
    "docusign",
    "pagerduty",
    "typeform",
    "zoom",
    "mux",
    "razorpay",
    "calendly",
    "persona",
    "workos",
    "recurly",
    "lemonsqueezy",
    "launchdarkly",
    "dropbox",
    "sentry",
    "xero",
    "woocommerce",
    "notion",
    "asana",
    "vercel",
    "intercom",
    "paystack",
    "trello",
    "airtable",
    "telegram",
    "okta",
    "postmark",
]

every_profile = pytest.mark.parametrize("name", profile_names())


def messages_of(profile: Profile, request: Request, now: Instant = AT, *, seed: str = "hooklane") -> list[Message]:
    held = credentials(profile, seed)
    opened = open_request(request, profile, keyring(profile, [held.secret], **held.options), now, source="src")
    assert isinstance(opened, Messages)
    assert all(isinstance(item, Message) for item in opened.items)
    return [item for item in opened.items if isinstance(item, Message)]


def request_of(
    profile: Profile, event_id: str = "evt_1", at: Instant = AT, *, seed: str = "hooklane", **more
) -> Request:
    happened = more.pop("event_time", Instant(AT - 1000))
    held = credentials(profile, seed)
    return build_request(profile, held, "thing.done", {"total": 5}, id=event_id, at=at, event_time=happened, **more)


def test_all_providers_that_were_asked_for_are_there():
    assert set(ASKED) <= set(profile_names())


def test_an_unknown_profile_is_refused_with_near_names():
    with pytest.raises(UsageError, match="did you mean stripe"):
        find_profile("strip")
    with pytest.raises(UsageError, match="known are"):
        find_profile("qqqqqq")


def test_other_spellings_of_a_name_are_found():
    assert find_profile("Standard-Webhooks") is find_profile("svix") is find_profile("standard_webhooks")


@every_profile
def test_what_a_provider_would_send_is_accepted(name):
    profile = find_profile(name)

    (message,) = messages_of(profile, request_of(profile, key="k"))

    assert message.source == "src"
    assert len(message.fingerprint) == 32
    assert json.loads(message.body)
    if profile.type:
        assert message.type == ("Notification" if name == "sns" else "thing.done")  # SNS has no types of its users
    assert message.fingerprint == fingerprint(profile, message.body)


@every_profile
def test_a_retry_is_the_same_event_and_another_event_is_not(name):
    profile = find_profile(name)
    first, retry, other = (
        messages_of(profile, request_of(profile, event_id, at, attempt=attempt), at)[0]
        for event_id, at, attempt in (("evt_1", AT, 1), ("evt_1", LATER, 2), ("evt_2", AT, 1))
    )

    if profile.hints:
        assert first.event_id != retry.event_id  # each hint counts, also one that says the same again
        return
    assert first.event_id == retry.event_id
    assert first.fingerprint == retry.fingerprint
    assert first.event_id != other.event_id
    if first.delivery_id is not None and name != "mailgun":
        assert first.delivery_id != retry.delivery_id


@every_profile
def test_a_changed_body_is_refused_or_the_grade_says_that_it_may_pass(name):
    profile = find_profile(name)
    request = request_of(profile)
    changed = replace(request, body=request.body.replace(b"5", b"6", 1) if b"5" in request.body else b"{}")
    held = credentials(profile)
    keys = keyring(profile, [held.secret], **held.options)

    if keys.grade in (Grade.SIGNED, Grade.SIGNED_BODY_UNSIGNED_ID):
        with pytest.raises(VerificationError) as refusal:
            open_request(changed, profile, keys, AT, source="s")
        assert refusal.value.reason == "mismatch"
    else:
        assert isinstance(profile.schemes[0], Token | SignedItems) or not profile.schemes[0].covers_body


@every_profile
def test_another_secret_and_a_bare_request_are_refused(name):
    profile = find_profile(name)
    held = credentials(profile, "right")
    keys = keyring(profile, [held.secret], **held.options)
    signed_by_other = request_of(profile, seed="wrong")

    for request in (signed_by_other, replace(signed_by_other, headers=())):
        with pytest.raises(VerificationError):
            open_request(request, profile, keys, AT, source="s")


@every_profile
def test_after_the_window_a_copy_is_stale_and_without_one_the_profile_admits_it(name):
    profile = find_profile(name)
    held = credentials(profile)
    keys = keyring(profile, [held.secret], **held.options)
    request = request_of(profile)

    if profile.tolerance_ms is None:
        assert isinstance(open_request(request, profile, keys, LATER, source="s"), Messages)
    else:
        with pytest.raises(VerificationError) as refusal:
            open_request(request, profile, keys, Instant(AT + profile.tolerance_ms + 1001), source="s")
        assert refusal.value.reason == "stale"


@every_profile
def test_an_unsafe_source_reads_the_same_event_without_any_proof(name):
    profile = find_profile(name)
    request = request_of(profile)
    (proven,) = messages_of(profile, request)
    held = credentials(profile)

    opened = unsigned(request, profile, AT, source="src", keys=keyring(profile, [held.secret], **held.options))

    assert isinstance(opened, Messages)
    (claimed,) = opened.items
    assert isinstance(claimed, Message)
    assert (proven.event_id, proven.type, proven.body) == (claimed.event_id, claimed.type, claimed.body)
    assert not claimed.id_signed


def test_poison_that_nothing_proves_has_no_signed_id():
    profile = find_profile("github")
    request = Request.of("POST", "/h", {}, b"no JSON")
    signed = sign_request(request, profile, ["s"], AT, event_id="x")

    unproven = unsigned(request, profile, AT, source="s")
    proven = open_request(signed, profile, keyring(profile, ["s"]), AT, source="s")

    assert isinstance(unproven, Messages)
    assert isinstance(proven, Messages)
    found = [one.id_signed for opened in (unproven, proven) for one in opened.items if isinstance(one, Poison)]
    assert found == [False, True], "its id is made of its bytes, which only the second time are signed"


@every_profile
def test_a_message_has_an_account(name):
    (message,) = messages_of(find_profile(name), request_of(find_profile(name)))

    assert message.account


@pytest.mark.parametrize(("told", "attempt"), [("3", 3), ("999999999", 999_999_999), ("1000000000", None), ("x", None)])
def test_the_number_of_an_attempt_is_a_number_of_nine_digits_at_most(told, attempt):
    profile = replace(find_profile("github"), attempt=(InHeader("x-attempt"),))
    request = Request.of("POST", "/h", {"x-attempt": told, "x-github-event": "push"}, b"{}")
    (message,) = messages_of(profile, sign_request(request, profile, [credentials(profile).secret], AT, event_id="x"))

    assert message.attempt == attempt


@pytest.mark.parametrize("odd", [2**70, "\ud800"], ids=["a large number", "half a character"])
def test_content_is_spelled_one_way_whatever_is_in_it(odd):
    assert canonical({"b": odd, "a": 1}) == canonical({"a": 1, "b": odd})


@pytest.mark.parametrize(
    ("told", "unit", "at"),
    [
        (0.0, Unit.DECIMAL_SECONDS, 0),
        (1.5, Unit.DECIMAL_SECONDS, 1_500),
        (-0.5, Unit.DECIMAL_SECONDS, None),
        ("Tue, 14 Nov 2023 22:13:20 GMT", Unit.HTTP_DATE, 1_700_000_000_000),
    ],
)
def test_a_time_is_read_in_milliseconds(told, unit, at):
    assert read_instant(told, unit) == at


def test_an_item_of_a_list_is_found_by_its_number():
    assert dig({"items": [{"id": "a"}, {"id": "b"}]}, "items[1].id") == "b"


def test_a_secret_that_is_no_text_is_refused():
    with pytest.raises(ConfigError, match="must be text, got int"):
        keyring(find_profile("github"), [7])


@pytest.mark.parametrize(
    ("called", "effective"), [("/in?a=1", "https://x.example/h?a=1"), ("/in", "https://x.example/h?b=2")]
)
def test_a_url_is_the_registered_one_with_the_query_of_the_request(called, effective):
    assert effective_url(Request.of("POST", called, {}, b""), "https://x.example/h?b=2") == effective


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (InBody("id"), 7),
        (InBody("data.id"), "x"),
        (InBody("items[0].id"), "y"),
        (InBody("items[1].id"), None),
        (InEnvelope("batch"), 3),
        (InHeader("X-Key"), "k"),
        (InHeader("X-Twice"), None),
        (Proven("id"), "evt_1"),
        (Proven("at"), None),
        (Joined((InBody("id"), InBody("empty"), InHeader("x-key"))), "7::k"),
        (Joined((InBody("none"), InBody("id"))), None),
        (Joined(()), None),
        (lambda event: event["id"] + 1, 8),
    ],
)
def test_a_value_is_found_at_its_place(place, found):
    event = {"id": 7, "data": {"id": "x"}, "items": [{"id": "y"}], "empty": ""}
    headers = (("x-key", "k"), ("x-twice", "1"), ("X-Twice", "2"))
    reading = Reading(Request("POST", "/", headers, b""), event, {"batch": 3}, {"id": "evt_1"})

    assert found == read_at(place)(reading)


def test_a_list_has_no_members():
    assert read_at(InBody("id"))(Reading(Request("POST", "/", (), b""), [1], [1])) is None


@pytest.mark.parametrize(
    ("paths", "found"), [((), None), (("none",), None), (("empty", "id"), 7), (("none", "id", "x"), 7), (("x",), "z")]
)
def test_the_first_value_that_is_there_counts(paths, found):
    reading = Reading(Request("POST", "/", (), b""), {"id": 7, "empty": "", "x": "z"}, None)

    assert found == read_first(tuple(InBody(path) for path in paths))(reading)


def test_an_empty_text_is_no_seq():
    profile = Profile(name="p", title="P", schemes=(), key=(InBody("key"),), seq=(InBody("seq"),))
    opened = unsigned(Request("POST", "/", (), b'{"key": "k", "seq": ""}'), profile, Instant(0), source="p")

    assert isinstance(opened, Messages)
    (message,) = opened.items
    assert isinstance(message, Message)
    assert (message.key, message.seq) == ("k", None)


def test_an_empty_secret_is_no_secret():
    with pytest.raises(BadSecret):
        HmacKey(b"", Algorithm.HMAC_SHA256)


@every_profile
def test_a_profile_tells_what_operators_must_know(name):
    profile = find_profile(name)

    assert profile.title
    assert profile.budget.timeout_ms > 0
    assert (profile.dedup is Dedup.DERIVED) == (not profile.id)


@pytest.mark.parametrize(
    ("name", "grade"),
    [
        ("stripe", Grade.SIGNED),
        ("hooklane", Grade.SIGNED),
        ("twitch", Grade.SIGNED),
        ("github", Grade.SIGNED_BODY_UNSIGNED_ID),
        ("shopify", Grade.SIGNED_BODY_UNSIGNED_ID),
        ("linear", Grade.SIGNED_BODY_UNSIGNED_ID),
        ("mailgun", Grade.PARTLY_SIGNED),
        ("paypal", Grade.PARTLY_SIGNED),
        ("adyen", Grade.PARTLY_SIGNED),
        ("telegram", Grade.AUTHENTICATED),
        ("okta", Grade.AUTHENTICATED),
    ],
)
def test_the_grade_is_honest(name, grade):
    profile = find_profile(name)

    assert grade == profile.grade
    assert messages_of(profile, request_of(profile))[0].id_signed is (
        grade is Grade.SIGNED or name == "adyen"  # Adyen's id is made of signed fields
    )


def test_our_own_sender_defaults_to_sequence_and_one_with_state_tokens_to_refetch():
    assert (
        find_profile("hooklane").order,
        find_profile("hooklane").own_sender,
        find_profile("hooklane").dedup,
    ) == ("sequence", True, "event_id")
    assert (find_profile("sportsstack").order, find_profile("sportsstack").dedup) == ("refetch", "state_token")
    assert find_profile("github").budget.retries is False


def test_rotation_any_configured_secret_fits_any_signature():
    for name in ("stripe", "paddle", "pagerduty", "docusign", "recurly", "hooklane"):
        profile = find_profile(name)
        old, new = credentials(profile, "old").secret, credentials(profile, "new").secret
        request = build_request(profile, [new, old], "a.b", {}, id="evt_1", at=AT)

        for secret in (old, new):
            assert isinstance(open_request(request, profile, keyring(profile, [secret]), AT, source="s"), Messages)


class TestBatches:
    """One request, many events: one message each, with its own bytes."""

    @pytest.mark.parametrize(
        "name", ["sendgrid", "hubspot", "adyen", "okta", "sportsstack", "meta", "xero", "asana", "quickbooks"]
    )
    def test_a_batch_is_split_into_its_events(self, name):
        profile = find_profile(name)
        drafts = [Draft(type="a.b", data={"n": n}, id=f"evt_{n}", key=f"k{n}", event_time=AT) for n in range(3)]

        messages = messages_of(profile, build_batch(profile, credentials(profile), drafts, at=AT))

        assert len({message.event_id for message in messages}) == 3
        keys = [f"b:k{n}" if name == "quickbooks" else f"k{n}" for n in range(3)]
        assert [message.key for message in messages] == keys or name in ("okta", "sendgrid")
        for number, message in enumerate(messages):
            assert f'"n":{number}'.encode() in message.body

    def test_items_keep_their_bytes_exactly(self):
        profile = find_profile("sportsstack")
        raw = b'{"events": [ {"event":{"hash" : "a",\n"x":1.50}},{"event":{"hash":"b"}} ]}'
        held = credentials(profile)
        request = sign_request(Request.of("POST", "/", {}, raw), profile, held, AT, event_id="x")

        assert [message.body for message in messages_of(profile, request)] == [
            b'{"event":{"hash" : "a",\n"x":1.50}}',
            b'{"event":{"hash":"b"}}',
        ]

    def test_traps_19_both_shapes_of_sports_stack_and_a_shapeless_one_are_read(self):
        profile = find_profile("sportsstack")
        held = credentials(profile)
        found = {}
        for body in (
            b'{"event":{"hash":"h1","common_model_id":"m1"}}',
            b'{"events":[{"hash":"h1","common_model_id":"m1"},{"hash":"h2"}]}',
            b'[{"event":{"hash":"h1","common_model_id":"m1"}}]',
            b'{"event":null}',
            b'{"events":[]}',
        ):
            request = sign_request(Request.of("POST", "/", {}, body), profile, held, AT, event_id="x")
            found[body] = [message.event_id for message in messages_of(profile, request)]

        single, batch, bare, shapeless, empty = found.values()
        assert (single, batch, bare, empty) == (["h1"], ["h1", "h2"], ["h1"], [])
        assert shapeless[0].startswith(DERIVED)

    def test_one_item_that_is_no_object_is_poison_and_spares_the_others(self):
        profile = find_profile("sportsstack")
        held = credentials(profile)
        body = b'{"events":[{"hash":"h1"},7,{"hash":"h2"}]}'
        request = sign_request(Request.of("POST", "/", {}, body), profile, held, AT, event_id="x")

        opened = open_request(request, profile, keyring(profile, [held.secret]), AT, source="s")

        assert isinstance(opened, Messages)
        first, poison, last = opened.items
        assert (first.event_id, last.event_id) == ("h1", "h2")
        assert isinstance(poison, Poison)
        assert poison.body == b"7"


class TestSmartcar:
    """The clock of a signal is when it was measured, never when it was delivered."""

    def test_traps_7_the_event_time_is_the_measurement_not_the_delivery(self):
        profile = find_profile("smartcar")
        signals = [
            {"meta": {"oemUpdatedAt": "2023-11-14T20:00:00Z", "fetchedAt": "2023-11-14T22:00:00Z"}},
            {"meta": {"fetchedAt": "2023-11-14T21:00:00.250Z"}},
            {"meta": {"oemUpdatedAt": None}},
            "odd",
        ]
        request = build_request(
            profile, credentials(profile), "VEHICLE_STATE", {"vehicle": {"id": "v1"}, "signals": signals}, id="e", at=AT
        )

        (message,) = messages_of(profile, request)

        assert (message.key, message.event_time) == ("v1", 1_699_995_600_250)

    def test_a_retry_has_the_same_fingerprint_though_its_delivery_id_is_new(self):
        profile = find_profile("smartcar")
        first = b'{"eventId":"a","meta":{"deliveryId":"1","deliveredAt":"2025-01-15T10:30:45Z","mode":"live"}}'
        retry = b'{"meta":{"mode":"live","deliveredAt":1736937045000,"deliveryId":"2"},"eventId":"a"}'
        other = b'{"eventId":"a","meta":{"deliveryId":"1","mode":"test"}}'

        assert fingerprint(profile, first) == fingerprint(profile, retry)
        assert fingerprint(profile, first) != fingerprint(profile, other)
        assert fingerprint(profile, b"not json") != fingerprint(profile, b"not  json")


def test_an_id_that_no_store_could_hold_becomes_a_digest():
    profile = find_profile("stripe")
    for event_id in ("x" * 300, "a\0b", "line\nbreak"):
        (message,) = messages_of(profile, request_of(profile, event_id))

        assert message.event_id.startswith(DERIVED)
    assert messages_of(profile, request_of(profile, "x" * 300)) != messages_of(profile, request_of(profile, "x" * 301))


def test_a_form_is_read_as_json_so_that_handlers_need_not_care():
    profile = find_profile("slack")
    held = credentials(profile)
    for body, expected in (
        (b"command=%2Fdo&team_id=T1&text=a+b", {"command": "/do", "team_id": "T1", "text": "a b"}),
        (b"payload=%7B%22type%22%3A%22block_actions%22%7D", {"type": "block_actions"}),
    ):
        headers = {"content-type": "application/x-www-form-urlencoded"}
        request = sign_request(Request.of("POST", "/", headers, body), profile, held, AT, event_id="x")

        assert [expected] == [json.loads(message.body) for message in messages_of(profile, request)]


def test_an_unsigned_id_that_is_there_twice_is_no_id():
    profile = find_profile("github")
    request = request_of(profile, "evt_1")
    twice = replace(request, headers=(*request.headers, ("X-GitHub-Delivery", "evt_2")))

    (message,) = messages_of(profile, twice)

    assert message.event_id.startswith(DERIVED)
