"""Which messages are in a verified body? One, or one per item of a batch; what cannot be read is kept as poison."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hooklane.core.verify.document import Unreadable, canonical, read_form, read_json
from hooklane.core.verify.places import Place, Reading, as_text, dig, steps_of, without
from hooklane.core.verify.profile import Profile, Reads, is_proof
from hooklane.core.verify.reading import read_instant
from hooklane.core.verify.scheme import Scheme, Signed, SignedItems
from hooklane.model.clock import Instant
from hooklane.model.message import DEFAULT_ACCOUNT, Message, Request
from hooklane.model.value import value

DERIVED = "sha256:"
"""Event ids that begin so were derived from the body, because the provider gave none."""
TEXT_MAX = 255
SEQ_MAX = 2**63 - 1
UNKNOWN_TYPE = "unknown"

_NOWHERE = Profile(name="", title="", schemes=()).reads
"""Where to look in a payload that lacks its envelope."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """It was verified but cannot be read, and no retry will help: keep the bytes and tell a person."""

    source: str
    event_id: str
    reason: str
    body: bytes = field(repr=False)
    fingerprint: bytes = b""
    id_signed: bool = True


Item = Message | Poison


@value(frozen=True, slots=True)
class Context:
    """What all items of one request share."""

    request: Request
    profile: Profile
    source: str
    scheme: Scheme | None
    named: Mapping[str, str]
    now: Instant


def read_document(request: Request, profile: Profile) -> tuple[Any, bytes]:
    """The body's value and its JSON text, or `Unreadable`. A form becomes an object of its fields; one whose only
    content is JSON in a field `payload` becomes that."""
    if not profile.form:
        return read_json(request.body), request.body
    if not any("x-www-form-urlencoded" in value.lower() for value in request.values("content-type")):
        try:
            return read_json(request.body), request.body
        except Unreadable:
            pass  # then it must be a form
    fields = dict(read_form(request.body))
    payload = fields.get("payload", "").encode("utf-8", "surrogatepass")
    return (read_json(payload), payload) if payload.startswith(b"{") else (fields, canonical(fields))


def items_of(context: Context, document: Any, body: bytes) -> tuple[Item, ...]:
    """The messages in *document*, whose JSON text is *body*."""
    for split in context.profile.split:
        listed = dig(document, split.path)
        if isinstance(listed, list):
            return tuple(
                _item(context, *_unwrapped(raw, event, split.unwrap), document)
                for raw, event in zip(_raw_items(body, split.path), listed, strict=True)
            )
    return (_item(context, body, document, document),)


def _raw_items(body: bytes, path: str) -> list[bytes]:
    """The items byte for byte as they were sent, so that they can be kept and compared."""
    raw: Any = body
    for step in steps_of(path):
        if isinstance(step, int):
            raw = msgspec.json.decode(raw, type=list[msgspec.Raw])[step]
        else:
            raw = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])[step]
    return [bytes(item) for item in msgspec.json.decode(raw, type=list[msgspec.Raw])]


def _unwrapped(raw: bytes, event: Any, member: str) -> tuple[bytes, Any]:
    if member and isinstance(event, dict) and isinstance(event.get(member), dict):
        return bytes(msgspec.json.decode(raw, type=dict[str, msgspec.Raw])[member]), event[member]
    return raw, event


def _item(context: Context, body: bytes, event: Any, envelope: Any) -> Item:
    if not isinstance(event, (dict, list)):
        return poison(context, body, "the event is not an object")
    reading = Reading(context.request, event, envelope, context.named)
    try:
        return _message(context, body, reading)
    except Exception as problem:  # a place may be the user's own function; whatever it raises is about this event
        return poison(context, body, f"{type(problem).__name__} while reading the event")


def _message(context: Context, body: bytes, reading: Reading) -> Item:
    profile = context.profile
    reads = profile.reads
    inner = reads if not reads.envelope or _is_enveloped(reads, reading) else _NOWHERE
    print_ = _fingerprint(profile, reading.event)
    event_id, place = _id_at(reads, reading)
    if event_id is None or place is None:
        told_at = str(context.now).encode("ascii") if profile.hints else b""
        event_id, signed = derived_id(context.source, print_ + told_at), _signs_body(context)
    else:
        signed = context.scheme is not None and is_proof(place, context.scheme)
    own = profile.own_sender
    seq, prev_seq = _whole(inner.seq(reading), own), _whole(inner.prev_seq(reading), own)
    if seq is _WRONG or prev_seq is _WRONG:
        return poison(context, body, "seq or prev_seq is not a whole number")
    key = _text(inner.key(reading))
    if seq is not None and key is None:
        return poison(context, body, "there is a seq but no key")
    return Message(
        source=context.source,
        event_id=event_id,
        type=_text(inner.type(reading)) or UNKNOWN_TYPE,
        body=body,
        account=_text(reads.account(reading)) or DEFAULT_ACCOUNT,
        key=key,
        seq=seq,
        prev_seq=prev_seq,
        event_time=_event_time(inner, context.scheme, reading),
        delivery_id=_text(reads.delivery_id(reading)),
        attempt=_attempt(reads.attempt(reading)),
        fingerprint=print_,
        id_signed=signed,
    )


def _is_enveloped(reads: Reads, reading: Reading) -> bool:
    event = reading.event
    return isinstance(event, dict) and event.get("id") == reading.proven.get("id") and event.keys() >= reads.envelope


def poison(context: Context, body: bytes, reason: str) -> Poison:
    """*body* as poison, under the id that was signed with it, else under its own digest."""
    digest = hashlib.sha256(body).digest()
    proven = context.named.get("id")
    return Poison(
        source=context.source,
        event_id=proven or derived_id(context.source, digest),
        reason=reason,
        body=body,
        fingerprint=digest,
        id_signed=proven is not None or _signs_body(context),
    )


def derived_id(source: str, fingerprint: bytes) -> str:
    """An id for what has none: equal for equal content of one source."""
    return DERIVED + hashlib.sha256(source.encode("utf-8", "surrogatepass") + b"\0" + fingerprint).hexdigest()


def fingerprint(profile: Profile, body: bytes) -> bytes:
    """A digest of *body* without what *profile* changes on every retry; key order and spacing do not count."""
    try:
        return _fingerprint(profile, read_json(body))
    except Unreadable:
        return hashlib.sha256(body).digest()


def _fingerprint(profile: Profile, event: Any) -> bytes:
    lasting = without(event, profile.volatile) if profile.volatile else event
    return hashlib.sha256(canonical(lasting)).digest()


def _signs_body(context: Context) -> bool:
    return context.scheme is not None and context.scheme.covers_body


def _id_at(reads: Reads, reading: Reading) -> tuple[str | None, Place | None]:
    """The event id and its place; an id that is there and cannot be one is None."""
    for read, place in reads.id:
        value = read(reading)
        if value is not None and value != "":
            return (None if isinstance(value, bool) else storable(as_text(value))), place
    return None, None


def storable(text: str | None) -> str | None:
    """*text* if every store can hold it, else a digest that keeps it apart from others."""
    if not text:
        return None
    if len(text) <= TEXT_MAX and text.isascii() and text.isprintable():
        return text  # as nearly all are
    if len(text.encode("utf-8", "surrogatepass")) <= TEXT_MAX and not _CONTROL.search(text):
        return text
    return DERIVED + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _text(value: Any) -> str | None:
    return None if value is None else storable(value if value.__class__ is str else as_text(value))


_WRONG = -1


def _whole(value: Any, own: bool) -> int | None:
    if value is None or value == "":
        return None
    if not own and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)  # a header holds nothing but text; our own sender writes a number into the body
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= SEQ_MAX
    return value if is_whole else _WRONG


def _attempt(value: Any) -> int | None:
    text = None if value is None else as_text(value)
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _event_time(reads: Reads, scheme: Scheme | None, reading: Reading) -> Instant | None:
    for read, when in reads.event_time:
        # Where something is signed, a time beside it that is not signed proves nothing and is not told.
        if isinstance(scheme, (Signed, SignedItems)) and not is_proof(when.place, scheme):
            continue
        at = read_instant(read(reading), when.unit)
        if at is not None:
            return at
    return None
