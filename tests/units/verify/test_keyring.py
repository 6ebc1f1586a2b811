"""Secrets are judged when a source is built, not when the first request arrives."""

from __future__ import annotations

import base64
import json

import pytest

from hooklane.core.profiles import find_profile
from hooklane.core.signing import Signer, new_key_pair, new_secret
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.profile import Grade
from hooklane.core.verify.ring import keyring
from hooklane.errors import ConfigError, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.endpoint import SigningKey
from hooklane.model.message import Request
from hooklane.testing.build_request import build_request
from hooklane.testing.credentials import credentials

AT = Instant(1_700_000_000_000)
STANDARD = find_profile("standard_webhooks")
GOOD = new_secret(b"g" * 32)
PAIRS = [new_key_pair(bytes([n]) * 32) for n in range(3)]


def accepted(profile_name: str, secrets: list[str], request: Request) -> bool:
    profile = find_profile(profile_name)
    try:
        return isinstance(open_request(request, profile, keyring(profile, secrets), AT, source="s"), Messages)
    except VerificationError:
        return False


def signed(secret: str) -> Request:
    signature = Signer([SigningKey(secret)]).sign("msg_1", AT // 1000, b"{}").decode()
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(AT // 1000), "webhook-signature": signature}
    return Request.of("POST", "/", headers, b"{}")


@pytest.mark.parametrize("secrets", [[], [""], [" "], ["\n"], [GOOD, ""], [GOOD, " "], [None]])
@pytest.mark.parametrize("name", ["stripe", "standard_webhooks", "gitlab", "adyen", "discord", "sendgrid", "telegram"])
def test_no_secret_and_an_empty_secret_are_errors_at_once(name, secrets):
    with pytest.raises(ConfigError):
        keyring(find_profile(name), secrets)


@pytest.mark.parametrize(
    ("name", "secret", "expected"),
    [
        ("standard_webhooks", "whsec_!!!", "whsec_ and base64"),
        ("standard_webhooks", "whsec_" + base64.b64encode(b"x" * 17).decode(), "at least 18 bytes"),
        ("standard_webhooks", PAIRS[0].private, "private key; a receiver needs the public one"),
        ("standard_webhooks", "whpk_AAAA", "base64 of 32 bytes"),
        ("standard_webhooks", '{"keys":[]}', "JWKS with Ed25519 keys"),
        ("standard_webhooks", '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}', "32 bytes"),
        ("standard_webhooks", "{" * 9000, "JWKS"),
        ("adyen", "xyz", "hex digits"),
        ("adyen", "ABC", "hex digits"),
        ("airtable", "not base64!", "base64"),
        ("discord", "ab" * 31, "64 hex digits"),
        ("sendgrid", "AAAA", "base64 DER or PEM"),
        ("sendgrid", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "base64 DER or PEM"),
        ("stripe", "x" * 20_000, "at most"),
        ("stripe", "\ud800", "expected text"),
    ],
)
def test_a_garbled_secret_is_refused_with_what_was_expected_and_never_quoted(name, secret, expected):
    with pytest.raises(ConfigError, match=expected) as refusal:
        keyring(find_profile(name), [secret])

    assert secret not in str(refusal.value)


def test_one_garbled_secret_in_a_rotation_is_reported_and_the_others_work():
    keys = keyring(STANDARD, ["whsec_!!!", GOOD, "whsec_short"])

    assert isinstance(open_request(signed(GOOD), STANDARD, keys, AT, source="s"), Messages)
    assert [problem.split(": ")[1].split(" cannot")[0] for problem in keys.problems] == [
        "secret 1 of 3",
        "secret 3 of 3",
    ]


def test_a_secret_without_its_prefix_or_padding_is_the_same_secret():
    for secret in (GOOD.removeprefix("whsec_"), GOOD.rstrip("="), GOOD.removeprefix("whsec_").rstrip("=")):
        assert accepted("standard_webhooks", [secret], signed(GOOD))


def test_a_jwks_brings_all_its_keys():
    def jwk(pair, **more):
        raw = base64.b64decode(pair.public.removeprefix("whpk_"))
        x = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        return {"kty": "OKP", "crv": "Ed25519", "x": x, **more}

    jwks = json.dumps({"keys": [{"kty": "RSA", "n": "x"}, *(jwk(pair, kid=str(n)) for n, pair in enumerate(PAIRS))]})

    for pair in PAIRS:
        assert accepted("standard_webhooks", [jwks], signed(pair.private))
    assert accepted("standard_webhooks", [json.dumps(jwk(PAIRS[0]))], signed(PAIRS[0].private))
    assert not accepted("standard_webhooks", [jwks], signed(new_key_pair(b"z" * 32).private))


def test_one_string_is_one_secret_and_not_a_list_of_letters():
    assert len(keyring(find_profile("stripe"), "whsec_abc").held) == 1


def test_a_registered_url_must_be_a_url():
    with pytest.raises(ConfigError, match="public http"):
        keyring(find_profile("square"), ["s"], url="/hooks")


def test_the_window_can_be_set_but_not_given_to_a_scheme_that_has_none():
    stripe, github = find_profile("stripe"), find_profile("github")
    late = Instant(AT + 50_000)

    with pytest.raises(VerificationError, match="50000 ms old"):
        open_request(
            build_request(stripe, ["s"], "a", {}, id="e", at=AT),
            stripe,
            keyring(stripe, ["s"], tolerance_ms=9),
            late,
            source="s",
        )
    request = build_request(github, ["s"], "a", {}, id="e", at=AT)
    assert open_request(request, github, keyring(github, ["s"], tolerance_ms=9), late, source="s")


class TestGitLab:
    """Two generations of webhooks, and no way down from the stronger to the weaker."""

    def test_the_grade_tells_which_kind_of_secret_is_in_use(self):
        profile = find_profile("gitlab")

        assert keyring(profile, [GOOD]).grade == Grade.SIGNED
        assert keyring(profile, ["token"]).grade == Grade.AUTHENTICATED
        assert keyring(profile, [GOOD, "token"]).grade == Grade.AUTHENTICATED

    def test_a_token_proves_the_sender_and_not_the_id(self):
        headers = {"X-Gitlab-Token": "token", "Idempotency-Key": "k1", "X-Gitlab-Event": "Push Hook"}
        profile = find_profile("gitlab")
        request = Request.of("POST", "/", headers, b'{"object_kind":"push"}')

        opened = open_request(request, profile, keyring(profile, ["token"]), AT, source="s")

        assert isinstance(opened, Messages)
        (message,) = opened.items
        assert (message.event_id, message.id_signed, message.type) == ("k1", False, "push")

    def test_a_signing_secret_never_serves_as_a_token(self):
        request = Request.of("POST", "/", {"X-Gitlab-Token": GOOD}, b"{}")

        assert not accepted("gitlab", [GOOD], request)
        with pytest.raises(ConfigError):
            keyring(find_profile("gitlab"), ["whsec_garbled!"])

    def test_a_wrong_or_absent_token_is_refused(self):
        for headers in ({}, {"X-Gitlab-Token": ""}, {"X-Gitlab-Token": "Token"}, {"X-Gitlab-Token": "tokené"}):
            assert not accepted("gitlab", ["token"], Request.of("POST", "/", headers, b"{}"))


def test_credentials_are_the_same_for_the_same_seed_and_other_for_another():
    for name in ("stripe", "discord", "sendgrid", "hooklane"):
        profile = find_profile(name)

        assert credentials(profile, "a").secret == credentials(profile, "a").secret != credentials(profile, "b").secret


# The curve of Ed25519, by its definition: enough to say what the order of a point is.
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def decoded(raw):
    y, sign = int.from_bytes(raw, "little") % 2**255 % P, raw[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert (x * x - square) % P == 0, "not a point"
    return (P - x if x % 2 != sign else x) % P, y


def added(one, other):
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P,
    )


def all_small_order():
    """Every way to write one of the eight points whose order divides eight, by the sign bit and unreduced too."""
    eighth = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
    heights = {0, 1, P - 1, P, P + 1, eighth, P - eighth}
    return [(height | sign << 255).to_bytes(32, "little") for height in sorted(heights) for sign in (0, 1)]


@pytest.mark.parametrize("raw", all_small_order(), ids=lambda raw: raw.hex()[:4] + raw.hex()[-4:])
def test_a_key_of_small_order_is_refused_because_anyone_can_sign_for_it(raw):
    twice = added(decoded(raw), decoded(raw))
    assert added(added(twice, twice), added(twice, twice)) == (0, 1), "eight times it is nothing"

    for profile, secret in (
        ("discord", raw.hex()),
        ("standard_webhooks", "whpk_" + base64.b64encode(raw).decode()),
        (
            "standard_webhooks",
            json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(raw).decode()}]}),
        ),
    ):
        with pytest.raises(ConfigError, match="small order"):
            keyring(find_profile(profile), [secret])


def test_an_ordinary_ed25519_key_is_taken():
    for number in range(20):
        held = keyring(find_profile("discord"), [credentials(find_profile("discord"), str(number)).secret]).held
        assert len(held) == 1
