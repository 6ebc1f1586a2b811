"""What is in a request? Proven messages, or a greeting with its answer; everything else is a `VerificationError`."""

from __future__ import annotations

from typing import Any

from hooklane.core.verify.check import check
from hooklane.core.verify.document import Unreadable
from hooklane.core.verify.handshake import Greeting, Handshake, IfBody, Trust, answer_greeting, is_greeting
from hooklane.core.verify.messages import Context, Item, items_of, poison, read_document
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.proof import Proof
from hooklane.core.verify.ring import Keyring
from hooklane.core.verify.scheme import HeaderText, Signed
from hooklane.model.clock import Instant
from hooklane.model.message import Request
from hooklane.model.value import value


@value(frozen=True, slots=True)
class Messages:
    """What the request held, in order; a batch may be empty."""

    items: tuple[Item, ...]
    proof: Proof | None = None


Opened = Messages | Handshake


def open_request(request: Request, profile: Profile, keys: Keyring, now: Instant, *, source: str) -> Opened:
    """The verified content of *request*. Raises only `VerificationError`, whatever the bytes are."""
    greeting = _unsigned_greeting(request, profile, keys) if profile.handshakes else None
    if greeting is not None:
        return greeting
    proof = check(request, profile, keys, now)
    context = Context(request, profile, source, proof.scheme, proof.named, now)
    try:
        document, body = read_document(request, profile)
    except Unreadable as problem:
        return Messages((poison(context, request.body, str(problem)),), proof)
    for rule in profile.handshakes:
        if rule.signed and is_greeting(rule.when, request, document):
            return answer_greeting(rule.answer, request, document, _trust(keys, proof))
    return Messages(items_of(context, document, body), proof)


def unsigned(request: Request, profile: Profile, now: Instant, *, source: str, keys: Keyring | None = None) -> Opened:
    """The content of *request* without any proof, for sources that were declared unsafe."""
    trust = _trust(keys, None) if keys is not None else Trust()
    context = Context(request, profile, source, None, _claimed(request, profile), now)
    document: Any = None
    body, problem = request.body, ""
    try:
        document, body = read_document(request, profile)
    except Unreadable as found:
        problem = str(found)
    for rule in profile.handshakes:
        if is_greeting(rule.when, request, document):
            return answer_greeting(rule.answer, request, document, trust)
    return Messages((poison(context, body, problem),) if problem else items_of(context, document, body))


def _unsigned_greeting(request: Request, profile: Profile, keys: Keyring) -> Handshake | None:
    for rule in profile.handshakes:
        if rule.signed:
            continue
        document = _document_for(rule, request, profile)
        if is_greeting(rule.when, request, document):
            return answer_greeting(rule.answer, request, document, _trust(keys, None))
    return None


def _document_for(rule: Greeting, request: Request, profile: Profile) -> Any:
    if not isinstance(rule.when, IfBody) or len(request.body) > 16_384:
        return None
    try:
        return read_document(request, profile)[0]
    except Unreadable:
        return None


def _trust(keys: Keyring, proof: Proof | None) -> Trust:
    texts = dict.fromkeys(held.text for held in keys.held)
    if proof is not None:
        texts = {keys.secret_text(proof.secret): None, **texts}
    return Trust(tuple(texts), keys.verify_token, keys.learn)


def _claimed(request: Request, profile: Profile) -> dict[str, str]:
    """The headers that would have been signed, as they are: claims, not proofs."""
    claims: dict[str, str] = {}
    for scheme in profile.schemes:
        for part in scheme.message if isinstance(scheme, Signed) else ():
            if isinstance(part, HeaderText):
                values = request.values(part.header)
                if len(values) == 1 and part.pattern.fullmatch(values[0]):
                    claims.setdefault(part.name, values[0])
    return claims
