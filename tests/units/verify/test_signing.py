"""What the sender signs, anyone can verify; rotation never leaves a delivery unsigned."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
import standardwebhooks
from standardwebhooks.webhooks import Webhook

from hooklane.core.profiles import find_profile
from hooklane.core.signing import Signer, new_key_pair, new_secret, public_key
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.ring import keyring
from hooklane.errors import ConfigError, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.endpoint import SigningKey
from hooklane.model.message import Request

OLD, NEW = new_secret(b"o" * 32), new_secret(b"n" * 32)
PAIR = new_key_pair(bytes(range(32)))
SECONDS = 1_700_000_000
NOW = Instant(SECONDS * 1000)
BODY = b'{"id":"evt_1","type":"order.paid","timestamp":"2023-11-14T22:13:20.000Z","data":{}}'


def signed(signature: bytes, body: bytes = BODY) -> Request:
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(SECONDS),
        "webhook-signature": signature.decode(),
    }
    return Request.of("POST", "/hooks", headers, body)


def accepts(secret: str, signature: bytes) -> bool:
    profile = find_profile("hooklane")
    try:
        return isinstance(
            open_request(signed(signature), profile, keyring(profile, [secret]), NOW, source="s"), Messages
        )
    except VerificationError:
        return False


def test_the_official_vector_comes_out_byte_for_byte():
    signer = Signer([SigningKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")])

    signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signature == b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_official_asymmetric_vector_comes_out_byte_for_byte():
    private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="

    signature = Signer([SigningKey(private)]).sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert public_key(private) == "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
    assert signature == (
        b"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
    )


def test_an_independent_library_verifies_what_we_sign():
    now = int(datetime.now(UTC).timestamp())
    signature = Signer([SigningKey(NEW), SigningKey(OLD)]).sign("evt_1", now, BODY).decode()
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(now), "webhook-signature": signature}

    assert Webhook(OLD).verify(BODY, headers)["type"] == "order.paid"
    assert Webhook(NEW).verify(BODY, headers)["type"] == "order.paid"
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        Webhook(new_secret(b"x" * 32)).verify(BODY, headers)


def test_while_a_secret_is_rotated_both_sign_and_either_verifies():
    signature = Signer([SigningKey(NEW), SigningKey(OLD, Instant(NOW + 1))]).sign("evt_1", SECONDS, BODY)

    assert signature.count(b"v1,") == 2
    assert accepts(OLD, signature)
    assert accepts(NEW, signature)


def test_v17_a_secret_that_was_rotated_out_signs_no_more_after_its_grace():
    signature = Signer([SigningKey(NEW), SigningKey(OLD, NOW)]).sign("evt_1", SECONDS, BODY)

    assert accepts(NEW, signature)
    assert not accepts(OLD, signature)


def test_an_endpoint_with_a_key_pair_gets_both_kinds_of_signature():
    signature = Signer([SigningKey(NEW), SigningKey(PAIR.private)]).sign("evt_1", SECONDS, BODY)

    assert [entry.split(b",")[0] for entry in signature.split(b" ")] == [b"v1", b"v1a"]
    assert accepts(NEW, signature)
    assert accepts(PAIR.public, signature)


def test_a_delivery_is_signed_even_when_every_key_has_expired():
    signer = Signer([SigningKey(NEW, Instant(5)), SigningKey(OLD, Instant(4))])

    assert accepts(NEW, signer.sign("evt_1", SECONDS, BODY))


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("", "at least 24 bytes"),
        ("whsec_", "at least 24 bytes"),
        ("whsec_" + base64.b64encode(b"short").decode(), "at least 24 bytes"),
        ("whsec_!!!!", "whsec_ and base64"),
        ("whsk_AAAA", "base64 of 64 bytes"),
        ("whsk_" + base64.b64encode(b"\1" * 64).decode(), "do not belong together"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_when_the_endpoint_is_built(secret, problem):
    with pytest.raises(ConfigError, match=problem):
        Signer([SigningKey(NEW), SigningKey(secret)])


def test_an_endpoint_without_keys_cannot_sign():
    with pytest.raises(ConfigError, match="at least one signing key"):
        Signer([])


def test_secrets_do_not_show_in_a_repr():
    assert PAIR.private not in repr(PAIR)
