"""Providers that carry messages: chat, mail, telephone, video, social networks."""

from __future__ import annotations

import re
from typing import Any

from hooklane.core.verify.handshake import (
    CrcResponse,
    Echo,
    EchoQuery,
    Fixed,
    Greeting,
    HmacOf,
    IfBody,
    IfHeader,
    IfMethod,
    IfQuery,
    json_reply,
)
from hooklane.core.verify.places import InBody, InEnvelope, InHeader, Joined, Proven, dig
from hooklane.core.verify.profile import HOURS_MS, Budget, Dedup, Profile, Split, When
from hooklane.core.verify.reading import Encoding, Unit
from hooklane.core.verify.scheme import (
    Body,
    BodyText,
    Header,
    HeaderText,
    JsonText,
    KeyKind,
    Literal,
    Plain,
    Signed,
    SortedForm,
    Stamp,
    StampText,
    Token,
    Url,
    UrlForm,
)
from hooklane.core.verify.shared_secret import Algorithm
from hooklane.model.message import Reply

_V0 = (Literal(b"v0:"), StampText(), Literal(b":"), Body())

SLACK = Profile(
    name="slack",
    title="Slack",
    schemes=(
        Signed(
            source=Header("x-slack-signature"),
            format=Plain("v0="),
            stamp=Stamp(Header("x-slack-request-timestamp")),
            message=_V0,
        ),
    ),
    id=(InBody("event_id"), InBody("trigger_id")),
    type=(InBody("event.type"), InBody("command"), InBody("type")),
    key=(InBody("event.channel"), InBody("channel_id"), InBody("channel.id")),
    event_time=(When(InBody("event.event_ts"), Unit.DECIMAL_SECONDS), When(InBody("event_time"), Unit.SECONDS)),
    attempt=(InHeader("x-slack-retry-num"),),
    account=(InBody("team_id"), InBody("team.id")),
    data="event",
    handshakes=(Greeting(IfBody("type", "url_verification"), Echo("challenge")),),
    budget=Budget(timeout_ms=3_000, window_ms=360_000),
    form=True,
)

DISCORD = Profile(
    name="discord",
    title="Discord",
    schemes=(
        Signed(
            source=Header("x-signature-ed25519"),
            algorithm=Algorithm.ED25519,
            key=KeyKind.ED25519_HEX,
            stamp=Stamp(Header("x-signature-timestamp"), tolerance_ms=None),
            message=(StampText(), Body()),
        ),
    ),
    id=(InBody("id"),),
    type=(InBody("event.type"), InBody("type")),
    event_time=(When(InBody("event.timestamp")), When(InBody("id"), Unit.SNOWFLAKE)),
    data="data",
    handshakes=(
        # An interaction's ping and an event of the newer kind both have type 1; only the event has an event.
        Greeting(IfBody("type", 1, unless="event"), Fixed(json_reply({"type": 1}))),
        Greeting(IfBody("type", 0, unless="event"), Fixed(Reply(204))),
    ),
    budget=Budget(timeout_ms=3_000, window_ms=0, retries=False),
    notes="Discord probes with wrong signatures and wants 401 for them.",
)

TWILIO = Profile(
    name="twilio",
    title="Twilio",
    schemes=(
        Signed(
            source=Header("x-twilio-signature"),
            encoding=Encoding.BASE64,
            algorithm=Algorithm.HMAC_SHA1,
            message=(Url(UrlForm.PORTS), SortedForm()),
        ),
    ),
    # A call reports the same status several times with other content, so calls are told apart by their digest.
    id=(Joined((InBody("MessageSid"), InBody("MessageStatus"), InBody("SmsStatus"))),),
    type=(InBody("MessageStatus"), InBody("SmsStatus"), InBody("CallStatus")),
    key=(InBody("MessageSid"), InBody("CallSid")),
    account=(InBody("AccountSid"),),
    delivery_id=(InHeader("i-twilio-idempotency-token"),),
    budget=Budget(timeout_ms=15_000, window_ms=0, retries=False),
    form=True,
    notes="Status callbacks are sent once unless the URL asks for retries.",
)

SENDGRID = Profile(
    name="sendgrid",
    title="SendGrid",
    schemes=(
        Signed(
            source=Header("x-twilio-email-event-webhook-signature"),
            encoding=Encoding.BASE64,
            algorithm=Algorithm.ECDSA_P256,
            key=KeyKind.SPKI,
            stamp=Stamp(Header("x-twilio-email-event-webhook-timestamp"), tolerance_ms=None),
            message=(StampText(), Body()),
        ),
    ),
    id=(InBody("sg_event_id"),),
    type=(InBody("event"),),
    key=(InBody("sg_message_id"),),
    event_time=(When(InBody("timestamp"), Unit.SECONDS),),
    split=(Split(""),),
    budget=Budget(timeout_ms=10_000, window_ms=24 * HOURS_MS),
)

MAILGUN = Profile(
    name="mailgun",
    title="Mailgun",
    schemes=(
        Signed(
            source=BodyText("signature.signature"),
            stamp=Stamp(BodyText("signature.timestamp")),
            message=(StampText(), JsonText("signature.token")),
        ),
    ),
    id=(InBody("event-data.id"),),
    type=(InBody("event-data.event"),),
    key=(InBody("event-data.message.headers.message-id"),),
    event_time=(When(InBody("event-data.timestamp"), Unit.DECIMAL_SECONDS),),
    delivery_id=(InBody("signature.token"),),
    single_use=True,
    volatile=("signature",),
    data="event-data",
    budget=Budget(timeout_ms=10_000, window_ms=8 * HOURS_MS),
    notes="Only a token is signed, not the event. A token brings one event, so a captured request is of no use; an "
    "attacker who can change a request on its way can change its event.",
)

POSTMARK = Profile(
    name="postmark",
    title="Postmark",
    schemes=(Token(header="authorization", prefix="Basic ", basic=True),),
    type=(InBody("RecordType"),),
    key=(InBody("MessageID"),),
    event_time=(When(InBody("BouncedAt")), When(InBody("DeliveredAt")), When(InBody("ReceivedAt"))),
    budget=Budget(timeout_ms=120_000, window_ms=11 * HOURS_MS),
    dedup=Dedup.DERIVED,
    notes="The secret is `user:password` of the basic authentication in the webhook's URL.",
)


def _update_kind(update: Any) -> str | None:
    return next((name for name in update if name != "update_id"), None) if isinstance(update, dict) else None


TELEGRAM = Profile(
    name="telegram",
    title="Telegram",
    schemes=(Token(header="x-telegram-bot-api-secret-token"),),
    id=(InBody("update_id"),),
    type=(_update_kind,),
    key=(InBody("message.chat.id"), InBody("callback_query.message.chat.id")),
    event_time=(When(InBody("message.date"), Unit.SECONDS),),
    budget=Budget(timeout_ms=60_000, window_ms=24 * HOURS_MS),
)

ZOOM = Profile(
    name="zoom",
    title="Zoom",
    schemes=(
        Signed(
            source=Header("x-zm-signature"),
            format=Plain("v0="),
            stamp=Stamp(Header("x-zm-request-timestamp")),
            message=_V0,
        ),
    ),
    type=(InBody("event"),),
    key=(InBody("payload.object.uuid"), InBody("payload.object.id")),
    event_time=(When(InBody("event_ts"), Unit.MILLISECONDS),),
    account=(InBody("payload.account_id"),),
    data="payload",
    handshakes=(
        Greeting(
            IfBody("event", "endpoint.url_validation"), HmacOf("payload.plainToken", "encryptedToken", "plainToken")
        ),
    ),
    budget=Budget(timeout_ms=3_000, window_ms=2 * HOURS_MS),
    dedup=Dedup.DERIVED,
)

META = Profile(
    name="meta",
    title="Meta (Facebook, Instagram, WhatsApp)",
    schemes=(Signed(source=Header("x-hub-signature-256"), format=Plain("sha256=")),),
    type=(InEnvelope("object"),),
    key=(InBody("id"),),
    event_time=(When(InBody("time"), Unit.SECONDS),),
    split=(Split("entry"),),
    handshakes=(
        Greeting(IfQuery("hub.challenge"), EchoQuery("hub.challenge", token="hub.verify_token"), signed=False),
    ),
    budget=Budget(timeout_ms=10_000, window_ms=36 * HOURS_MS),
    dedup=Dedup.DERIVED,
    notes="The subscription's GET needs the source's verify_token.",
)


def _eventsub_kind(notification: Any) -> Any:
    # A revoked subscription is told in the same shape, without an event.
    return dig(notification, "subscription.type") if dig(notification, "event") is not None else "revocation"


TWITCH = Profile(
    name="twitch",
    title="Twitch EventSub",
    schemes=(
        Signed(
            source=Header("twitch-eventsub-message-signature"),
            format=Plain("sha256="),
            stamp=Stamp(Header("twitch-eventsub-message-timestamp"), Unit.ISO, tolerance_ms=600_000),
            message=(
                HeaderText("twitch-eventsub-message-id", "id", re.compile(r"[A-Za-z0-9_=-]{1,128}")),
                StampText(),
                Body(),
            ),
        ),
    ),
    id=(Proven("id"),),
    type=(_eventsub_kind,),
    key=(InBody("subscription.id"),),
    attempt=(InHeader("twitch-eventsub-message-retry"),),
    data="event",
    handshakes=(
        Greeting(
            IfHeader("twitch-eventsub-message-type", "webhook_callback_verification"),
            Echo("challenge"),
        ),
    ),
    budget=Budget(timeout_ms=3_000, window_ms=None),
)

X = Profile(
    name="x",
    title="X",
    schemes=(Signed(source=Header("x-twitter-webhooks-signature"), format=Plain("sha256="), encoding=Encoding.BASE64),),
    account=(InBody("for_user_id"),),
    handshakes=(Greeting(IfQuery("crc_token"), CrcResponse("crc_token"), signed=False),),
    budget=Budget(timeout_ms=3_000, window_ms=None),
    dedup=Dedup.DERIVED,
)

INTERCOM = Profile(
    name="intercom",
    title="Intercom",
    schemes=(Signed(source=Header("x-hub-signature"), format=Plain("sha1="), algorithm=Algorithm.HMAC_SHA1),),
    id=(InBody("id"),),
    type=(InBody("topic"),),
    key=(InBody("data.item.id"),),
    event_time=(When(InBody("created_at"), Unit.SECONDS),),
    attempt=(InBody("delivery_attempts"),),
    account=(InBody("app_id"),),
    volatile=("delivery_attempts", "delivery_status", "delivered_at", "first_sent_at"),
    data="data",
    handshakes=(Greeting(IfMethod("HEAD"), Fixed(Reply(200)), signed=False),),  # when the address is saved
    budget=Budget(timeout_ms=5_000, window_ms=60_000),
)

PROFILES = (
    SLACK,
    DISCORD,
    TWILIO,
    SENDGRID,
    MAILGUN,
    POSTMARK,
    TELEGRAM,
    ZOOM,
    META,
    TWITCH,
    X,
    INTERCOM,
)
