"""A refused signature is explained: each usual mistake gets its own sentence."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.profiles import find_profile, profile_names
from hooklane.core.verify.clues import UNZIPPED_MAX, joined, unzipped
from hooklane.core.verify.explain import Mark, explain
from hooklane.core.verify.httptext import parse_http
from hooklane.errors import UsageError
from hooklane.model.clock import Instant
from hooklane.model.message import Request
from hooklane.testing.build_request import build_request
from hooklane.testing.credentials import credentials
from hooklane.testing.sign_request import sign_request

AT = Instant(1_700_000_000_000)
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()
STRIPE = find_profile("stripe")
STANDARD = find_profile("standard_webhooks")
PRETTY = b'{\n  "id": "evt_1",\n  "type": "a.b",\n  "url": "https://x.test/\xc3\xa9"\n}'


def stripe_signed(body: bytes, secret: str = "whsec_stripe") -> Request:
    return sign_request(Request.of("POST", "/hooks", {}, body), STRIPE, [secret], AT, event_id="x")


def only_hint(*args, **options) -> str:
    explanation = explain(*args, **options)
    assert not explanation.accepted
    (hint,) = explanation.hints
    return hint


@pytest.mark.parametrize("name", profile_names())
def test_a_good_request_is_confirmed_for_every_profile(name):
    profile = find_profile(name)
    held = credentials(profile)
    request = build_request(profile, held, "a.b", {}, id="evt_1", at=AT)

    explanation = explain(request, profile, [held.secret], Instant(AT + 4000), **held.options)

    assert explanation.accepted
    assert explanation.reason is None
    assert Mark.GOOD in {line.mark for line in explanation.lines}


def test_the_age_of_a_good_request_is_told():
    explanation = explain(stripe_signed(PRETTY), STRIPE, ["whsec_stripe"], Instant(AT + 4000))

    assert [str(line) for line in explanation.lines] == [
        "✓ headers present",
        "✓ timestamp 4 s old",
        "✓ signature: fits the secret",
    ]


@pytest.mark.parametrize(
    ("received", "sentence"),
    [
        (json.dumps(json.loads(PRETTY), separators=(",", ":")).encode(), "re-serialised with an indent of 2"),
        (json.dumps(json.loads(PRETTY)).encode(), "Read the raw bytes (FastAPI: await request.body()"),
        (PRETTY + b"\n", "without the line end"),
        (PRETTY.replace(b"\n", b"\r\n"), "with LF line ends"),
        (b"\xef\xbb\xbf" + PRETTY, "without the byte order mark"),
        (PRETTY.decode().encode("latin-1"), "read as latin-1"),
    ],
)
def test_a_body_that_was_rewritten_is_recognised(received, sentence):
    request = replace(stripe_signed(PRETTY), body=received)

    assert sentence in only_hint(request, STRIPE, ["whsec_stripe"], AT)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (json.dumps({"a": {"é": 1}, "b": "x/y"}, separators=(",", ":")).encode(), "without spaces"),
        (json.dumps({"a": 1, "b": 2}, ensure_ascii=True).encode(), "with spaces"),
        (b'{"u":"https:\\/\\/x.test\\/y"}', "slashes escaped (PHP)"),
        (b'{"a":1}\r\n', "CRLF at the end"),
    ],
)
def test_the_original_spelling_is_found_from_a_parsed_and_rewritten_body(sent, sentence):
    received = json.dumps(json.loads(sent), indent=3).encode() if b"\r\n" not in sent else sent.strip()
    request = replace(stripe_signed(sent), body=received)

    assert sentence in only_hint(request, STRIPE, ["whsec_stripe"], AT)


def test_a_previous_secret_is_pointed_out_though_it_fits():
    explanation = explain(stripe_signed(PRETTY, "whsec_old"), STRIPE, ["whsec_new", "whsec_old"], AT)

    assert explanation.accepted
    assert "✓ signature: fits secret 2 of 2" in [str(line) for line in explanation.lines]
    assert "previous secret" in explanation.hints[0]


def test_a_secret_that_should_be_decoded_is_recognised():
    request = stripe_signed(PRETTY, "will be replaced")
    raw = base64.b64decode(SECRET.removeprefix("whsec_"))
    request = sign_request(request, replace(STRIPE), [raw.decode()], AT, event_id="x")  # signed with the decoded bytes

    assert "decoded from base64" in only_hint(request, STRIPE, [SECRET], AT)


def test_a_secret_that_should_be_taken_as_it_is_written_is_recognised():
    polar = find_profile("polar")
    request = sign_request(Request.of("POST", "/", {}, PRETTY), polar, [SECRET], AT, event_id="msg_1")

    assert "secret as plain text" in only_hint(request, STANDARD, [SECRET], AT)


def test_a_secret_that_cannot_be_decoded_is_named_with_what_was_expected():
    polar = find_profile("polar")
    request = sign_request(Request.of("POST", "/", {}, PRETTY), polar, ["polar_whs_abc"], AT, event_id="msg_1")

    explanation = explain(request, STANDARD, ["polar_whs_abc"], AT)

    assert explanation.reason == "misconfigured"
    assert "expected whsec_ and base64" in explanation.lines[0].text
    assert "secret as plain text" in explanation.hints[0]
    assert "polar_whs_abc" not in str(explanation)


def test_spaces_round_a_secret_are_recognised():
    assert "spaces, quotes or line end" in only_hint(stripe_signed(PRETTY), STRIPE, ["whsec_stripe\n"], AT)


def test_stripes_request_at_a_svix_source_is_recognised_by_its_headers():
    explanation = explain(stripe_signed(PRETTY, SECRET), STANDARD, [SECRET], AT)

    assert explanation.reason == "missing_header"
    assert explanation.hints == ("these are the headers of Stripe: use the profile stripe.",)


def test_stripes_secret_at_a_svix_source_is_recognised_when_it_cannot_be_decoded():
    assert "it verifies as Stripe" in only_hint(stripe_signed(PRETTY), STANDARD, ["whsec_stripe"], AT)


def test_two_providers_with_the_same_header_are_told_apart():
    bitbucket = find_profile("bitbucket")
    intercom = find_profile("intercom")
    request = build_request(intercom, ["s3cret"], "a.b", {}, id="x", at=AT)

    assert "it verifies as Intercom" in only_hint(request, bitbucket, ["s3cret"], AT)


@pytest.mark.parametrize(
    ("off_ms", "sentence"), [(400_000, "is 6 min old: it is a replay"), (-7_200_000, "clock here is behind")]
)
def test_a_clock_that_is_off_is_told_apart_from_a_wrong_signature(off_ms, sentence):
    explanation = explain(stripe_signed(PRETTY), STRIPE, ["whsec_stripe"], Instant(AT + off_ms))

    assert explanation.reason == "stale"
    assert "✓ signature: fits, so only the time is wrong" in [str(line) for line in explanation.lines]
    assert sentence in explanation.hints[0]


@pytest.mark.parametrize(
    ("signed", "seen", "sentence"),
    [
        ("https://shop.test/hooks", "http://shop.test/hooks", "https instead of http"),
        ("http://shop.test/hooks", "https://shop.test/hooks", "http instead of https"),
        ("https://shop.test/hooks/", "https://shop.test/hooks", "with a slash"),
        ("https://shop.test/hooks", "https://shop.test/hooks?a=1", "without the query"),
        ("https://shop.test/hooks", "http://10.0.0.7/hooks", "X-Forwarded-Host"),
    ],
)
def test_a_url_that_differs_from_the_registered_one_is_recognised(signed, seen, sentence):
    square = find_profile("square")
    headers = {"x-forwarded-host": "shop.test"} if "10.0" in seen else {}
    request = sign_request(Request.of("POST", signed, headers, PRETTY), square, ["s"], AT, event_id="x")

    assert sentence in only_hint(replace(request, url=seen), square, ["s"], AT)
    assert sentence in only_hint(replace(request, url="/inner"), square, ["s"], AT, url=seen)


def test_a_missing_header_is_named_with_where_it_may_have_gone():
    request = replace(stripe_signed(PRETTY), headers=(("content-type", "application/json"),))

    explanation = explain(request, STRIPE, ["whsec_stripe"], AT)

    assert explanation.reason == "missing_header"
    assert "✕ stripe-signature is missing" in [str(line) for line in explanation.lines]
    assert "Stripe sends stripe-signature" in explanation.hints[0]


def test_headers_from_a_servers_environment_are_recognised():
    request = stripe_signed(PRETTY)
    environ = tuple((f"HTTP_{name.upper().replace('-', '_')}", value) for name, value in request.headers)

    assert "written with dashes" in only_hint(replace(request, headers=environ), STRIPE, ["whsec_stripe"], AT)


@pytest.mark.parametrize("spoil", ["gzip", "chunked", "chunked by LF"])
def test_a_body_as_it_was_on_the_wire_is_recognised(spoil):
    request = stripe_signed(PRETTY)
    half = len(request.body) // 2
    end = b"\n" if spoil.endswith("LF") else b"\r\n"
    parts = [request.body[:half], request.body[half:], b""]
    chunked = b"".join(f"{len(part):x}".encode() + end + part + end for part in parts)
    captured = gzip.compress(request.body) if spoil == "gzip" else chunked

    hint = only_hint(replace(request, body=captured), STRIPE, ["whsec_stripe"], AT)

    assert ("decompressed" if spoil == "gzip" else "chunked transfer") in hint


def test_what_is_seen_to_be_wrong_is_told_though_nothing_matches():
    request = stripe_signed(PRETTY)
    short = replace(request, body=request.body[:-9], headers=(*request.headers, ("content-length", str(len(PRETTY)))))

    assert "Content-Length says" in explain(short, STRIPE, ["whsec_stripe"], AT).hints[0]
    assert "an API key" in explain(request, STRIPE, ["sk_live_51Habc"], AT).hints[0]
    assert "secret 2 looks" in explain(request, STRIPE, ["whsec_other", "rk_test_51Habc"], AT).hints[0]


@given(st.binary(max_size=200) | st.binary(max_size=50).map(gzip.compress))
def test_a_body_of_any_bytes_is_unframed_or_left_alone(body):
    for read in (unzipped, joined):
        assert read(body) is None or isinstance(read(body), bytes)
    assert unzipped(gzip.compress(body)) == body


def test_a_body_that_unpacks_to_more_than_anybody_sends_is_left_alone():
    assert unzipped(gzip.compress(bytes(UNZIPPED_MAX + 1))) is None


def test_what_nothing_explains_says_so_and_tells_no_secret():
    explanation = explain(stripe_signed(PRETTY, "whsec_a"), STRIPE, ["whsec_secret_b"], AT)

    assert "none of the usual mistakes" in explanation.hints[0]
    assert "whsec_secret_b" not in str(explanation)
    assert "evt_1" not in str(explanation)


def test_one_garbled_secret_is_named_beside_the_one_that_fits():
    request = build_request(STANDARD, [SECRET], "a.b", {}, id="msg_1", at=AT)

    explanation = explain(request, STANDARD, ["whsec_!!", SECRET], AT)

    assert explanation.accepted
    assert "secret 1 of 2 cannot be used" in explanation.lines[0].text


def test_a_handshake_is_recognised():
    slack = find_profile("slack")
    body = b'{"type":"url_verification","challenge":"c"}'
    request = sign_request(Request.of("POST", "/", {}, body), slack, ["s"], AT, event_id="x")

    explanation = explain(request, slack, ["s"], AT)

    assert (explanation.accepted, explanation.reason) == (True, None)
    assert [str(line) for line in explanation.lines] == ["✓ a handshake of Slack, which is answered"]


class TestRequestText:
    """A request in a file, as `curl -v` or a proxy's log shows it."""

    @pytest.mark.parametrize("end", [b"\n", b"\r\n"])
    def test_line_headers_and_body_are_read_and_the_body_is_untouched(self, end):
        body = b'{"a": 1}\r\n\r\nmore\n'
        lines = [b"POST /hooks?x=1 HTTP/1.1", b"Host: shop.test", b"X-A:  b c ", b"x-a: d", b"", b""]

        request = parse_http(end.join(lines) + body)

        assert ("POST", "https://shop.test/hooks?x=1", body) == (request.method, request.url, request.body)
        assert request.values("X-A") == ["b c", "d"]

    def test_a_header_may_hold_any_bytes_but_the_ends_of_a_line(self):
        # Each of the first two is the end of a line to Python: a byte of a letter in UTF-8, and one of a colour.
        value = "Åse \x1c… \x85".encode()

        request = parse_http(b"POST / HTTP/1.1\nX-Name: %b\nX-B: c\n\n{}" % value)

        assert request.headers == (("X-Name", value.decode("latin-1")), ("X-B", "c"))

    def test_the_line_end_of_an_editor_is_cut_by_the_content_length(self):
        assert parse_http(b"POST / HTTP/1.1\nContent-Length: 2\n\n{}\n").body == b"{}"
        assert parse_http(b"POST / HTTP/1.1\nContent-Length: 3\n\n{}\n").body == b"{}\n"
        assert parse_http(b"POST / HTTP/1.1\nContent-Length: 2\n\n{}abc").body == b"{}abc"

    def test_what_the_sender_called_is_taken_from_the_proxys_headers(self):
        text = b"POST /h HTTP/1.1\nHost: shop.test\nX-Forwarded-Proto: http\n\n"

        assert parse_http(text).url == "http://shop.test/h"
        assert parse_http(b"POST https://a.test/b HTTP/1.1\n\n").url == "https://a.test/b"
        assert parse_http(b"POST /h\n\n").url == "/h"

    @pytest.mark.parametrize(
        "text", [b"", b"\n\n", b"hello", b'{"a":1}', b"\xff\xfe", b"POST / HTTP/1.1\nno colon\n\n"]
    )
    def test_what_is_no_request_is_refused_in_one_sentence(self, text):
        with pytest.raises(UsageError, match="is not a"):
            parse_http(text)
