"""Greetings are answered by the profile: signed ones after verification, in-band secrets only when asked for."""

from __future__ import annotations

import base64
import hmac
import json

import pytest

from hooklane.core.profiles import find_profile
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.open_request import Messages, open_request, unsigned
from hooklane.core.verify.ring import keyring
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Reply, Request
from hooklane.testing.sign_request import sign_request

AT = Instant(1_700_000_000_000)


def greeted(name: str, request: Request, secrets=("secret",), **options) -> Handshake:
    profile = find_profile(name)
    shaken = open_request(request, profile, keyring(profile, list(secrets), **options), AT, source="s")
    assert isinstance(shaken, Handshake)
    return shaken


def test_dropbox_and_nylas_get_their_challenge_as_text_that_no_browser_runs():
    for name in ("dropbox", "nylas"):
        reply = greeted(name, Request.of("GET", "/h?challenge=%3Cb%3E", {}, b"")).reply

        assert (reply.status, reply.body) == (200, b"<b>")
        assert ("x-content-type-options", "nosniff") in reply.headers
        assert dict(reply.headers)["content-type"].startswith("text/plain")


def test_x_gets_the_code_of_its_token():
    reply = greeted("x", Request.of("GET", "/h?crc_token=abc", {}, b"")).reply

    expected = base64.b64encode(hmac.digest(b"secret", b"abc", "sha256")).decode()
    assert {"response_token": f"sha256={expected}"} == json.loads(reply.body)


def test_okta_gets_its_header_back_as_json():
    reply = greeted("okta", Request.of("GET", "/h", {"X-Okta-Verification-Challenge": "v"}, b"")).reply

    assert json.loads(reply.body) == {"verification": "v"}


@pytest.mark.parametrize("name", ["trello", "intercom"])
def test_who_asks_with_head_when_the_address_is_saved_finds_somebody_at_home(name: str):
    reply = greeted(name, Request.of("HEAD", "/h", {}, b"")).reply

    assert reply.status == 200


def test_woocommerce_signs_no_ping_and_wants_200_for_it():
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert greeted("woocommerce", Request.of("POST", "/h", form, b"webhook_id=7")).reply.status == 200

    for other in (b"webhook_id=", b"webhook_id=7&x=1", b"webhook_id=x", b"id=7", b'{"webhook_id": 7}'):
        with pytest.raises(VerificationError):
            greeted("woocommerce", Request.of("POST", "/h", form, other))


def test_twitch_gets_its_challenge_only_when_it_signed():
    profile = find_profile("twitch")
    headers = {"Twitch-Eventsub-Message-Type": "webhook_callback_verification"}
    bare = Request.of("POST", "/h", headers, b'{"challenge":"pogchamp"}')

    reply = greeted("twitch", sign_request(bare, profile, ["secret"], AT, event_id="m1")).reply

    assert reply.body == b"pogchamp"
    with pytest.raises(VerificationError):
        greeted("twitch", bare)


def test_a_revoked_twitch_subscription_is_a_message_of_its_own_type():
    profile = find_profile("twitch")
    body = b'{"subscription":{"id":"s","type":"channel.follow","status":"authorization_revoked"}}'

    opened = open_request(
        sign_request(Request.of("POST", "/h", {}, body), profile, ["secret"], AT, event_id="m1"),
        profile,
        keyring(profile, ["secret"]),
        AT,
        source="s",
    )

    assert isinstance(opened, Messages)
    assert [item.type for item in opened.items] == ["revocation"]


class TestSecretsInBand:
    """Asana and Notion send the secret itself. Anyone can send such a request."""

    asana = Request.of("POST", "/h", {"X-Hook-Secret": "from-asana"}, b"")
    notion = Request.of("POST", "/h", {}, b'{"verification_token":"from-notion"}')

    def test_a_source_that_waits_for_its_first_secret_learns_it(self):
        shaken = greeted("asana", self.asana, (), learn=True)

        assert shaken.secret == "from-asana"
        assert ("x-hook-secret", "from-asana") in shaken.reply.headers
        assert greeted("notion", self.notion, (), learn=True).secret == "from-notion"

    def test_while_it_waits_nothing_else_is_accepted(self):
        profile = find_profile("asana")
        signed = sign_request(Request.of("POST", "/h", {}, b'{"events":[]}'), profile, ["evil"], AT, event_id="x")

        with pytest.raises(VerificationError) as refusal:
            open_request(signed, profile, keyring(profile, [], learn=True), AT, source="s")
        assert refusal.value.reason == "misconfigured"

    @pytest.mark.parametrize("learn", [True, False])
    def test_a_source_that_has_a_secret_never_takes_another(self, learn):
        for name, request in (("asana", self.asana), ("notion", self.notion)):
            with pytest.raises(VerificationError) as refusal:
                greeted(name, request, ["mine"], learn=learn)
            assert refusal.value.reason == "mismatch"

    def test_the_known_secret_is_confirmed_and_not_learned_again(self):
        assert greeted("asana", self.asana, ["from-asana"]).secret is None
        assert greeted("notion", self.notion, ["from-notion"]).reply.status == 200


def test_meta_without_a_verify_token_is_a_misconfiguration():
    with pytest.raises(VerificationError) as refusal:
        greeted("meta", Request.of("GET", "/h?hub.challenge=1&hub.verify_token=", {}, b""))
    assert refusal.value.reason == "misconfigured"


@pytest.mark.parametrize("challenge", ["", "a" * 5000, "a%0d%0aset-cookie:x", "a%00b"])
def test_a_challenge_that_is_no_plain_text_is_not_echoed(challenge):
    with pytest.raises(VerificationError):
        greeted("dropbox", Request.of("GET", f"/h?challenge={challenge}", {}, b""))


def test_smartcar_answers_with_the_secret_that_signed():
    profile = find_profile("smartcar")
    body = b'{"eventName":"verify","payload":{"challenge":"c"}}'
    request = sign_request(Request.of("POST", "/h", {}, body), profile, ["old"], AT, event_id="x")

    reply = greeted("smartcar", request, ["new", "old"]).reply

    assert {"challenge": hmac.digest(b"old", b"c", "sha256").hex()} == json.loads(reply.body)


def test_an_unsafe_source_with_a_token_answers_those_who_know_it_and_no_others():
    profile = find_profile("meta")
    keys = keyring(profile, ["s"], verify_token="known")

    def asked(token: str) -> Reply:
        query = f"hub.mode=subscribe&hub.challenge=c&hub.verify_token={token}"
        shaken = unsigned(Request.of("GET", f"/h?{query}", {}, b""), profile, AT, source="s", keys=keys)
        assert isinstance(shaken, Handshake)
        return shaken.reply

    assert (asked("known").status, asked("known").body, asked("guessed").status) == (200, b"c", 403)


def test_an_unsafe_source_answers_greetings_too():
    profile = find_profile("slack")
    request = Request.of("POST", "/h", {}, b'{"type":"url_verification","challenge":"c"}')

    shaken = unsigned(request, profile, AT, source="s")

    assert isinstance(shaken, Handshake)
    assert shaken.reply.body == b"c"
