"""Did the holder of a secret send this? Any request gives a `Proof` or a `VerificationError`, never another error."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import parse_qs

from hooklane.core.verify.certificate import certified_key
from hooklane.core.verify.document import Unreadable, read_form, read_json
from hooklane.core.verify.places import as_text, dig
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.reading import read_bytes, read_instant
from hooklane.core.verify.ring import Held, Keyring
from hooklane.core.verify.scheme import (
    Algorithm,
    Body,
    BodyCrc32,
    BodyText,
    Header,
    HeaderText,
    InSignature,
    JsonText,
    KeyKind,
    Literal,
    Method,
    NumberedHeaders,
    Pairs,
    Part,
    Plain,
    Positional,
    Scheme,
    SecretText,
    Signed,
    SignedItems,
    SortedForm,
    Stamp,
    StampText,
    Tagged,
    Token,
    Url,
)
from hooklane.core.verify.urls import effective_url, query_of, signed_urls
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request

SIGNATURES_MAX = 16
HEADER_TEXT_MAX = 4096
ITEMS_MAX = 1000

# The most telling failure is reported when several schemes were tried.
_TELLING = ("missing_header", "misconfigured", "malformed", "mismatch", "stale")

_SIZES = {
    Algorithm.HMAC_SHA1: 20,
    Algorithm.HMAC_SHA256: 32,
    Algorithm.HMAC_SHA512: 64,
    Algorithm.ED25519: 64,
}


@dataclass(frozen=True, slots=True)
class Proof:
    """Who signed (by the index of the secret) and what was signed besides the body."""

    scheme: Scheme
    secret: int
    named: Mapping[str, str] = field(default_factory=dict)
    stamp: Instant | None = None


def check(request: Request, profile: Profile, keys: Keyring, now: Instant) -> Proof:
    """The proof that one of *keys* signed *request* for one of the schemes of *profile*."""
    failures: list[VerificationError] = []
    for scheme in profile.schemes:
        held = keys.of(scheme)
        if not held:
            continue  # no secret of this kind, so the scheme is not in use here
        try:
            match scheme:
                case Signed():
                    return _check_signed(scheme, request, held, keys, now)
                case Token():
                    return _check_token(scheme, request, held)
                case SignedItems():
                    return _check_items(scheme, request, held)
        except VerificationError as failure:
            failures.append(failure)
    if not failures:
        raise VerificationError("misconfigured", "the source has no secret yet")
    raise max(failures, key=lambda failure: _TELLING.index(failure.reason))


def _check_signed(scheme: Signed, request: Request, held: list[Held], keys: Keyring, now: Instant) -> Proof:
    texts = _signature_texts(scheme, request)
    entries, beside = _split(scheme, texts)
    signatures = _decode(scheme, entries)
    signs_stamp = any(isinstance(part, StampText) for part in scheme.message)
    stamp_text = _stamp_text(scheme.stamp, request, beside) if scheme.stamp and signs_stamp else None
    # The raw text goes into the code, but only a text that is a time at all.
    at = _stamp_instant(scheme.stamp, stamp_text) if scheme.stamp and stamp_text is not None else None
    named: dict[str, str] = {}
    secret: int | None = None
    for each in held:
        key = certified_key(request, keys, now) if scheme.key is KeyKind.CERTIFIED else each.key
        for message in signed_messages(scheme, request, keys.url, stamp_text, each.text, named):
            if key.fits(message, signatures) and secret is None:
                secret = each.secret  # and go on: the time taken must not tell which secret it was
    if secret is None:
        raise VerificationError("mismatch", "no signature fits any secret")
    if scheme.stamp is not None:
        if at is None:
            # The window is judged after the signature: an unsigned time says nothing.
            at = _stamp_instant(scheme.stamp, _stamp_text(scheme.stamp, request, beside))
        tolerance_ms = scheme.stamp.tolerance_ms
        if tolerance_ms is not None:
            tolerance_ms = keys.tolerance_ms if keys.tolerance_ms is not None else tolerance_ms
            if abs(now - at) > tolerance_ms:
                raise VerificationError("stale", f"the timestamp is {now - at} ms old, {tolerance_ms} are allowed")
    return Proof(scheme, secret, named, at)


def _check_token(scheme: Token, request: Request, held: list[Held]) -> Proof:
    text = one_header(request, scheme.header)
    if not text.startswith(scheme.prefix):
        raise VerificationError("malformed", f"{scheme.header} does not begin as expected")
    given = text.removeprefix(scheme.prefix).encode("utf-8", "surrogatepass")
    if scheme.basic:
        try:
            given = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raise VerificationError("malformed", f"{scheme.header} is not base64") from None
    secret: int | None = None
    for each in held:
        if each.key.fits((), [given]) and secret is None:
            secret = each.secret
    if secret is None:
        raise VerificationError("mismatch", "the token is none of the secrets")
    return Proof(scheme, secret)


def _check_items(scheme: SignedItems, request: Request, held: list[Held]) -> Proof:
    items = dig(_document(request), scheme.items)
    if not isinstance(items, list) or not 0 < len(items) <= ITEMS_MAX:
        raise VerificationError("malformed", f"{scheme.items} is not a list of items")
    used: set[int] = set()
    for item in items:
        event = dig(item, scheme.unwrap)
        text = as_text(dig(event, scheme.signature))
        if text is None:
            raise VerificationError("missing_header", f"an item has no {scheme.signature}")
        signature = read_bytes(text, scheme.encoding)
        if signature is None:
            raise VerificationError("malformed", f"{scheme.signature} is not {scheme.encoding}")
        message = item_message(scheme, event)
        fitting = [each.secret for each in held if each.key.fits(message, [signature])]
        if not fitting:
            # One forged item among good ones condemns the request: the sender never mixes them.
            raise VerificationError("mismatch", "an item's signature fits no secret")
        used.add(fitting[0])
    return Proof(scheme, min(used))


def item_message(scheme: SignedItems, event: Any) -> list[bytes]:
    """The bytes that are signed for one item: its fields joined by colons, an absent one as nothing."""
    return [":".join(as_text(dig(event, path)) or "" for path in scheme.fields).encode("utf-8", "surrogatepass")]


def one_header(request: Request, name: str) -> str:
    """The only value of a header that takes part in the proof; two of them are two stories."""
    values = request.values(name)
    if not values:
        raise VerificationError("missing_header", f"{name} is missing")
    if len(values) > 1:
        raise VerificationError("malformed", f"{name} is there {len(values)} times")
    if len(values[0]) > HEADER_TEXT_MAX:
        raise VerificationError("malformed", f"{name} is longer than {HEADER_TEXT_MAX} characters")
    return values[0]


def _signature_texts(scheme: Signed, request: Request) -> list[str]:
    match scheme.source:
        case Header(name):
            return [one_header(request, name)]
        case BodyText(path):
            return [_body_text(request, path)]
        case NumberedHeaders(prefix, last):
            names = {f"{prefix}{number}".lower() for number in range(1, last + 1)}
            present = dict.fromkeys(name.lower() for name, _ in request.headers if name.lower() in names)
            if not present:
                raise VerificationError("missing_header", f"{prefix}1 is missing")
            return [one_header(request, name) for name in list(present)[:SIGNATURES_MAX]]


def _split(scheme: Signed, texts: list[str]) -> tuple[list[str], str | None]:
    """The entries that claim to be signatures of this scheme, and the timestamp beside them."""
    text = texts[0]
    beside: str | None = None
    match scheme.format:
        case Plain(prefix):
            entries = [each.removeprefix(prefix) for each in texts if each.startswith(prefix)]
        case Tagged(tag):
            fields = text.split(" ")
            if len(fields) > SIGNATURES_MAX:
                raise VerificationError("malformed", f"more than {SIGNATURES_MAX} signatures")
            entries = [each[len(tag) + 1 :] for each in fields if each.startswith(f"{tag},")]
        case Positional():
            beside, *entries = text.split(",")
        case Pairs(name, stamp, separator):
            pairs = [each.strip(" ").partition("=") for each in text.split(separator)]
            entries = [value for key, _, value in pairs if key == name]
            stamps = [value for key, _, value in pairs if key == stamp] if stamp else []
            if len(stamps) > 1:
                raise VerificationError("malformed", "more than one timestamp")
            beside = stamps[0] if stamps else None
    if len(entries) > SIGNATURES_MAX:
        raise VerificationError("malformed", f"more than {SIGNATURES_MAX} signatures")
    return entries, beside


def _decode(scheme: Signed, entries: Sequence[str]) -> list[bytes]:
    """Entries that cannot be signatures are skipped; when none is left there is nothing to compare."""
    size = _SIZES.get(scheme.algorithm)
    raws = [read_bytes(each, scheme.encoding) for each in entries]
    signatures = [raw for raw in raws if raw and (size is None or len(raw) == size)]
    if not signatures:
        raise VerificationError("malformed", f"no {scheme.algorithm} signature in {scheme.encoding}")
    return signatures


def _stamp_text(stamp: Stamp, request: Request, beside: str | None) -> str:
    match stamp.where:
        case Header(name):
            return one_header(request, name)
        case BodyText(path):
            return _body_text(request, path)
        case InSignature():
            if beside is None:
                raise VerificationError("malformed", "the timestamp is missing beside the signature")
            return beside


def _stamp_instant(stamp: Stamp, text: str) -> Instant:
    at = read_instant(text, stamp.unit)
    if at is None:
        raise VerificationError("malformed", f"the timestamp is not a time in {stamp.unit}")
    return at


def signed_messages(
    scheme: Signed,
    request: Request,
    url: str | None,
    stamp_text: str | None,
    secret: str,
    named: dict[str, str],
) -> list[list[bytes]]:
    """The byte strings, in pieces, that *scheme* may have signed; several where the URL has several spellings.
    Signed headers are noted in *named*."""
    choices: list[list[bytes]] = [_choices(part, request, url, stamp_text, secret, named) for part in scheme.message]
    return [list(pieces) for pieces in product(*choices)]


def _choices(
    part: Part, request: Request, url: str | None, stamp_text: str | None, secret: str, named: dict[str, str]
) -> list[bytes]:
    match part:
        case Body():
            return [request.body]
        case Literal(raw):
            return [raw]
        case StampText():
            return [(stamp_text or "").encode("utf-8", "surrogatepass")]
        case HeaderText(header, name, pattern):
            text = one_header(request, header)
            if not pattern.fullmatch(text):
                raise VerificationError("malformed", f"{header} is not a valid value")
            named[name] = text
            return [text.encode("utf-8", "surrogatepass")]
        case JsonText(path):
            return [_body_text(request, path).encode("utf-8", "surrogatepass")]
        case BodyCrc32():
            return [str(zlib.crc32(request.body)).encode("ascii")]
        case Method():
            return [request.method.encode("utf-8", "surrogatepass")]
        case Url(form):
            return signed_urls(request, url, form)
        case SortedForm():
            return [sorted_form(request, url)]
        case SecretText():
            return [secret.encode("utf-8", "surrogatepass")]


def sorted_form(request: Request, url: str | None) -> bytes:
    """Twilio's rule: each field's name and its distinct values in order; a body that is no form is bound to
    the URL by its digest instead."""
    digests = parse_qs(query_of(effective_url(request, url))[:HEADER_TEXT_MAX]).get("bodySHA256", [])
    if digests:
        actual = hashlib.sha256(request.body).hexdigest().encode("ascii")
        if len(digests) != 1 or not hmac.compare_digest(actual, digests[0].lower().encode("utf-8", "surrogatepass")):
            raise VerificationError("mismatch", "the body is not the one whose digest is in the URL")
        return b""
    try:
        fields = set(read_form(request.body))
    except Unreadable as problem:
        raise VerificationError("malformed", str(problem)) from None
    return "".join(name + value for name, value in sorted(fields)).encode("utf-8")


def _body_text(request: Request, path: str) -> str:
    text = as_text(dig(_document(request), path))
    if text is None:
        raise VerificationError("missing_header", f"{path} is missing in the body")
    if len(text) > HEADER_TEXT_MAX:
        raise VerificationError("malformed", f"{path} is longer than {HEADER_TEXT_MAX} characters")
    return text


def _document(request: Request) -> Any:
    """Some providers sign inside the body, so it is parsed first there; within bounds, and only for them."""
    try:
        return read_json(request.body)
    except Unreadable as problem:
        raise VerificationError("malformed", str(problem)) from None
