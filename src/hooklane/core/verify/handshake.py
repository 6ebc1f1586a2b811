"""How does a provider check that we are there? Greetings as data, and the answer that each one expects."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from hooklane.core.verify.places import as_text, dig
from hooklane.core.verify.reading import Encoding, write_bytes
from hooklane.core.verify.urls import query_of
from hooklane.errors import VerificationError
from hooklane.model.message import Reply, Request

CHALLENGE_MAX = 4096

_TEXT = (("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff"))
_JSON = (("content-type", "application/json"),)


def text_reply(text: str) -> Reply:
    """A challenge as plain text, which no browser may take for a page."""
    return Reply(200, text.encode("utf-8", "replace"), _TEXT)


def json_reply(members: Mapping[str, Any]) -> Reply:
    return Reply(200, json.dumps(members).encode("ascii"), _JSON)


# When is a request a greeting?
@dataclass(frozen=True, slots=True)
class IfBody:
    """A member of the body has this value (None: it is there), and *unless* is not there."""

    path: str
    value: str | int | None = None
    unless: str = ""


@dataclass(frozen=True, slots=True)
class IfHeader:
    """A header has this value; None: it is there."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class IfQuery:
    """A request of this method has the parameter."""

    name: str
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class IfMethod:
    """A request that only asks whether we are there."""

    method: str


@dataclass(frozen=True, slots=True)
class IfForm:
    """The body is a form with this one member, a number, and nothing else."""

    name: str


# What does it expect?
@dataclass(frozen=True, slots=True)
class Echo:
    """The challenge at *path* of the body, as text or as JSON under the same name."""

    path: str
    json: bool = False


@dataclass(frozen=True, slots=True)
class EchoQuery:
    """A query parameter as text; where *token* is named, only to a sender that knows the verify token."""

    name: str
    token: str | None = None


@dataclass(frozen=True, slots=True)
class EchoHeader:
    """A header's value as JSON under *member*."""

    name: str
    member: str


@dataclass(frozen=True, slots=True)
class HmacOf:
    """The HMAC-SHA256 of the challenge at *path* as JSON under *member*; *echo* names the challenge beside it."""

    path: str
    member: str
    echo: str | None = None


@dataclass(frozen=True, slots=True)
class CrcResponse:
    """X: `sha256=` and the base64 HMAC of the query parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same answer."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class SecretInHeader:
    """Asana: the secret itself arrives, and is echoed when it is one of ours or none is known yet."""

    name: str


@dataclass(frozen=True, slots=True)
class SecretInBody:
    """Notion: the secret itself arrives in the body, unsigned."""

    path: str


Condition = IfBody | IfHeader | IfQuery | IfMethod | IfForm
Answer = Echo | EchoQuery | EchoHeader | HmacOf | CrcResponse | Fixed | SecretInHeader | SecretInBody


@dataclass(frozen=True, slots=True)
class Greeting:
    """A request that is answered by the profile and never reaches the inbox; *signed* ones are verified first."""

    when: Condition
    answer: Answer
    signed: bool = True


@dataclass(frozen=True, slots=True)
class Handshake:
    """The request was a greeting: send *reply*, store nothing. *secret* is one that the provider just told us."""

    reply: Reply
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """What an answer may use: the secrets (the one that signed first), the verify token, whether to learn one."""

    secrets: tuple[str, ...] = ()
    verify_token: str | None = None
    learn: bool = False


def is_greeting(when: Condition, request: Request, document: Any) -> bool:
    """Whether *request* is the greeting that *when* describes; *document* may be None."""
    match when:
        case IfBody(path, value, unless):
            found = dig(document, path)
            if found is None or (unless and dig(document, unless) is not None):
                return False
            return value is None or (type(found) is type(value) and found == value)
        case IfHeader(name, None):
            return len(request.values(name)) == 1
        case IfHeader(name, value):
            return request.values(name) == [value]
        case IfQuery(name, method):
            return request.method == method and _parameter(request, name) is not None
        case IfMethod(method):
            return request.method == method
        case IfForm(name):
            member, _, number = request.body.partition(b"=")
            return request.method == "POST" and member == name.encode() and number.isdigit()


def answer_greeting(answer: Answer, request: Request, document: Any, trust: Trust) -> Handshake:
    """The reply that the provider expects, or a `VerificationError`."""
    match answer:
        case Echo(path, as_json):
            challenge = _challenge(dig(document, path))
            return Handshake(json_reply({path.rsplit(".")[-1]: challenge}) if as_json else text_reply(challenge))
        case EchoQuery(name, token):
            if token is not None and not _knows(request, token, trust):
                return Handshake(Reply(403, b"wrong verify token", _TEXT))
            return Handshake(text_reply(_challenge(_parameter(request, name))))
        case EchoHeader(name, member):
            return Handshake(json_reply({member: _challenge(request.values(name)[0])}))
        case HmacOf(path, member, echo):
            challenge = _challenge(dig(document, path))
            proof = {member: _mac(trust, challenge).hex()}
            return Handshake(json_reply({echo: challenge, **proof} if echo else proof))
        case CrcResponse(name):
            mac = _mac(trust, _challenge(_parameter(request, name)))
            return Handshake(json_reply({"response_token": "sha256=" + write_bytes(mac, Encoding.BASE64)}))
        case Fixed(reply):
            return Handshake(reply)
        case SecretInHeader(name):
            secret = _challenge(request.values(name)[0])
            return _take_secret(secret, Reply(200, headers=((name, secret),)), trust)
        case SecretInBody(path):
            return _take_secret(_challenge(dig(document, path)), Reply(200), trust)


def _challenge(value: object) -> str:
    text = as_text(value)
    if text is None or not 0 < len(text) <= CHALLENGE_MAX or not text.isprintable():
        raise VerificationError("malformed", "the challenge of the handshake is missing or not plain text")
    return text


def _parameter(request: Request, name: str) -> str | None:
    try:
        found = [value for key, value in parse_qsl(query_of(request.url), True, max_num_fields=100) if key == name]
    except ValueError:
        return None
    return found[0] if len(found) == 1 else None


def _mac(trust: Trust, challenge: str) -> bytes:
    if not trust.secrets:
        raise VerificationError("misconfigured", "the handshake needs the secret")
    return hmac.digest(trust.secrets[0].encode("utf-8"), challenge.encode("utf-8"), hashlib.sha256)


def _knows(request: Request, token: str, trust: Trust) -> bool:
    if not trust.verify_token:
        raise VerificationError("misconfigured", "the handshake needs the source's verify_token")
    given = _parameter(request, token) or ""
    return hmac.compare_digest(given.encode("utf-8", "replace"), trust.verify_token.encode("utf-8", "replace"))


def _take_secret(secret: str, reply: Reply, trust: Trust) -> Handshake:
    if not secret.strip():
        raise VerificationError("malformed", "the secret that was offered in-band is blank")
    known = False
    for each in trust.secrets:
        known |= hmac.compare_digest(each.encode("utf-8"), secret.encode("utf-8", "replace"))
    if known:
        return Handshake(reply)
    # Any sender can make this request. A secret is taken from it only while the source has none and says so.
    if trust.learn and not trust.secrets:
        return Handshake(reply, secret=secret)
    raise VerificationError("mismatch", "a secret was offered in-band, but the source has another one")
