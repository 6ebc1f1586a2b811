"""Received types are the provider's words: each of them can be subscribed to, alone and by a pattern."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tree import ROOT

from hooklane import Inbox
from hooklane.core.profiles import find_profile, profile_names
from hooklane.errors import ConfigError
from hooklane.model.clock import wall_now
from hooklane.testing.build_request import build_request
from hooklane.testing.credentials import credentials

HOW_TO = ROOT / "docs/how-to/verify-a-signature.md"
TYPES = {
    "adyen": "AUTHORISATION",
    "airtable": None,
    "asana": "task.changed",
    "authorize_net": "net.authorize.payment.authcapture.created",
    "bitbucket": "pullrequest:comment_created",
    "brex": "TRANSFER_PROCESSED",
    "calendly": "invitee.created",
    "chargebee": "subscription_created",
    "clerk": "user.created",
    "clickup": "taskStatusUpdated",
    "cloudflare_stream": "ready",
    "discord": "APPLICATION_AUTHORIZED",
    "docusign": "envelope-completed",
    "dropbox": None,
    "github": "pull_request_review",
    "gitlab": "Push Hook",
    "heroku": "api:release",
    "hooklane": "order.created",
    "hubspot": "contact.propertyChange",
    "intercom": "conversation.user.created",
    "launchdarkly": "flag",
    "lemonsqueezy": "order_created",
    "linear": "Issue",
    "mailgun": "delivered",
    "meta": "whatsapp_business_account",
    "microsoft_graph": "updated",
    "mux": "video.asset.ready",
    "notion": "page.content_updated",
    "nylas": "message.created",
    "okta": "com.okta.event_hook",
    "openai": "response.completed",
    "paddle": "transaction.completed",
    "pagerduty": "incident.triggered",
    "paypal": "PAYMENT.CAPTURE.COMPLETED",
    "paystack": "charge.success",
    "persona": "inquiry.completed",
    "polar": "order.paid",
    "postmark": "SpamComplaint",
    "quickbooks": "qbo.invoice.created.v1",
    "razorpay": "payment.captured",
    "recurly": "paid",
    "replicate": None,
    "resend": "email.delivered",
    "sanity": "blogPost",
    "sendgrid": "group_unsubscribe",
    "sentry": "event_alert",
    "shopify": "orders/create",
    "slack": "/weather",
    "smartcar": "VEHICLE_STATE",
    "sns": "Notification",
    "sportsstack": "odds.changed",
    "square": "payment.updated",
    "standard_webhooks": "user.created",
    "stripe": "customer.subscription.trial_will_end",
    "supabase": "INSERT",
    "telegram": "edited_message",
    "trello": "updateCard",
    "twilio": "delivered",
    "twitch": "channel.channel_points_custom_reward_redemption.add",
    "typeform": "form_response",
    "vercel": "deployment.succeeded",
    "woocommerce": "order.updated",
    "workos": "dsync.user.created",
    "x": None,
    "xero": "INVOICE.UPDATE",
    "zendesk": "zen:event-type:ticket.status_changed",
    "zoom": "meeting.participant_joined",
}
"""A real type of every profile, as its provider writes it; None where the provider names none."""


def test_every_profile_has_a_real_type_here() -> None:
    assert set(TYPES) == set(profile_names())


@pytest.mark.parametrize("name", sorted(name for name, type in TYPES.items() if type))
def test_a_type_can_be_subscribed_to_as_its_provider_writes_it(name: str) -> None:
    type = str(TYPES[name])
    profile = find_profile(name)
    known = credentials(profile)
    inbox = Inbox("memory://")
    source = inbox.source(name, [known.secret], **known.options)
    seen: list[str] = []
    patterns = {"as it is": type, "its beginning": f"{type[:3]}*", "its end": f"*{type[-3:]}", "another": f"{type}x"}
    for label, pattern in patterns.items():
        source.on(pattern, name=label)(lambda event, tx, label=label: seen.append(label))
    request = build_request(profile, known, type, {"n": 1}, id="e1", at=wall_now(), key="k")
    assert inbox.receive(request, name).status == 200
    inbox.run_once()

    assert [row.message.type for row in inbox.rows()] == [type]
    assert sorted(seen) == ["as it is", "its beginning", "its end"]


@pytest.mark.parametrize("name", sorted(name for name, type in TYPES.items() if not type))
def test_what_its_provider_gives_no_type_is_subscribed_to_as_unknown(name: str) -> None:
    profile = find_profile(name)
    known = credentials(profile)
    inbox = Inbox("memory://")
    source = inbox.source(name, [known.secret], **known.options)
    seen: list[str] = []
    for pattern in ("unknown", "*", "unknown.*"):
        source.on(pattern, name=pattern)(lambda event, tx, pattern=pattern: seen.append(pattern))
    request = build_request(profile, known, "", {"n": 1}, id="e1", at=wall_now(), key="k")
    assert inbox.receive(request, name).status == 200
    inbox.run_once()

    assert sorted(seen) == ["*", "unknown"]


def test_the_how_to_names_every_provider_whose_id_is_not_signed() -> None:
    """In the part about ids that nobody signs: what a replayer can do there, and what is done about it."""
    part = HOW_TO.read_text().split("**Ids that nobody signs.**")[1].split("**Raw bytes.**")[0]
    unsigned = []
    for name in profile_names():
        profile = find_profile(name)
        known = credentials(profile)
        inbox = Inbox("memory://")
        inbox.source(name, [known.secret], **known.options)
        inbox.receive(build_request(profile, known, TYPES[name] or "", {"n": 1}, id="e1", at=wall_now(), key="k"), name)
        if not all(row.message.id_signed for row in inbox.rows()):
            unsigned.append(profile.title)

    assert "Shopify" in unsigned
    assert [title for title in unsigned if title not in part] == []


@pytest.mark.parametrize("wrong", ["", "a\nb", "a\x00", "x" * 256, 7, None, b"order.*"])
def test_what_no_type_can_be_is_refused(wrong: Any) -> None:
    source = Inbox("memory://").source("shop", unsafe=True, profile="standard_webhooks")
    with pytest.raises(ConfigError, match="is not a pattern of event types"):
        source.on(wrong)
