"""How does the provider sign a request? The verifying grammar, run the other way."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any, assert_never

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from hooklane.core.verify.bespoke import topic_message
from hooklane.core.verify.keys import GIVEN_BYTES_MIN
from hooklane.core.verify.parts import item_message, signed_messages
from hooklane.core.verify.places import dig, put
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.reading import Unit, write_bytes, write_instant
from hooklane.core.verify.scheme import (
    BodyText,
    Header,
    HeaderText,
    JsonText,
    KeyKind,
    NumberedHeaders,
    Pairs,
    Plain,
    Positional,
    Scheme,
    Signed,
    SignedItems,
    Tagged,
    Token,
    TokenItems,
    TopicSigned,
)
from hooklane.core.verify.shared_secret import Algorithm, HmacKey, read_whsec
from hooklane.model.clock import Instant
from hooklane.model.message import Request
from hooklane.testing.credentials import CERTIFIED, Credentials


def sign_request(
    request: Request,
    profile: Profile,
    secrets: Credentials | Sequence[str],
    at: Instant,
    *,
    event_id: str,
    scheme: Scheme | None = None,
) -> Request:
    """*request* as *profile*'s provider would send it at *at*, signed with each of *secrets*."""
    scheme = scheme or profile.schemes[0]
    held = [secrets] if isinstance(secrets, Credentials) else [Credentials(each, each) for each in secrets]
    match scheme:
        case Signed():
            return _sign_whole(request, scheme, held, at, event_id)
        case Token():
            text = held[0].secret
            text = base64.b64encode(text.encode()).decode() if scheme.basic else text
            return _with(request, {scheme.header: scheme.prefix + text})
        case SignedItems():
            return _sign_items(request, scheme, held[0])
        case TokenItems():
            document = json.loads(request.body)
            for item in dig(document, scheme.items) or []:
                put(item, scheme.token, held[0].secret)
            return _with_body(request, json.dumps(document, separators=(",", ":")).encode())
        case TopicSigned():
            return _sign_topic(request, held[0], at)
        case _:
            assert_never(scheme)


def _sign_whole(request: Request, scheme: Signed, held: list[Credentials], at: Instant, event_id: str) -> Request:
    stamp_text = write_instant(at, scheme.stamp.unit) if scheme.stamp else None
    headers: dict[str, str] = {}
    if scheme.stamp and isinstance(scheme.stamp.where, Header):
        headers[scheme.stamp.where.name] = str(stamp_text)
    for part in scheme.message:
        if isinstance(part, HeaderText):
            headers[part.header] = event_id if part.name == "id" else f"{event_id}-{at}"
        if isinstance(part, JsonText):
            # A token that is new for every attempt.
            request = _in_body(request, part.path, hashlib.sha256(f"{event_id} {at}".encode()).hexdigest())
    if scheme.stamp and isinstance(scheme.stamp.where, BodyText):
        request = _in_body(request, scheme.stamp.where.path, int(write_instant(at, scheme.stamp.unit)))
    if scheme.key is KeyKind.CERTIFIED:
        headers |= {"paypal-cert-url": CERTIFIED["paypal"][1], "paypal-auth-algo": "SHA256withRSA"}
    request = _with(request, headers)
    texts: list[str] = []
    for each in held:
        url = each.options.get("url")
        message = signed_messages(scheme, request, url, stamp_text, each.secret, {})[0]
        texts.append(write_bytes(_sign(scheme, each.signing, b"".join(message)), scheme.encoding))
    match scheme.source:
        case Header(name):
            return _with(request, {name: _formatted(scheme, texts, stamp_text)})
        case NumberedHeaders(prefix, _):
            return _with(request, {f"{prefix}{number}": text for number, text in enumerate(texts, start=1)})
        case BodyText(path):
            return _in_body(request, path, texts[0])


def _formatted(scheme: Signed, texts: list[str], stamp_text: str | None) -> str:
    match scheme.format:
        case Plain(prefix):
            return prefix + texts[0]
        case Tagged(tag):
            return " ".join(f"{tag},{text}" for text in texts)
        case Pairs(name, stamp, separator):
            members = [f"{stamp}={stamp_text}"] if stamp else []
            return separator.join(members + [f"{name}={text}" for text in texts])
        case Positional():
            return ",".join([str(stamp_text), *texts])


def _sign(scheme: Signed | SignedItems, signing: Any, message: bytes) -> bytes:
    match scheme.algorithm:
        case Algorithm.ED25519:
            if isinstance(signing, str):
                raw = base64.b64decode(signing.removeprefix("whsk_")) if "whsk_" in signing else bytes.fromhex(signing)
                signing = ed25519.Ed25519PrivateKey.from_private_bytes(raw[:32])
            assert isinstance(signing, ed25519.Ed25519PrivateKey)
            return signing.sign(message)
        case Algorithm.ECDSA_P256:
            assert isinstance(signing, ec.EllipticCurvePrivateKey)
            return signing.sign(message, ec.ECDSA(hashes.SHA256()))
        case Algorithm.RSA_SHA256:
            assert isinstance(signing, rsa.RSAPrivateKey)
            return signing.sign(message, padding.PKCS1v15(), hashes.SHA256())
        case _:
            return HmacKey(_raw_key(scheme.key, signing), scheme.algorithm).mac([message])


def _raw_key(kind: KeyKind, secret: str) -> bytes:
    match kind:
        case KeyKind.WHSEC | KeyKind.WHSEC_ONLY:
            return read_whsec(secret, GIVEN_BYTES_MIN)
        case KeyKind.HEX:
            return bytes.fromhex(secret)
        case KeyKind.BASE64:
            return base64.b64decode(secret)
        case _:
            return secret.encode()


def _sign_items(request: Request, scheme: SignedItems, held: Credentials) -> Request:
    document = json.loads(request.body)
    for item in dig(document, scheme.items):
        event = dig(item, scheme.unwrap)
        mac = _sign(scheme, held.signing, b"".join(item_message(scheme, event)))
        put(event, scheme.signature, write_bytes(mac, scheme.encoding))
    return _with_body(request, json.dumps(document, separators=(",", ":")).encode())


def _sign_topic(request: Request, held: Credentials, at: Instant) -> Request:
    document = {"Message": "", "Timestamp": write_instant(at, Unit.ISO), **json.loads(request.body)}
    document |= {"TopicArn": held.secret, "SignatureVersion": "2", "SigningCertURL": CERTIFIED["sns"][1]}
    if document.get("Type") not in ("Notification", "SubscriptionConfirmation"):
        document["Type"] = "Notification"
    signature = held.signing.sign(topic_message(document), padding.PKCS1v15(), hashes.SHA256())
    document["Signature"] = base64.b64encode(signature).decode()
    return _with_body(request, json.dumps(document, separators=(",", ":")).encode())


def _in_body(request: Request, path: str, value: Any) -> Request:
    document = json.loads(request.body)
    put(document, path, value)
    return _with_body(request, json.dumps(document, separators=(",", ":")).encode())


def _with_body(request: Request, body: bytes) -> Request:
    return Request(request.method, request.url, request.headers, body)


def _with(request: Request, headers: dict[str, str]) -> Request:
    kept = [(name, value) for name, value in request.headers if name.lower() not in headers]
    return Request(request.method, request.url, (*kept, *headers.items()), request.body)
