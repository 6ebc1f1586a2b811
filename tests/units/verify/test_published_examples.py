"""Examples that providers print in their own documentation and SDKs, beside those of the data file."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from hooklane.core.profiles import find_profile
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.ring import keyring
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request

EXAMPLES = {
    # docs.svix.com, "Verifying webhooks manually": its secret has 18 bytes, fewer than the standard asks for
    "svix": (
        "whsec_plJ3nmyCDGBKInavdOK15jsl",
        {
            "svix-id": "msg_loFOjxBNrRLzqYUf",
            "svix-timestamp": "1731705121",
            "svix-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
        },
        '{"event_type":"ping","data":{"success":true}}',
        1731705121,
    ),
    # the tests of Mux's SDK for Node
    "mux": (
        "SuperSecret123",
        {"mux-signature": "t=1565125718,v1=854ece4c22acef7c66b57d4e504153bc512595e8e9c772ece2a68150548c19a7"},
        '{"test":"body"}',
        1565125718,
    ),
    # the tests of Twilio's SDK for Python
    "twilio": (
        "12345",
        {"x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=", "content-type": "application/x-www-form-urlencoded"},
        "CallSid=CA1234567890ABCDE&Digits=1234&To=%2B18005551212&Caller=%2B14158675309&From=%2B14158675309",
        1700000000,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_provider_itself_verifies_and_a_changed_one_does_not(name):
    secret, headers, body, seconds = EXAMPLES[name]
    profile = find_profile(name)
    keys, now = keyring(profile, [secret]), Instant(seconds * 1000)
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"

    assert isinstance(
        open_request(Request.of("POST", url, headers, body.encode()), profile, keys, now, source="s"), Messages
    )
    with pytest.raises(VerificationError):
        open_request(
            Request.of("POST", url, headers, body.replace("1", "2", 1).encode() + b"="), profile, keys, now, source="s"
        )


@pytest.mark.parametrize("mine", ["new", "old"])
def test_persona_sends_a_whole_set_for_each_secret_while_one_is_rotated(mine):
    body, stamp = b'{"data":{"id":"evt_1"}}', "1700000000"
    sets = [
        f"t={stamp},v1={hmac.digest(each, f'{stamp}.'.encode() + body, hashlib.sha256).hex()}"
        for each in (b"new", b"old")
    ]
    profile = find_profile("persona")

    def verify(header: str) -> object:
        request = Request.of("POST", "/persona", {"persona-signature": header}, body)
        return open_request(request, profile, keyring(profile, [mine]), Instant(1_700_000_000_000), source="s")

    assert isinstance(verify(" ".join(sets)), Messages)
    with pytest.raises(VerificationError, match="more than one timestamp"):
        verify(f"{sets[0]} {sets[1].replace(stamp, '1700000001')}")
