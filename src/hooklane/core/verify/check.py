"""Did the holder of a secret send this? Any request gives a `Proof` or a `VerificationError`, never another error."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from hooklane.core.verify.bespoke import check_signed_items, check_token_items, check_topic
from hooklane.core.verify.certificate import paypal_key
from hooklane.core.verify.parts import body_text, one_header, signed_messages
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.proof import Proof
from hooklane.core.verify.reading import read_bytes, read_instant
from hooklane.core.verify.ring import Held, Keyring
from hooklane.core.verify.scheme import (
    BodyText,
    Header,
    InSignature,
    KeyKind,
    NumberedHeaders,
    Pairs,
    Plain,
    Positional,
    Signed,
    SignedItems,
    Stamp,
    Tagged,
    Token,
    TokenItems,
    TopicSigned,
)
from hooklane.core.verify.shared_secret import Algorithm
from hooklane.core.verify.standard import check_standard
from hooklane.errors import ProofUnavailable, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request

SIGNATURES_MAX = 16

# The most telling failure is reported when several schemes were tried.
_TELLING = ("missing_header", "misconfigured", "malformed", "mismatch", "stale")

_SIZES = {
    Algorithm.HMAC_SHA1: 20,
    Algorithm.HMAC_SHA256: 32,
    Algorithm.HMAC_SHA512: 64,
    Algorithm.ED25519: 64,
}


def check(request: Request, profile: Profile, keys: Keyring, now: Instant) -> Proof:
    """The proof that one of *keys* signed *request* for one of the schemes of *profile*."""
    failures: list[VerificationError] = []
    for scheme in profile.schemes:
        held = keys.of(scheme)
        if not held:
            continue  # no secret of this kind, so the scheme is not in use here
        if scheme.__class__ is Signed and scheme.standard is not None and len(held) == 1:
            proof = check_standard(scheme, scheme.standard, request, held[0], keys.tolerance_ms, now)
            if proof is not None:
                return proof
        try:
            match scheme:
                case Signed():
                    return _check_signed(scheme, request, held, keys, now)
                case Token():
                    return _check_token(scheme, request, held)
                case SignedItems():
                    return check_signed_items(scheme, request, held)
                case TokenItems():
                    return check_token_items(scheme, request, held)
                case TopicSigned():
                    return check_topic(scheme, request, held, keys, now)
        except ProofUnavailable:
            raise
        except VerificationError as failure:
            failures.append(failure)
    if not failures:
        raise VerificationError("misconfigured", "the source has no secret yet")
    raise max(failures, key=lambda failure: _TELLING.index(failure.reason))


def _check_signed(scheme: Signed, request: Request, held: list[Held], keys: Keyring, now: Instant) -> Proof:
    texts = _signature_texts(scheme, request)
    entries, beside = _split(scheme, texts)
    signatures = _decode(scheme, entries)
    stamp_text = _stamp_text(scheme.stamp, request, beside) if scheme.stamp and scheme.covers_stamp else None
    # The raw text goes into the code, but only a text that is a time at all.
    at = _stamp_instant(scheme.stamp, stamp_text) if scheme.stamp and stamp_text is not None else None
    named: dict[str, str] = {}
    secret: int | None = None
    for each in held:
        key = paypal_key(request, keys, now) if scheme.key is KeyKind.CERTIFIED else each.key
        for message in signed_messages(scheme, request, keys.url, stamp_text, each.text, named):
            if key.fits(message, signatures) and secret is None:
                secret = each.secret  # and go on: the time taken must not tell which secret it was
    if secret is None:
        raise VerificationError("mismatch", "no signature matches any of the secrets")
    if scheme.stamp is not None:
        if at is None:
            # The window is judged after the signature: an unsigned time says nothing.
            at = _stamp_instant(scheme.stamp, _stamp_text(scheme.stamp, request, beside))
        tolerance_ms = scheme.stamp.tolerance_ms
        if tolerance_ms is not None:
            tolerance_ms = keys.tolerance_ms if keys.tolerance_ms is not None else tolerance_ms
            if abs(now - at) > tolerance_ms:
                age = f"{now - at} ms old" if now > at else f"{at - now} ms ahead of this clock"
                raise VerificationError("stale", f"the timestamp is {age}; at most {tolerance_ms} ms are allowed")
    return Proof(scheme, secret, named, at)


def _check_token(scheme: Token, request: Request, held: list[Held]) -> Proof:
    text = one_header(request, scheme.header)
    if not text.startswith(scheme.prefix):
        raise VerificationError("malformed", f"{scheme.header} does not begin with {scheme.prefix!r}")
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


def _signature_texts(scheme: Signed, request: Request) -> list[str]:
    match scheme.source:
        case Header(name):
            return [one_header(request, name)]
        case BodyText(path):
            return [body_text(request, path)]
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
            mark = f"{tag},"
            entries = [each.removeprefix(mark) for each in fields if each.startswith(mark)]
        case Positional():
            beside, *entries = text.split(",")
        case Pairs(name, stamp, separator, sets):
            text = text.replace(sets, separator) if sets else text
            pairs = [each.strip(" ").partition("=") for each in text.split(separator)]
            entries = [value for key, _, value in pairs if key == name]
            stamps = [value for key, _, value in pairs if key == stamp] if stamp else []
            if sets:
                stamps = list(dict.fromkeys(stamps))  # each set repeats it
            if len(stamps) > 1:
                raise VerificationError("malformed", "more than one timestamp")
            beside = stamps[0] if stamps else None
    if len(entries) > SIGNATURES_MAX:
        raise VerificationError("malformed", f"more than {SIGNATURES_MAX} signatures")
    return entries, beside


def _decode(scheme: Signed, entries: Sequence[str]) -> list[bytes]:
    """Entries that cannot be signatures are skipped; when none is left there is nothing to compare."""
    size = _SIZES.get(scheme.algorithm)
    signatures: list[bytes] = []
    for each in entries:
        raw = read_bytes(each, scheme.encoding)
        if raw and (size is None or len(raw) == size):
            signatures.append(raw)
    if not signatures:
        raise VerificationError("malformed", f"no {scheme.algorithm} signature in {scheme.encoding}")
    return signatures


def claimed_at(scheme: Signed, request: Request) -> Instant | None:
    """When *request* says that it was signed, proven or not; None where it does not say so."""
    if scheme.stamp is None:
        return None
    try:
        _, beside = _split(scheme, _signature_texts(scheme, request))
        return _stamp_instant(scheme.stamp, _stamp_text(scheme.stamp, request, beside))
    except VerificationError:
        return None


def _stamp_text(stamp: Stamp, request: Request, beside: str | None) -> str:
    match stamp.where:
        case Header(name):
            return one_header(request, name)
        case BodyText(path):
            return body_text(request, path)
        case InSignature():
            if beside is None:
                raise VerificationError("malformed", "the timestamp is missing beside the signature")
            return beside


def _stamp_instant(stamp: Stamp, text: str) -> Instant:
    at = read_instant(text, stamp.unit)
    if at is None:
        raise VerificationError("malformed", f"the timestamp is not a time in {stamp.unit}")
    return at
