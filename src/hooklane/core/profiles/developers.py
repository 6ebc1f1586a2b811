"""Where code is kept, built and watched."""

from __future__ import annotations

from hooklane.core.verify.places import InBody, InHeader, Proven
from hooklane.core.verify.profile import HOURS_MS, Budget, Profile, When
from hooklane.core.verify.reading import Encoding, Unit
from hooklane.core.verify.scheme import BodyText, Header, KeyKind, Pairs, Plain, Signed, Stamp, Token, standard
from hooklane.core.verify.shared_secret import Algorithm

GITHUB = Profile(
    name="github",
    title="GitHub",
    schemes=(Signed(source=Header("x-hub-signature-256"), format=Plain("sha256=")),),
    id=(InHeader("x-github-delivery"),),
    type=(InHeader("x-github-event"),),
    budget=Budget(timeout_ms=10_000, window_ms=0, retries=False),
    form=True,
    notes="A failed delivery is never sent again by itself: receive in durable mode.",
)

GITLAB = Profile(
    name="gitlab",
    title="GitLab",
    # A secret that begins with whsec_ signs; any other is the token of older webhooks, which proves less.
    schemes=(standard("webhook", key=KeyKind.WHSEC_ONLY)[0], Token(header="x-gitlab-token")),
    id=(Proven("id"), InHeader("idempotency-key"), InHeader("x-gitlab-event-uuid")),
    type=(InBody("object_kind"), InBody("event_name"), InHeader("x-gitlab-event")),
    key=(InBody("object_attributes.id"),),
    event_time=(When(InBody("object_attributes.updated_at")),),
    delivery_id=(InHeader("x-gitlab-webhook-uuid"),),
    budget=Budget(timeout_ms=10_000, window_ms=None, retries=False),
    notes="Webhooks that fail often are disabled by GitLab.",
)

BITBUCKET = Profile(
    name="bitbucket",
    title="Bitbucket",
    schemes=(Signed(source=Header("x-hub-signature"), format=Plain("sha256=")),),
    id=(InHeader("x-request-uuid"),),
    type=(InHeader("x-event-key"),),
    attempt=(InHeader("x-attempt-number"),),
    budget=Budget(timeout_ms=10_000, window_ms=None),
)

LINEAR = Profile(
    name="linear",
    title="Linear",
    schemes=(
        Signed(
            source=Header("linear-signature"),
            stamp=Stamp(BodyText("webhookTimestamp"), Unit.MILLISECONDS, tolerance_ms=60_000),
        ),
    ),
    id=(InHeader("linear-delivery"),),
    type=(InBody("type"),),
    key=(InBody("data.id"),),
    event_time=(When(InBody("data.updatedAt")), When(InBody("createdAt"))),
    volatile=("webhookTimestamp",),
    data="data",
    budget=Budget(timeout_ms=5_000, window_ms=7 * HOURS_MS),
)

VERCEL = Profile(
    name="vercel",
    title="Vercel",
    schemes=(Signed(source=Header("x-vercel-signature"), algorithm=Algorithm.HMAC_SHA1),),
    id=(InBody("id"),),
    type=(InBody("type"),),
    event_time=(When(InBody("createdAt"), Unit.MILLISECONDS),),
    data="payload",
    budget=Budget(timeout_ms=30_000, window_ms=24 * HOURS_MS),
)

SENTRY = Profile(
    name="sentry",
    title="Sentry",
    schemes=(Signed(source=Header("sentry-hook-signature")),),
    id=(InHeader("request-id"),),
    type=(InHeader("sentry-hook-resource"),),
    data="data",
    budget=Budget(timeout_ms=1_000, window_ms=None),
)

LAUNCHDARKLY = Profile(
    name="launchdarkly",
    title="LaunchDarkly",
    schemes=(Signed(source=Header("x-ld-signature")),),
    id=(InBody("_id"),),
    type=(InBody("kind"),),
    event_time=(When(InBody("date"), Unit.MILLISECONDS),),
)

PAGERDUTY = Profile(
    name="pagerduty",
    title="PagerDuty",
    schemes=(Signed(source=Header("x-pagerduty-signature"), format=Pairs("v1")),),
    id=(InBody("event.id"),),
    type=(InBody("event.event_type"),),
    key=(InBody("event.data.id"),),
    event_time=(When(InBody("event.occurred_at")),),
    data="event.data",
    budget=Budget(timeout_ms=5_000, window_ms=48 * HOURS_MS),
)

HEROKU = Profile(
    name="heroku",
    title="Heroku",
    schemes=(Signed(source=Header("heroku-webhook-hmac-sha256"), encoding=Encoding.BASE64),),
    id=(InBody("id"),),
    type=(InBody("webhook_metadata.event.include"), InBody("resource")),
    key=(InBody("data.id"),),
    event_time=(When(InBody("updated_at")), When(InBody("created_at"))),
    delivery_id=(InBody("webhook_metadata.delivery.id"),),
    volatile=("webhook_metadata.attempt", "webhook_metadata.delivery", "webhook_metadata.webhook"),
    data="data",
    budget=Budget(timeout_ms=15_000, window_ms=72 * HOURS_MS),
)

PROFILES = (GITHUB, GITLAB, BITBUCKET, LINEAR, VERCEL, SENTRY, LAUNCHDARKLY, PAGERDUTY, HEROKU)
