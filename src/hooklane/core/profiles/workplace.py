"""Documents, tasks, files and people."""

from __future__ import annotations

from hooklane.core.verify.handshake import (
    EchoHeader,
    EchoQuery,
    Fixed,
    Greeting,
    IfBody,
    IfHeader,
    IfMethod,
    IfQuery,
    SecretInBody,
    SecretInHeader,
)
from hooklane.core.verify.places import InBody, Joined
from hooklane.core.verify.profile import HOURS_MS, Budget, Dedup, Ordering, Profile, Split, When
from hooklane.core.verify.reading import Encoding, Unit
from hooklane.core.verify.scheme import (
    Body,
    Header,
    KeyKind,
    Plain,
    Signed,
    Token,
    Url,
    UrlForm,
    stamped_pairs,
)
from hooklane.core.verify.shared_secret import Algorithm
from hooklane.model.message import Reply

NOTION = Profile(
    name="notion",
    title="Notion",
    schemes=(Signed(source=Header("x-notion-signature"), format=Plain("sha256=")),),
    id=(InBody("id"),),
    type=(InBody("type"),),
    key=(InBody("entity.id"),),
    event_time=(When(InBody("timestamp")),),
    attempt=(InBody("attempt_number"),),
    account=(InBody("workspace_id"),),
    volatile=("attempt_number",),
    data="data",
    handshakes=(Greeting(IfBody("verification_token"), SecretInBody("verification_token"), signed=False),),
    budget=Budget(timeout_ms=10_000, window_ms=24 * HOURS_MS),
    notes="The verification token of the first request is the secret: learn=… is the function that stores it.",
)

ASANA = Profile(
    name="asana",
    title="Asana",
    schemes=(Signed(source=Header("x-hook-signature")),),
    type=(Joined((InBody("resource.resource_type"), InBody("action")), "."),),
    key=(InBody("resource.gid"),),
    event_time=(When(InBody("created_at")),),
    split=(Split("events"),),
    handshakes=(Greeting(IfHeader("x-hook-secret"), SecretInHeader("x-hook-secret"), signed=False),),
    budget=Budget(timeout_ms=10_000, window_ms=24 * HOURS_MS),
    dedup=Dedup.DERIVED,
    notes="The secret arrives in the first request: learn=… is the function that stores it.",
)

TRELLO = Profile(
    name="trello",
    title="Trello",
    schemes=(
        Signed(
            source=Header("x-trello-webhook"),
            encoding=Encoding.BASE64,
            algorithm=Algorithm.HMAC_SHA1,
            message=(Body(), Url(UrlForm.REGISTERED)),
        ),
    ),
    id=(InBody("action.id"),),
    type=(InBody("action.type"),),
    key=(InBody("action.data.card.id"), InBody("model.id")),
    event_time=(When(InBody("action.date")),),
    data="action.data",
    handshakes=(Greeting(IfMethod("HEAD"), Fixed(Reply(200)), signed=False),),
    budget=Budget(timeout_ms=10_000, window_ms=None),
)

AIRTABLE = Profile(
    name="airtable",
    title="Airtable",
    schemes=(Signed(source=Header("x-airtable-content-mac"), format=Plain("hmac-sha256="), key=KeyKind.BASE64),),
    id=(Joined((InBody("webhook.id"), InBody("timestamp"))),),
    key=(InBody("base.id"),),
    event_time=(When(InBody("timestamp")),),
    budget=Budget(timeout_ms=25_000, window_ms=7 * 24 * HOURS_MS),
    order=Ordering.REFETCH,
    notes="A ping says only that there is something to fetch.",
)

DROPBOX = Profile(
    name="dropbox",
    title="Dropbox",
    schemes=(Signed(source=Header("x-dropbox-signature")),),
    handshakes=(Greeting(IfQuery("challenge"), EchoQuery("challenge"), signed=False),),
    budget=Budget(timeout_ms=10_000, window_ms=None),
    dedup=Dedup.DERIVED,
    order=Ordering.REFETCH,
    hints=True,
    notes="A notification names accounts that changed, nothing more: each one counts, and the handler fetches.",
)

OKTA = Profile(
    name="okta",
    title="Okta",
    schemes=(Token(header="authorization"),),
    id=(InBody("uuid"),),
    type=(InBody("eventType"),),
    event_time=(When(InBody("published")),),
    split=(Split("data.events"),),
    handshakes=(
        Greeting(
            IfHeader("x-okta-verification-challenge"),
            EchoHeader("x-okta-verification-challenge", "verification"),
            signed=False,
        ),
    ),
    budget=Budget(timeout_ms=3_000, window_ms=None),
    notes="The secret is the whole value of the Authorization header that was configured at Okta.",
)

WORKOS = Profile(
    name="workos",
    title="WorkOS",
    schemes=(stamped_pairs("workos-signature", unit=Unit.MILLISECONDS),),
    id=(InBody("id"),),
    type=(InBody("event"),),
    key=(InBody("data.id"),),
    event_time=(When(InBody("created_at")),),
    data="data",
    budget=Budget(timeout_ms=10_000, window_ms=72 * HOURS_MS),
)

PERSONA = Profile(
    name="persona",
    title="Persona",
    schemes=(stamped_pairs("persona-signature", sets=" "),),  # while a secret is rotated, a set for each
    id=(InBody("data.id"),),
    type=(InBody("data.attributes.name"),),
    key=(InBody("data.attributes.payload.data.id"),),
    event_time=(When(InBody("data.attributes.created-at")),),
    data="data.attributes.payload",
)

CLICKUP = Profile(
    name="clickup",
    title="ClickUp",
    schemes=(Signed(source=Header("x-signature")),),
    type=(InBody("event"),),
    key=(InBody("task_id"),),
    budget=Budget(timeout_ms=7_000, window_ms=None),
    dedup=Dedup.DERIVED,
)

NYLAS = Profile(
    name="nylas",
    title="Nylas",
    schemes=(Signed(source=Header("x-nylas-signature")),),
    id=(InBody("id"),),
    type=(InBody("type"),),
    key=(InBody("data.object.id"),),
    event_time=(When(InBody("time"), Unit.SECONDS),),
    attempt=(InBody("webhook_delivery_attempt"),),
    volatile=("webhook_delivery_attempt",),
    data="data",
    handshakes=(Greeting(IfQuery("challenge"), EchoQuery("challenge"), signed=False),),
    budget=Budget(timeout_ms=10_000, window_ms=None),
)

PROFILES = (
    NOTION,
    ASANA,
    TRELLO,
    AIRTABLE,
    DROPBOX,
    OKTA,
    WORKOS,
    PERSONA,
    CLICKUP,
    NYLAS,
)
