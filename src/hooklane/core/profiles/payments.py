"""Providers that move money."""

from __future__ import annotations

import re

from hooklane.core.verify.places import InBody, InHeader, Joined, Proven
from hooklane.core.verify.profile import HOURS_MS, Budget, Dedup, Profile, Split, When
from hooklane.core.verify.reading import Encoding, Unit
from hooklane.core.verify.scheme import (
    Body,
    BodyCrc32,
    Header,
    HeaderText,
    InSignature,
    KeyKind,
    Literal,
    Pairs,
    Plain,
    Positional,
    SecretText,
    Signed,
    SignedItems,
    Stamp,
    StampText,
    Token,
    Url,
    UrlForm,
    stamped_pairs,
)
from hooklane.core.verify.shared_secret import Algorithm

STRIPE = Profile(
    name="stripe",
    title="Stripe",
    schemes=(stamped_pairs("stripe-signature"),),
    id=(InBody("id"),),
    type=(InBody("type"),),
    key=(InBody("data.object.id"), InBody("related_object.id")),
    event_time=(When(InBody("created"), Unit.SECONDS), When(InBody("created"))),  # a thin event writes it as text
    account=(InBody("account"),),
    volatile=("pending_webhooks",),
    data="data",
    budget=Budget(timeout_ms=10_000, window_ms=72 * HOURS_MS),
    notes="`created` has a resolution of one second: two events of one object may share it.",
)

PAYPAL = Profile(
    name="paypal",
    title="PayPal",
    schemes=(
        Signed(
            source=Header("paypal-transmission-sig"),
            encoding=Encoding.BASE64,
            algorithm=Algorithm.RSA_SHA256,
            key=KeyKind.CERTIFIED,
            stamp=Stamp(Header("paypal-transmission-time"), Unit.ISO, tolerance_ms=None),
            message=(
                HeaderText("paypal-transmission-id", "transmission", re.compile(r"[A-Za-z0-9_-]{1,128}")),
                Literal(b"|"),
                StampText(),
                Literal(b"|"),
                SecretText(),
                Literal(b"|"),
                BodyCrc32(),
            ),
        ),
    ),
    id=(InBody("id"),),
    type=(InBody("event_type"),),
    key=(InBody("resource.id"),),
    event_time=(When(InBody("create_time")),),
    delivery_id=(Proven("transmission"),),
    single_use=True,
    data="resource",
    budget=Budget(timeout_ms=30_000, window_ms=72 * HOURS_MS),
    notes="The secret is the webhook id of the subscription. The signature covers only a CRC-32 of the body, which "
    "other bodies have too: a transmission brings one event, so a captured request is of no use; an attacker who can "
    "change a request on its way can change its event.",
)

ADYEN = Profile(
    name="adyen",
    title="Adyen",
    schemes=(
        SignedItems(
            items="notificationItems",
            unwrap="NotificationRequestItem",
            signature="additionalData.hmacSignature",
            fields=(
                "pspReference",
                "originalReference",
                "merchantAccountCode",
                "merchantReference",
                "amount.value",
                "amount.currency",
                "eventCode",
                "success",
            ),
            free="merchantReference",
        ),
        # Adyen's other products sign the whole body in a header.
        Signed(source=Header("hmacsignature"), encoding=Encoding.BASE64, key=KeyKind.HEX),
    ),
    id=(Joined((InBody("pspReference"), InBody("eventCode"), InBody("success"))),),
    type=(InBody("eventCode"), InBody("type")),
    key=(InBody("originalReference"), InBody("pspReference")),
    event_time=(When(InBody("eventDate")),),
    account=(InBody("merchantAccountCode"),),
    split=(Split("notificationItems", unwrap="NotificationRequestItem"),),
    budget=Budget(timeout_ms=10_000, window_ms=7 * 24 * HOURS_MS),
    notes="Eight fields of each item are signed; the rest of the item is not.",
)

SQUARE = Profile(
    name="square",
    title="Square",
    schemes=(
        Signed(
            source=Header("x-square-hmacsha256-signature"),
            encoding=Encoding.BASE64,
            message=(Url(UrlForm.REGISTERED), Body()),
        ),
    ),
    id=(InBody("event_id"),),
    type=(InBody("type"),),
    key=(InBody("data.id"),),
    event_time=(When(InBody("created_at")),),
    attempt=(InHeader("square-retry-number"),),
    account=(InBody("merchant_id"),),
    data="data",
    budget=Budget(timeout_ms=10_000, window_ms=72 * HOURS_MS),
)

PADDLE = Profile(
    name="paddle",
    title="Paddle Billing",
    schemes=(
        Signed(
            source=Header("paddle-signature"),
            format=Pairs("h1", stamp="ts", separator=";"),
            stamp=Stamp(InSignature()),
            message=(StampText(), Literal(b":"), Body()),
        ),
    ),
    id=(InBody("event_id"),),
    type=(InBody("event_type"),),
    key=(InBody("data.id"),),
    event_time=(When(InBody("occurred_at")),),
    delivery_id=(InBody("notification_id"),),
    volatile=("notification_id",),
    data="data",
    budget=Budget(timeout_ms=5_000, window_ms=72 * HOURS_MS),
)

RAZORPAY = Profile(
    name="razorpay",
    title="Razorpay",
    schemes=(Signed(source=Header("x-razorpay-signature")),),
    id=(InHeader("x-razorpay-event-id"),),
    type=(InBody("event"),),
    event_time=(When(InBody("created_at"), Unit.SECONDS),),
    account=(InBody("account_id"),),
    data="payload",
    budget=Budget(timeout_ms=5_000, window_ms=24 * HOURS_MS),
)

PAYSTACK = Profile(
    name="paystack",
    title="Paystack",
    schemes=(Signed(source=Header("x-paystack-signature"), algorithm=Algorithm.HMAC_SHA512),),
    id=(Joined((InBody("data.id"), InBody("event"))),),
    type=(InBody("event"),),
    key=(InBody("data.reference"), InBody("data.id")),
    data="data",
    budget=Budget(timeout_ms=30_000, window_ms=72 * HOURS_MS),
)

RECURLY = Profile(
    name="recurly",
    title="Recurly",
    schemes=(
        Signed(
            source=Header("recurly-signature"),
            format=Positional(),
            stamp=Stamp(InSignature(), Unit.MILLISECONDS),
            message=(StampText(), Literal(b"."), Body()),
        ),
    ),
    id=(InBody("id"),),
    type=(InBody("event_type"),),
    key=(InBody("uuid"),),
    event_time=(When(InBody("event_time")),),
)

LEMONSQUEEZY = Profile(
    name="lemonsqueezy",
    title="Lemon Squeezy",
    schemes=(Signed(source=Header("x-signature")),),
    type=(InBody("meta.event_name"),),
    key=(InBody("data.id"),),
    event_time=(When(InBody("data.attributes.updated_at")),),
    data="data",
    budget=Budget(timeout_ms=10_000, window_ms=HOURS_MS),
    dedup=Dedup.DERIVED,
)

AUTHORIZE_NET = Profile(
    name="authorize_net",
    title="Authorize.Net",
    schemes=(
        Signed(
            source=Header("x-anet-signature"),
            format=Plain("sha512="),
            algorithm=Algorithm.HMAC_SHA512,
        ),
    ),
    id=(InBody("notificationId"),),
    type=(InBody("eventType"),),
    key=(InBody("payload.id"),),
    event_time=(When(InBody("eventDate")),),
    data="payload",
    notes="The secret is the Signature Key as it is shown: its 128 capital letters and digits are the key, not the "
    "bytes that they spell.",
)

CHARGEBEE = Profile(
    name="chargebee",
    title="Chargebee",
    schemes=(Token(header="authorization", prefix="Basic ", basic=True),),
    id=(InBody("id"),),
    type=(InBody("event_type"),),
    event_time=(When(InBody("occurred_at"), Unit.SECONDS),),
    volatile=("webhook_status", "webhooks"),
    data="content",
    notes="The secret is `user:password` of the webhook's basic authentication.",
)

PROFILES = (
    STRIPE,
    PAYPAL,
    ADYEN,
    SQUARE,
    PADDLE,
    RAZORPAY,
    PAYSTACK,
    RECURLY,
    LEMONSQUEEZY,
    AUTHORIZE_NET,
    CHARGEBEE,
)
