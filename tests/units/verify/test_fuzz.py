"""Whatever arrives, the answer is a proof or a `VerificationError`; nothing else ever comes out."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from hooklane.core.profiles import find_profile, profile_names
from hooklane.core.verify.document import Unreadable, read_json
from hooklane.core.verify.explain import explain, headers_of
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.httptext import parse_http
from hooklane.core.verify.messages import fingerprint
from hooklane.core.verify.open_request import Messages, open_request, unsigned
from hooklane.core.verify.ring import keyring
from hooklane.errors import UsageError, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request
from hooklane.testing.build_request import build_request
from hooklane.testing.credentials import credentials
from hooklane.testing.sign_request import sign_request

AT = Instant(1_700_000_000_000)
REASONS = {"missing_header", "malformed", "mismatch", "stale", "misconfigured"}

EXAMPLES = settings.default.max_examples
quick = settings(
    max_examples=max(5, EXAMPLES // 7), deadline=None, suppress_health_check=list(HealthCheck), database=None
)

names = sorted(
    {header for name in profile_names() for scheme in find_profile(name).schemes for header in headers_of(scheme)}
)
odd_text = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(max_codepoint=255), max_size=40),
    st.sampled_from(
        [
            "",
            ",",
            "=",
            "t=,v1=",
            "v1,",
            "v0=",
            "sha256=",
            "t=1700000000,v1=" + "0" * 64,
            "1700000000",
            "\0",
            "é",
            "\ud800",
        ]
    ),
    st.binary(max_size=40).map(bytes.hex),
)
odd_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "type", "event", "data", "signature", "events", "challenge", "key", "seq"])
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
odd_body = st.one_of(st.binary(max_size=60), odd_json.map(lambda value: json.dumps(value).encode("utf-8", "replace")))
odd_headers = st.lists(st.tuples(st.sampled_from(names) | st.text(max_size=10), odd_text), max_size=6).map(tuple)
odd_url = st.sampled_from(
    [
        "",
        "/",
        "/x?hub.challenge=1&hub.verify_token=2",
        "https://[::1",
        "http://a:b/",
        "?challenge=\0",
        "//",
        "/?a&b=%ff",
    ]
) | st.text(max_size=20)
odd_request = st.builds(Request, st.sampled_from(["POST", "GET", "HEAD", "PUT", "ü"]), odd_url, odd_headers, odd_body)

RINGS = {}
for name in profile_names():
    held = credentials(find_profile(name))
    RINGS[name] = keyring(find_profile(name), [held.secret], **held.options)


def verdict(request: Request, name: str, now: Instant = AT) -> str:
    try:
        opened = open_request(request, find_profile(name), RINGS[name], now, source="s")
    except VerificationError as refusal:
        reason = refusal.reason
    else:
        assert isinstance(opened, Messages | Handshake)
        return "accepted"
    assert reason in REASONS
    return reason


@pytest.mark.parametrize("name", profile_names())
@quick
@given(request=odd_request, now=st.integers(0, 2**53))
def test_any_request_is_accepted_or_refused(name, request, now):
    verdict(request, name, Instant(now))


@pytest.mark.parametrize("name", profile_names())
@quick
@given(data=st.data())
def test_a_forged_request_with_one_thing_changed_is_accepted_or_refused(name, data):
    profile = find_profile(name)
    request = build_request(profile, credentials(profile), "a.b", {"n": 1}, id="evt_1", at=AT)
    match data.draw(st.sampled_from(["header", "drop", "double", "body", "url", "method"])):
        case "header":
            at = data.draw(st.integers(0, len(request.headers) - 1))
            changed = (request.headers[at][0], data.draw(odd_text))
            request = replace(request, headers=(*request.headers[:at], changed, *request.headers[at + 1 :]))
        case "drop":
            at = data.draw(st.integers(0, len(request.headers) - 1))
            request = replace(request, headers=(*request.headers[:at], *request.headers[at + 1 :]))
        case "double":
            request = replace(request, headers=(*request.headers, data.draw(st.sampled_from(request.headers))))
        case "body":
            request = replace(request, body=data.draw(odd_body))
        case "url":
            request = replace(request, url=data.draw(odd_url))
        case "method":
            request = replace(request, method=data.draw(st.sampled_from(["GET", "HEAD", "ü", ""])))
    verdict(request, name)


@pytest.mark.parametrize("name", profile_names())
@quick
@given(value=odd_json)
def test_any_body_that_is_rightly_signed_is_messages_poison_or_a_handshake(name, value):
    profile = find_profile(name)
    body = json.dumps(value if isinstance(value, dict) else {"value": value}).encode("utf-8", "replace")
    bare = Request.of("POST", credentials(profile).options.get("url", "/hooks"), {}, body)
    try:
        request = sign_request(bare, profile, credentials(profile), AT, event_id="evt_1")
    except (TypeError, VerificationError):
        return  # the body has no place for what this provider writes into it

    assert verdict(request, name) in REASONS | {"accepted"}


@quick
@given(name=st.sampled_from(profile_names()), request=odd_request)
def test_an_unsafe_source_takes_anything(name, request):
    with suppress(VerificationError):  # a handshake that cannot be answered
        opened = unsigned(request, find_profile(name), AT, source="s", keys=RINGS[name])

        assert isinstance(opened, Messages | Handshake)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(name=st.sampled_from(profile_names()), request=odd_request, secret=odd_text)
def test_anything_can_be_explained(name, request, secret):
    explanation = explain(request, find_profile(name), [secret], AT)

    assert explanation.accepted == (explanation.reason is None)


@settings(max_examples=2 * EXAMPLES, deadline=None, database=None)
@given(st.binary(max_size=200))
def test_any_text_is_a_request_or_a_usage_error(text):
    with suppress(UsageError):
        assert isinstance(parse_http(text), Request)


@settings(max_examples=2 * EXAMPLES, deadline=None, database=None)
@given(odd_json)
def test_a_fingerprint_does_not_depend_on_spacing_or_key_order(value):
    profile = find_profile("stripe")
    spaced, compact = json.dumps(value, indent=2), json.dumps(value, separators=(",", ":"), sort_keys=True)
    try:
        read_json(compact.encode())
    except Unreadable:
        reject()  # for instance a number of more than 64 characters: such a body is taken byte for byte

    assert fingerprint(profile, spaced.encode()) == fingerprint(profile, compact.encode())
