"""What the providers publish verifies; anything else about it does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.tree import ROOT

from hooklane.core.profiles import find_profile
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.ring import Keyring, keyring
from hooklane.core.verify.scheme import Signed
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request
from hooklane.testing.credentials import credentials
from hooklane.testing.sign_request import sign_request

KNOWN = json.loads((ROOT / "tests" / "data" / "signature-vectors.json").read_text())
VECTORS = {vector["id"]: vector for vector in KNOWN["vectors"]}
LINEAR_NOW_MS = 1_676_056_940_508  # its timestamp is inside the body

each_vector = pytest.mark.parametrize("name", VECTORS)
# Mailgun signs a token and not the body.
each_that_covers_the_body = pytest.mark.parametrize("name", [name for name in VECTORS if name != "mailgun"])
each_with_a_window = pytest.mark.parametrize(
    "name", [name for name in VECTORS if find_profile(VECTORS[name]["provider"]).tolerance_ms is not None]
)
each_valid_for_ever = pytest.mark.parametrize(
    "name", [name for name in VECTORS if find_profile(VECTORS[name]["provider"]).tolerance_ms is None]
)
# Of Discord no private key is published, Twitch's time has nine digits, Mailgun signs inside the body.
each_we_can_sign = pytest.mark.parametrize(
    "name", [name for name in VECTORS if name not in ("discord", "twitch", "mailgun")]
)


def prepared(name: str) -> tuple[Request, Profile, Keyring, Instant]:
    vector = VECTORS[name]
    profile = find_profile(vector["provider"])
    request = Request.of("POST", vector.get("url", "/hooks"), vector["headers"], vector["body"].encode())
    return request, profile, keyring(profile, [vector["secret"]]), _now(vector)


def _now(vector: dict[str, Any]) -> Instant:
    return Instant(vector["now"] * 1000 if "now" in vector else LINEAR_NOW_MS)


def refused(request: Request, profile: Profile, keys: Keyring, now: Instant) -> bool:
    try:
        open_request(request, profile, keys, now, source="s")
    except VerificationError:
        return True
    return False


@each_vector
def test_a_published_signature_is_accepted(name):
    request, profile, keys, now = prepared(name)

    assert isinstance(open_request(request, profile, keys, now, source="s"), Messages | Handshake)


@each_vector
def test_a_signature_over_the_url_is_accepted_behind_a_proxy_when_the_source_knows_its_url(name):
    request, profile, _, now = prepared(name)
    keys = keyring(profile, [VECTORS[name]["secret"]], url=VECTORS[name].get("url", "https://example.com/hooks"))

    assert isinstance(
        open_request(replace(request, url="/inner"), profile, keys, now, source="s"), Messages | Handshake
    )


@each_that_covers_the_body
def test_no_byte_of_the_body_can_be_changed(name):
    request, profile, keys, now = prepared(name)

    for at in range(len(request.body)):
        for other in (request.body[at] ^ 1, 0, 0xFF):
            body = request.body[:at] + bytes([other]) + request.body[at + 1 :]
            assert refused(replace(request, body=body), profile, keys, now)


@each_that_covers_the_body
def test_nothing_can_be_added_to_or_cut_from_the_body(name):
    request, profile, keys, now = prepared(name)
    body = request.body

    for other in (b"", body + b" ", b" " + body, body[:-1], body + b"\n", b"\xef\xbb\xbf" + body, body.upper()):
        assert refused(replace(request, body=other), profile, keys, now)


@each_vector
def test_no_character_of_a_signed_header_can_be_changed(name):
    request, profile, keys, now = prepared(name)
    for number, (header, value) in enumerate(request.headers):
        if header == "content-type" or name == "stripe":
            continue  # Stripe's other entries may be anything; its own test is below
        for at in range(len(value)):
            changed = value[:at] + ("0" if value[at] != "0" else "1") + value[at + 1 :]
            headers = (*request.headers[:number], (header, changed), *request.headers[number + 1 :])

            assert refused(replace(request, headers=headers), profile, keys, now), (header, at)


@each_vector
def test_each_header_is_needed_and_only_once(name):
    request, profile, keys, now = prepared(name)
    for number, (header, value) in enumerate(request.headers):
        if header == "content-type":
            continue
        rest = (*request.headers[:number], *request.headers[number + 1 :])

        assert refused(replace(request, headers=rest), profile, keys, now)
        assert refused(replace(request, headers=(*request.headers, (header, value))), profile, keys, now)
        assert refused(replace(request, headers=(*rest, (header, ""))), profile, keys, now)
        assert refused(replace(request, headers=(*rest, (header, f"{value},{value}"))), profile, keys, now)


@each_vector
def test_another_secret_does_not_fit(name):
    request, profile, _, now = prepared(name)
    other = credentials(profile, "another").secret if VECTORS[name]["provider"] != "standard_webhooks" else None
    secrets = [other] if other else ["whsec_" + "A" * 32, "whpk_" + "A" * 43 + "="]

    assert refused(request, profile, keyring(profile, secrets), now)


@each_with_a_window
def test_a_timestamp_outside_the_window_is_stale(name):
    request, profile, keys, now = prepared(name)
    assert profile.tolerance_ms is not None

    for moment in (now + profile.tolerance_ms + 1000, now - profile.tolerance_ms - 1000):
        with pytest.raises(VerificationError) as refusal:
            open_request(request, profile, keys, Instant(moment), source="s")
        assert refusal.value.reason == "stale"


@each_valid_for_ever
def test_a_signature_without_a_time_is_valid_for_ever_and_the_profile_says_so(name):
    request, profile, keys, now = prepared(name)

    assert not refused(request, profile, keys, Instant(now + 10 * 365 * 86_400_000))


@each_we_can_sign
def test_our_own_signing_gives_the_published_signature(name):
    vector = VECTORS[name]
    request, profile, _, now = prepared(name)
    scheme = profile.schemes[1 if name == "standard-v1a" else 0]
    assert isinstance(scheme, Signed)
    bare = replace(request, headers=())
    event_id = vector["headers"].get("webhook-id", "")

    signed = sign_request(
        bare, profile, [vector.get("private", vector["secret"])], now, event_id=event_id, scheme=scheme
    )

    published = {header: value for header, value in request.headers if header != "content-type"}
    assert published.keys() == dict(signed.headers).keys()
    for header, value in signed.headers:
        assert value.removeprefix("t=1492774577,") in published[header]


def test_stripe_ignores_v0_and_counts_only_a_whole_v1():
    request, profile, keys, now = prepared("stripe")
    value = dict(request.headers)["stripe-signature"]
    good = value.split(",")[2].removeprefix("v1=")
    stamp = "t=1492774577"

    def with_signature(text: str) -> Request:
        return replace(request, headers=(("stripe-signature", text),))

    assert not refused(with_signature(f"{stamp},v1={good}"), profile, keys, now)
    assert not refused(with_signature(f"{stamp},v9=x,v1={good},scheme"), profile, keys, now)
    for text in (
        f"{stamp},v0={good}",
        f"{stamp},v1={good[:-2]}",
        f"{stamp},v1=",
        f"v1={good}",
        f"t=1492774578,v1={good}",
        f"{stamp},{stamp},v1={good}",
        f"{stamp},t=1,v1={good}",
        f"t= 1492774577,v1={good}",
        f"{stamp},v1={'0' * 64}",
        ",".join([stamp] + ["v1=" + "0" * 64] * 16 + [f"v1={good}"]),
    ):
        assert refused(with_signature(text), profile, keys, now), text


class TestChallenges:
    """Handshakes as the providers publish them."""

    @pytest.mark.parametrize("challenge", [each for each in KNOWN["challenges"] if each["provider"] != "meta"])
    def test_a_signed_challenge_gets_the_published_answer(self, challenge):
        profile = find_profile(challenge["provider"])
        secret = challenge.get("secret", "slack-secret")
        now = Instant(1_700_000_000_000)
        bare = Request.of("POST", "/hooks", {}, json.dumps(challenge["request"]).encode())
        request = sign_request(bare, profile, [secret], now, event_id="x")

        shaken = open_request(request, profile, keyring(profile, ["another", secret]), now, source="s")

        assert isinstance(shaken, Handshake)
        assert shaken.reply.status == 200
        body = shaken.reply.body.decode()
        answer = json.loads(body) if body.startswith("{") else {"challenge": body}
        assert challenge["response"] == answer

    @pytest.mark.parametrize("challenge", [each for each in KNOWN["challenges"] if each["provider"] != "meta"])
    def test_a_challenge_that_is_not_signed_gets_no_answer(self, challenge):
        profile = find_profile(challenge["provider"])
        request = Request.of("POST", "/hooks", {}, json.dumps(challenge["request"]).encode())

        with pytest.raises(VerificationError):
            open_request(request, profile, keyring(profile, ["secret"]), Instant(0), source="s")

    def test_meta_echoes_its_challenge_to_who_knows_the_verify_token(self):
        profile = find_profile("meta")
        keys = keyring(profile, ["app_secret"], verify_token="meatyhamhock")
        query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="

        good = open_request(
            Request.of("GET", f"/hooks?{query}meatyhamhock", {}, b""), profile, keys, Instant(0), source="s"
        )
        bad = open_request(Request.of("GET", f"/hooks?{query}guess", {}, b""), profile, keys, Instant(0), source="s")

        assert isinstance(good, Handshake)
        assert (good.reply.status, good.reply.body) == (200, b"1158201444")
        assert isinstance(bad, Handshake)
        assert bad.reply.status == 403
        assert b"1158201444" not in bad.reply.body
