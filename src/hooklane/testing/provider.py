"""What does this provider send, so that the receiver under test takes it? And copies of it: late, changed, forged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from hooklane.core.verify.places import InBody, InEnvelope, InHeader
from hooklane.core.verify.profile import Grade, Profile
from hooklane.core.verify.ring import Certificates, Keyring, keyring
from hooklane.core.verify.scheme import KeyKind, Scheme
from hooklane.errors import UsageError
from hooklane.model.clock import Instant
from hooklane.model.message import Request
from hooklane.receiver.source import Source
from hooklane.testing.build_request import Draft, build_batch
from hooklane.testing.credentials import CERTIFIED, Credentials, certificate, credentials

_SHARED = (KeyKind.UTF8, KeyKind.TOKEN, KeyKind.HEX, KeyKind.BASE64, KeyKind.WHSEC, KeyKind.WHSEC_ONLY)
"""Kinds of secret with which a receiver can sign as well as its sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One request as its provider would send it: *drafts* are the events in it, more than one in a batch."""

    source: str
    drafts: tuple[Draft, ...]
    at: Instant
    request: Request
    attempt: int = 1

    @property
    def id(self) -> str:
        """The id of the (first) event."""
        return self.drafts[0].id

    @property
    def type(self) -> str:
        return self.drafts[0].type

    @property
    def data(self) -> Mapping[str, Any]:
        return self.drafts[0].data

    @property
    def name(self) -> tuple[str, ...]:
        """What its copies have in common."""
        return (self.source, *(draft.id for draft in self.drafts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Signs for one source: with *signing*, under the one of the profile's schemes that the source has a key for."""

    source: str
    profile: Profile
    signing: Credentials
    clock: Callable[[], Instant]
    grade: Grade

    def send(self, *drafts: Draft, attempt: int = 1, at: Instant | None = None) -> Webhook:
        """A request with *drafts*, signed now, or at *at*."""
        signed_at = self.clock() if at is None else at
        url = self.signing.options.get("url") or f"http://receiver.test/webhooks/{self.source}"
        request = build_batch(self.profile, self.signing, drafts, at=signed_at, attempt=attempt, url=url)
        return Webhook(source=self.source, drafts=drafts, at=signed_at, request=request, attempt=attempt)

    def retry(self, sent: Webhook) -> Webhook:
        """The same event once more: a new timestamp, signature and delivery id, the same id and content."""
        return self.send(*sent.drafts, attempt=sent.attempt + 1)

    def changed(self, sent: Webhook, data: Mapping[str, Any]) -> Webhook:
        """Another content under the same id, rightly signed."""
        return self.send(*(replace(draft, data=data) for draft in sent.drafts))

    def expired(self, sent: Webhook, by: float | timedelta) -> Webhook:
        """The same event, signed so long ago: a request that an attacker kept."""
        return self.send(*sent.drafts, at=Instant(self.clock() - _ms(by)))

    def stale(self, sent: Webhook, id: str, by: float | timedelta, data: Mapping[str, Any] | None) -> Webhook:
        """Another event about the same thing, that happened *by* earlier and arrives now."""
        where = self.profile.event_time[0].place if self.profile.event_time else None
        if data is None and not isinstance(where, (InBody, InEnvelope, InHeader)):
            raise UsageError(f"{self.profile.title} has no one place for an event's time: give the older data=…")
        draft = sent.drafts[0]
        older = Instant((draft.event_time or sent.at) - _ms(by))
        return self.send(replace(draft, id=id, event_time=older, data=draft.data if data is None else data))

    def tampered(self, sent: Webhook) -> Webhook:
        """Changed on its way: the content where the signature covers it, else signed with another secret."""
        if self.grade is Grade.UNSAFE:
            raise UsageError(f"source {self.source!r} is unsafe: it checks nothing, so nothing can be tampered with")
        if self.grade in (Grade.SIGNED, Grade.SIGNED_BODY_UNSIGNED_ID):
            return replace(sent, request=replace(sent.request, body=_altered(sent.request.body)))
        stranger = replace(credentials(self.profile, "a stranger"), options=self.signing.options)
        return replace(self, signing=stranger).send(*sent.drafts, attempt=sent.attempt)


def provider_of(source: Source, clock: Callable[[], Instant]) -> tuple[Provider, Keyring | None]:
    """The provider that sends to *source*, and the keyring to give it meanwhile: with a test's own key beside its own
    where only the provider can sign (a private key, a certificate); None where its secret serves."""
    profile, keys = source.profile, source.keys
    if keys is None:
        return _made(source.name, profile, credentials(profile), clock, Grade.UNSAFE), None
    for scheme in profile.schemes:
        held = keys.of(scheme)
        if held and scheme.key in _SHARED:
            signing = Credentials(held[0].text, held[0].text, {"url": keys.url} if keys.url else {})
            return _made(source.name, _under(profile, scheme), signing, clock, keys.grade), None
    scheme = next((scheme for scheme in profile.schemes if keys.of(scheme)), profile.schemes[0])
    profile = _under(profile, scheme)
    test = _certified(profile, keys) if scheme.key is KeyKind.CERTIFIED else credentials(profile)
    if keys.url:
        test = replace(test, options={**test.options, "url": keys.url})
    return _made(source.name, profile, test, clock, keys.grade), _with_key(keys, profile, test)


def provider_for(
    name: str, profile: Profile, secret: Credentials | str | None, clock: Callable[[], Instant]
) -> Provider:
    """The provider that sends to a receiver which is not an inbox, with the secret that it was given."""
    if secret is None:
        secret = credentials(profile)
    signing = secret if isinstance(secret, Credentials) else Credentials(secret, secret)
    return _made(name, profile, signing, clock, profile.grade)


def _made(name: str, profile: Profile, signing: Credentials, clock: Callable[[], Instant], grade: Grade) -> Provider:
    return Provider(source=name, profile=profile, signing=signing, clock=clock, grade=grade)


def _under(profile: Profile, scheme: Scheme) -> Profile:
    return replace(profile, schemes=(scheme,))


def _certified(profile: Profile, keys: Keyring) -> Credentials:
    """The secret is a name (of a topic, of a webhook); what signs is a certificate, so the test has one of its own."""
    made = credentials(profile)
    return replace(made, secret=keys.held[0].text) if keys.held else made


def _with_key(keys: Keyring, profile: Profile, test: Credentials) -> Keyring:
    mine = keyring(profile, [test.secret])
    held = keys.held if any(each.text == test.secret for each in keys.held) else (*keys.held, *mine.held)
    if profile.schemes[0].key is not KeyKind.CERTIFIED:
        return replace(keys, held=held)
    _, _, root = certificate(CERTIFIED[profile.name][0])
    return replace(
        keys,
        held=held,
        certificates=_either(test.options["certificates"], keys.certificates),
        roots=root + (keys.roots or b""),
    )


def _either(first: Certificates, then: Certificates | None) -> Certificates:
    return lambda url: first(url) or (then(url) if then is not None else None)


def _altered(body: bytes) -> bytes:
    """One value is another; still of the same kind, so that only its signature can give it away."""
    try:
        document = json.loads(body)
    except ValueError:
        return body + b"&tampered=1"
    changed, done = _alter(document)
    return json.dumps(changed if done else {"tampered": True}).encode()


def _alter(value: Any) -> tuple[Any, bool]:
    """*value* with its first text or number changed, and whether there was one."""
    if isinstance(value, str):
        return f"{value} (tampered)", True
    if isinstance(value, (int, float)):
        return value + 1, True
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        changed, done = _alter(member)
        if done:
            copy = value.copy()
            copy[name] = changed
            return copy, True
    return value, False


def _ms(duration: float | timedelta) -> int:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return int(seconds * 1000)
