"""Which bytes were signed? The parts of a scheme's message, taken from the request as it came."""

from __future__ import annotations

import hashlib
import hmac
import zlib
from itertools import product
from typing import Any, cast
from urllib.parse import parse_qs

from hooklane.core.verify.document import Unreadable, read_form, read_json
from hooklane.core.verify.places import as_text, dig
from hooklane.core.verify.scheme import (
    Body,
    BodyCrc32,
    HeaderText,
    JsonText,
    Literal,
    Method,
    OnePiece,
    SecretText,
    Signed,
    SignedItems,
    SortedForm,
    StampText,
    Url,
)
from hooklane.core.verify.urls import effective_url, query_of, signed_urls
from hooklane.errors import VerificationError
from hooklane.model.message import Request

HEADER_TEXT_MAX = 4096


def one_header(request: Request, name: str) -> str:
    """The only value of a header that takes part in the proof; two of them are two stories."""
    value = request.lone(name)
    if value is not None and len(value) <= HEADER_TEXT_MAX:
        return value
    values = request.values(name)
    if not values:
        raise VerificationError("missing_header", f"{name} is missing")
    if len(values) > 1:
        raise VerificationError("malformed", f"{name} is there {len(values)} times")
    raise VerificationError("malformed", f"{name} is longer than {HEADER_TEXT_MAX} characters")


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
    if not scheme.needs_url:
        whole: list[bytes] = []
        for part in cast("tuple[OnePiece, ...]", scheme.message):
            if part.__class__ is Literal:  # of these every message has several
                whole.append(part.raw)
            elif part.__class__ is Body:
                whole.append(request.body)
            else:
                whole.append(_piece(part, request, url, stamp_text, secret, named))
        return [whole]
    choices = [
        signed_urls(request, url, part.form)
        if isinstance(part, Url)
        else [_piece(part, request, url, stamp_text, secret, named)]
        for part in scheme.message
    ]
    return [list(pieces) for pieces in product(*choices)]


def _piece(
    part: OnePiece, request: Request, url: str | None, stamp_text: str | None, secret: str, named: dict[str, str]
) -> bytes:
    match part:
        case StampText():
            return (stamp_text or "").encode("utf-8", "surrogatepass")
        case HeaderText(header, name, pattern):
            text = one_header(request, header)
            if not pattern.fullmatch(text):
                raise VerificationError("malformed", f"{header} is not a valid value")
            named[name] = text
            return text.encode("utf-8", "surrogatepass")
        case Body():
            return request.body
        case Literal(raw):
            return raw
        case JsonText(path):
            return body_text(request, path).encode("utf-8", "surrogatepass")
        case BodyCrc32():
            return str(zlib.crc32(request.body)).encode("ascii")
        case Method():
            return request.method.encode("utf-8", "surrogatepass")
        case SortedForm():
            return sorted_form(request, url)
        case SecretText():
            return secret.encode("utf-8", "surrogatepass")


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


def body_text(request: Request, path: str) -> str:
    text = as_text(dig(body_document(request), path))
    if text is None:
        raise VerificationError("missing_header", f"{path} is missing in the body")
    if len(text) > HEADER_TEXT_MAX:
        raise VerificationError("malformed", f"{path} is longer than {HEADER_TEXT_MAX} characters")
    return text


def body_document(request: Request) -> Any:
    """Some providers sign inside the body, so it is parsed first there; within bounds, and only for them."""
    try:
        return read_json(request.body)
    except Unreadable as problem:
        raise VerificationError("malformed", str(problem)) from None


def item_message(scheme: SignedItems, event: Any) -> list[bytes]:
    """The bytes that are signed for one item: its fields joined by colons, an absent one as nothing."""
    texts = [as_text(dig(event, path)) or "" for path in scheme.fields]
    for path, text in zip(scheme.fields, texts, strict=True):
        if ":" in text and path != scheme.free:
            raise VerificationError("malformed", f"{path} holds a colon")
    return [":".join(texts).encode("utf-8", "surrogatepass")]
