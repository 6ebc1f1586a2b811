"""Which providers sign in a way of their own? Adyen and Microsoft Graph item by item, Amazon SNS member by member."""

from __future__ import annotations

from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from hooklane.core.verify.certificate import AMAZON, trusted_key
from hooklane.core.verify.parts import body_document, body_text, item_message
from hooklane.core.verify.places import as_text, dig
from hooklane.core.verify.proof import Proof
from hooklane.core.verify.reading import read_base64, read_bytes
from hooklane.core.verify.ring import Held, Keyring
from hooklane.core.verify.scheme import SignedItems, TokenItems, TopicSigned
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request

ITEMS_MAX = 1000

_NOTICE = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_MEMBERS = {
    "Notification": _NOTICE,
    "SubscriptionConfirmation": _CONFIRMATION,
    "UnsubscribeConfirmation": _CONFIRMATION,
}
_DIGESTS: dict[str, hashes.HashAlgorithm] = {"1": hashes.SHA1(), "2": hashes.SHA256()}


def check_signed_items(scheme: SignedItems, request: Request, held: list[Held]) -> Proof:
    """Every item is verified: one forged item among good ones condemns the request, as no sender mixes them."""
    used: set[int] = set()
    for item in _items(request, scheme.items):
        event = dig(item, scheme.unwrap)
        text = as_text(dig(event, scheme.signature))
        if text is None:
            raise VerificationError("missing_header", f"an item has no {scheme.signature}")
        signature = read_bytes(text, scheme.encoding)
        if signature is None:
            raise VerificationError("malformed", f"{scheme.signature} is not {scheme.encoding}")
        used.add(_fitting(held, item_message(scheme, event), signature))
    return Proof(scheme, min(used))


def check_token_items(scheme: TokenItems, request: Request, held: list[Held]) -> Proof:
    """Every item must show the token."""
    used: set[int] = set()
    for item in _items(request, scheme.items):
        token = as_text(dig(item, scheme.token))
        if token is None:
            raise VerificationError("missing_header", f"an item has no {scheme.token}")
        used.add(_fitting(held, [], token.encode("utf-8", "surrogatepass")))
    return Proof(scheme, min(used))


def check_topic(scheme: TopicSigned, request: Request, held: list[Held], keys: Keyring, now: Instant) -> Proof:
    """The topic is one of ours, and Amazon's certificate signed the members that count."""
    document = body_document(request)
    secret = _fitting(held, [], body_text(request, "TopicArn").encode("utf-8", "surrogatepass"))
    digest = _DIGESTS.get(body_text(request, "SignatureVersion"))
    signature = read_base64(body_text(request, "Signature"))
    if digest is None or not signature:
        raise VerificationError("malformed", "SignatureVersion or Signature is not a valid value")
    key = trusted_key(body_text(request, "SigningCertURL"), AMAZON, keys, now)
    try:
        key.verify(signature, topic_message(document), padding.PKCS1v15(), digest)
    except (InvalidSignature, ValueError):
        raise VerificationError("mismatch", "the signature does not fit the certificate") from None
    return Proof(scheme, secret)


def topic_message(document: Any) -> bytes:
    """The members that Amazon signs, each as its name and its value on a line of their own."""
    members = _MEMBERS.get(as_text(dig(document, "Type")) or "")
    if members is None:
        raise VerificationError("malformed", "Type is not one that Amazon SNS sends")
    lines: list[str] = []
    for name in members:
        value = dig(document, name)
        if value is None and name == "Subject":
            continue
        if not isinstance(value, str):
            raise VerificationError("malformed", f"{name} is not text")
        lines += [name, value]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def _items(request: Request, path: str) -> list[Any]:
    items = dig(body_document(request), path)
    if not isinstance(items, list) or not 0 < len(items) <= ITEMS_MAX:
        raise VerificationError("malformed", f"{path} is not a list of items")
    return items


def _fitting(held: list[Held], message: list[bytes], signature: bytes) -> int:
    fitting = [each.secret for each in held if each.key.fits(message, [signature])]
    if not fitting:
        raise VerificationError("mismatch", "the signature or token of an item matches none of the secrets")
    return fitting[0]
