"""Requests signed by the providers' own packages are accepted."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
import standardwebhooks.webhooks
import stripe
import svix.webhooks

from hooklane.core.profiles import find_profile
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.ring import keyring
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request

SECONDS = 1_700_000_000
NOW = Instant(SECONDS * 1000)
BODY = '{"id":"evt_1","type":"invoice.paid","created":1699999999,"data":{"object":{"id":"in_1","ü":"€"}}}'
SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()


def stripe_request(secret: str, body: str = BODY, seconds: int = SECONDS) -> Request:
    signature = stripe.WebhookSignature._compute_signature(f"{seconds}.{body}", secret)
    return Request.of("POST", "/hooks", {"Stripe-Signature": f"t={seconds},v1={signature}"}, body.encode())


def standard_request(webhook: svix.webhooks.Webhook | standardwebhooks.webhooks.Webhook, prefix: str) -> Request:
    signature = webhook.sign("msg_1", datetime.fromtimestamp(SECONDS, UTC), BODY)
    headers = {f"{prefix}-id": "msg_1", f"{prefix}-timestamp": str(SECONDS), f"{prefix}-signature": signature}
    return Request.of("POST", "/hooks", headers, BODY.encode())


def test_what_stripes_package_signs_is_accepted():
    profile = find_profile("stripe")

    opened = open_request(stripe_request(SECRET), profile, keyring(profile, ["old", SECRET]), NOW, source="stripe")

    assert isinstance(opened, Messages)
    (message,) = opened.items
    assert (
        message.event_id,
        message.type,
        message.key,
        message.event_time,
    ) == ("evt_1", "invoice.paid", "in_1", 1_699_999_999_000)


def test_what_stripes_package_refuses_is_refused():
    profile = find_profile("stripe")
    for inbound in (stripe_request("whsec_other"), stripe_request(SECRET, seconds=SECONDS - 301)):
        with pytest.raises(VerificationError):
            open_request(inbound, profile, keyring(profile, [SECRET]), NOW, source="stripe")


@pytest.mark.parametrize(
    ("webhook", "prefix"),
    [
        (svix.webhooks.Webhook(SECRET), "svix"),
        (svix.webhooks.Webhook(SECRET), "webhook"),
        (standardwebhooks.webhooks.Webhook(SECRET), "webhook"),
    ],
)
@pytest.mark.parametrize("name", ["standard_webhooks", "svix", "clerk", "resend"])
def test_what_the_svix_and_standardwebhooks_packages_sign_is_accepted(webhook, prefix, name):
    profile = find_profile(name)

    opened = open_request(standard_request(webhook, prefix), profile, keyring(profile, [SECRET]), NOW, source="s")

    assert isinstance(opened, Messages)
    assert [item.event_id for item in opened.items] == ["msg_1"]


def test_what_we_forge_is_accepted_by_stripes_package():
    from hooklane.testing.build_request import build_request

    now = Instant(int(datetime.now(UTC).timestamp()) * 1000)
    request = build_request(
        find_profile("stripe"), [SECRET], "invoice.paid", {"object": {"id": "in_1"}}, id="evt_9", at=now
    )

    event = stripe.Webhook.construct_event(request.body, dict(request.headers)["stripe-signature"], SECRET)

    assert (event.id, event.type, event.data.object["id"]) == ("evt_9", "invoice.paid", "in_1")
    assert json.loads(request.body)["id"] == "evt_9"
