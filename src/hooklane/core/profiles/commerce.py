"""Providers that sell, invoice and keep books."""

from __future__ import annotations

from typing import Any

from hooklane.core.verify.handshake import Fixed, Greeting, IfForm
from hooklane.core.verify.places import InBody, InHeader, Joined, as_text, dig
from hooklane.core.verify.profile import HOURS_MS, Budget, Dedup, Profile, Split, When
from hooklane.core.verify.reading import Encoding, Unit
from hooklane.core.verify.scheme import (
    Body,
    Header,
    Method,
    NumberedHeaders,
    Plain,
    Signed,
    Stamp,
    StampText,
    Url,
    UrlForm,
    stamped_pairs,
)
from hooklane.model.message import Reply

SHOPIFY = Profile(
    name="shopify",
    title="Shopify",
    schemes=(
        Signed(source=Header("x-shopify-hmac-sha256"), encoding=Encoding.BASE64),
        Signed(source=Header("shopify-hmac-sha256"), encoding=Encoding.BASE64),
    ),
    # One event to several subscriptions has one event id; a webhook id is one delivery to one subscription.
    id=(InHeader("x-shopify-event-id"), InHeader("shopify-event-id"), InHeader("x-shopify-webhook-id")),
    type=(InHeader("x-shopify-topic"), InHeader("shopify-topic")),
    key=(InBody("id"),),
    event_time=(When(InBody("updated_at")),),
    delivery_id=(InHeader("x-shopify-webhook-id"), InHeader("shopify-webhook-id")),
    budget=Budget(timeout_ms=5_000, window_ms=4 * HOURS_MS),
    notes="Name one secret per rotation step: the old and the new client secret both sign for a while.",
)

WOOCOMMERCE = Profile(
    name="woocommerce",
    title="WooCommerce",
    schemes=(Signed(source=Header("x-wc-webhook-signature"), encoding=Encoding.BASE64),),
    id=(InHeader("x-wc-webhook-delivery-id"),),
    type=(InHeader("x-wc-webhook-topic"),),
    key=(InBody("id"),),
    event_time=(When(InBody("date_modified_gmt")),),
    handshakes=(Greeting(IfForm("webhook_id"), Fixed(Reply(200)), signed=False),),  # when the webhook is saved
    budget=Budget(timeout_ms=5_000, window_ms=0, retries=False),
)

XERO = Profile(
    name="xero",
    title="Xero",
    schemes=(Signed(source=Header("x-xero-signature"), encoding=Encoding.BASE64),),
    type=(Joined((InBody("eventCategory"), InBody("eventType")), "."),),
    key=(InBody("resourceId"),),
    event_time=(When(InBody("eventDateUtc")),),
    account=(InBody("tenantId"),),
    split=(Split("events"),),
    budget=Budget(timeout_ms=5_000, window_ms=24 * HOURS_MS),
    dedup=Dedup.DERIVED,
    notes="The intent to receive sends wrong signatures too, and wants 401 for them.",
)


def _quickbooks_entity(event: Any) -> str | None:
    """`invoice:95`: an entity's number is its own only among those of its kind, which the type names."""
    number, type = as_text(dig(event, "intuitentityid")), as_text(dig(event, "type")) or ""
    if number is None:
        return None
    _, _, words = type.partition(".")  # qbo.invoice.created.v1
    return f"{words.partition('.')[0]}:{number}"


QUICKBOOKS = Profile(
    name="quickbooks",
    title="QuickBooks",
    schemes=(Signed(source=Header("intuit-signature"), encoding=Encoding.BASE64),),
    # A list of CloudEvents; the older format, which says nothing but whose books changed, has none of their members.
    id=(InBody("id"),),
    type=(InBody("type"),),
    key=(_quickbooks_entity, InBody("realmId")),
    event_time=(When(InBody("time")),),
    account=(InBody("intuitaccountid"), InBody("realmId")),
    split=(Split(""), Split("eventNotifications")),
    budget=Budget(timeout_ms=3_000, window_ms=None),
    notes="An event names the entity that changed and rarely says more: fetch it.",
)

DOCUSIGN = Profile(
    name="docusign",
    title="DocuSign Connect",
    schemes=(Signed(source=NumberedHeaders("x-docusign-signature-", 100), encoding=Encoding.BASE64),),
    id=(Joined((InBody("data.envelopeId"), InBody("event"), InBody("generatedDateTime"))),),
    type=(InBody("event"),),
    key=(InBody("data.envelopeId"),),
    event_time=(When(InBody("generatedDateTime")),),
    attempt=(InBody("retryCount"),),
    volatile=("retryCount",),
    data="data",
    budget=Budget(timeout_ms=100_000, window_ms=24 * HOURS_MS),
)

HUBSPOT = Profile(
    name="hubspot",
    title="HubSpot",
    schemes=(
        Signed(
            source=Header("x-hubspot-signature-v3"),
            encoding=Encoding.BASE64,
            stamp=Stamp(Header("x-hubspot-request-timestamp"), Unit.MILLISECONDS),
            message=(Method(), Url(UrlForm.HUBSPOT), Body(), StampText()),
        ),
    ),
    id=(Joined((InBody("eventId"), InBody("subscriptionId"), InBody("occurredAt"))),),
    type=(InBody("subscriptionType"),),
    key=(InBody("objectId"),),
    event_time=(When(InBody("occurredAt"), Unit.MILLISECONDS),),
    attempt=(InBody("attemptNumber"),),
    account=(InBody("portalId"),),
    volatile=("attemptNumber",),
    split=(Split(""),),
    budget=Budget(timeout_ms=5_000, window_ms=24 * HOURS_MS),
)

ZENDESK = Profile(
    name="zendesk",
    title="Zendesk",
    schemes=(
        Signed(
            source=Header("x-zendesk-webhook-signature"),
            encoding=Encoding.BASE64,
            stamp=Stamp(Header("x-zendesk-webhook-signature-timestamp"), Unit.ISO),
            message=(StampText(), Body()),
        ),
    ),
    id=(InBody("id"), InHeader("x-zendesk-webhook-invocation-id")),
    type=(InBody("type"),),
    key=(InBody("detail.id"),),
    event_time=(When(InBody("time")),),
    account=(InBody("account_id"),),
    data="detail",
    budget=Budget(timeout_ms=12_000, window_ms=HOURS_MS),
)

CALENDLY = Profile(
    name="calendly",
    title="Calendly",
    schemes=(stamped_pairs("calendly-webhook-signature", tolerance_ms=180_000),),
    id=(Joined((InBody("payload.uri"), InBody("event"), InBody("created_at"))),),
    type=(InBody("event"),),
    key=(InBody("payload.uri"),),
    event_time=(When(InBody("created_at")),),
    data="payload",
    budget=Budget(timeout_ms=15_000, window_ms=24 * HOURS_MS),
)

TYPEFORM = Profile(
    name="typeform",
    title="Typeform",
    schemes=(Signed(source=Header("typeform-signature"), format=Plain("sha256="), encoding=Encoding.BASE64),),
    id=(InBody("event_id"),),
    type=(InBody("event_type"),),
    key=(InBody("form_response.token"),),
    event_time=(When(InBody("form_response.submitted_at")),),
    data="form_response",
    budget=Budget(timeout_ms=30_000, window_ms=10 * HOURS_MS),
)

PROFILES = (
    SHOPIFY,
    WOOCOMMERCE,
    XERO,
    QUICKBOOKS,
    DOCUSIGN,
    HUBSPOT,
    ZENDESK,
    CALENDLY,
    TYPEFORM,
)
