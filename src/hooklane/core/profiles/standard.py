"""Standard Webhooks and providers that follow it, our own sender among them."""

from __future__ import annotations

from dataclasses import replace

from hooklane.core.verify.places import InBody, InHeader, Proven
from hooklane.core.verify.profile import HOURS_MS, Budget, Ordering, Profile, When
from hooklane.core.verify.scheme import KeyKind, standard

STANDARD = Profile(
    name="standard_webhooks",
    title="Standard Webhooks",
    # Svix sent the same signatures under its own header names before there was a standard.
    schemes=(*standard("webhook"), *standard("svix")),
    id=(Proven("id"),),
    type=(InBody("type"), InBody("event_type"), InBody("eventType")),
    event_time=(When(InBody("timestamp")),),
    data="data",
    budget=Budget(timeout_ms=15_000, window_ms=75 * HOURS_MS),
)

HOOKLANE = Profile(
    name="hooklane",
    title="hooklane's own sender",
    schemes=(*standard("webhook"), *standard("svix")),
    id=(Proven("id"),),
    type=(InBody("type"),),
    # Key and sequence are trusted from the signed envelope only; the headers of the same names are a convenience.
    key=(InBody("key"),),
    seq=(InBody("seq"),),
    prev_seq=(InBody("prev_seq"),),
    event_time=(When(InBody("timestamp")),),
    attempt=(InHeader("x-attempt"),),
    data="data",
    envelope=("id", "type", "timestamp", "data"),
    budget=Budget(timeout_ms=20_000, window_ms=24 * HOURS_MS),
    order=Ordering.SEQUENCE,
    own_sender=True,
)

POLAR = replace(
    STANDARD,
    name="polar",
    title="Polar",
    # Its secret is used as it is written, polar_whs_ included.
    schemes=(standard("webhook", key=KeyKind.UTF8)[0],),
)

# The same wire under other names, so that a source can be called what it is.
_SPEAKERS = {
    "brex": "Brex",
    "clerk": "Clerk",
    "openai": "OpenAI",
    "replicate": "Replicate",
    "resend": "Resend",
    "supabase": "Supabase Auth",
}

PROFILES = (
    STANDARD,
    HOOKLANE,
    POLAR,
    *(replace(STANDARD, name=name, title=title) for name, title in _SPEAKERS.items()),
)
