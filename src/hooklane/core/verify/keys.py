"""How does a configured secret become a key, and does a signature fit it? Comparison takes constant time."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from hooklane.core.verify.reading import Encoding, read_base64, read_bytes
from hooklane.core.verify.scheme import KeyKind
from hooklane.core.verify.shared_secret import Algorithm, BadSecret, HmacKey, read_whsec

GIVEN_BYTES_MIN = 18
"""A receiver takes the secret that its provider gives it: the example in Svix's own documentation has 18 bytes."""
SECRET_TEXT_MAX = 16_384


class Key(Protocol):
    """Something that can tell whether one of *signatures* was made over *message* by its owner."""

    def fits(self, message: Sequence[bytes], signatures: Sequence[bytes]) -> bool: ...


class TokenKey:
    """A secret that is sent as it is; digests are compared, so that not even its length shows."""

    __slots__ = ("_digest",)

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode("utf-8")).digest()

    def fits(self, message: Sequence[bytes], signatures: Sequence[bytes]) -> bool:
        fitting = False
        for signature in signatures:
            fitting |= hmac.compare_digest(self._digest, hashlib.sha256(signature).digest())
        return fitting


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public half of a pair; there is no secret here that timing could tell."""

    verify: Callable[[bytes, bytes], object] = field(repr=False)
    """Takes a signature and a text, raises when they do not belong together."""

    def fits(self, message: Sequence[bytes], signatures: Sequence[bytes]) -> bool:
        text = b"".join(message)
        return any(self._accepts(signature, text) for signature in signatures)

    def _accepts(self, signature: bytes, text: bytes) -> bool:
        try:
            self.verify(signature, text)
        except (InvalidSignature, ValueError):
            return False
        return True


def ecdsa_key(public: ec.EllipticCurvePublicKey) -> PublicKey:
    return PublicKey(lambda signature, text: public.verify(signature, text, ec.ECDSA(hashes.SHA256())))


def rsa_key(public: rsa.RSAPublicKey) -> PublicKey:
    return PublicKey(lambda signature, text: public.verify(signature, text, padding.PKCS1v15(), hashes.SHA256()))


def read_keys(secret: str, kind: KeyKind, algorithm: Algorithm) -> list[Key]:
    """The keys in *secret* (a JWKS has several), or `BadSecret`."""
    if len(secret) > SECRET_TEXT_MAX:
        raise BadSecret(f"a secret has at most {SECRET_TEXT_MAX} characters")
    match kind:
        case KeyKind.UTF8:
            return [HmacKey(_utf8(secret), algorithm)]
        case KeyKind.TOKEN | KeyKind.CERTIFIED:
            _utf8(secret)
            return [TokenKey(secret)]
        case KeyKind.WHSEC:
            # Supabase shows `v1,whsec_…`: the version of the signature stands before the secret.
            return [HmacKey(read_whsec(secret.removeprefix("v1,"), GIVEN_BYTES_MIN), algorithm)]
        case KeyKind.WHSEC_ONLY:
            if not secret.startswith("whsec_"):
                raise BadSecret("expected whsec_ and base64")
            return [HmacKey(read_whsec(secret, GIVEN_BYTES_MIN), algorithm)]
        case KeyKind.HEX:
            raw = read_bytes(secret, Encoding.HEX)
            if not raw:
                raise BadSecret("expected an even number of hex digits")
            return [HmacKey(raw, algorithm)]
        case KeyKind.BASE64:
            raw = read_base64(secret)
            if not raw:
                raise BadSecret("expected base64")
            return [HmacKey(raw, algorithm)]
        case KeyKind.WHPK:
            return _read_whpk(secret)
        case KeyKind.ED25519_HEX:
            return [_ed25519(read_bytes(secret, Encoding.HEX), "64 hex digits of an Ed25519 public key")]
        case KeyKind.SPKI:
            return [_read_spki(secret)]


def _utf8(secret: str) -> bytes:
    try:
        raw = secret.encode("utf-8")
    except UnicodeEncodeError:
        raise BadSecret("expected text") from None
    if not raw.strip():
        raise BadSecret("a secret must not be empty")
    return raw


def _read_whpk(secret: str) -> list[Key]:
    if secret.startswith("whsk_"):
        raise BadSecret("this is the sender's private key; a receiver needs the public one, whpk_…")
    if secret.startswith("whpk_"):
        return [_ed25519(read_base64(secret.removeprefix("whpk_")), "whpk_ and base64 of 32 bytes")]
    if secret.lstrip().startswith("{"):
        return _read_jwks(secret)
    raise BadSecret("expected whpk_ and base64 of 32 bytes, or a JWKS")


def _read_jwks(secret: str) -> list[Key]:
    try:
        document = json.loads(secret)
        members = document.get("keys", [document])
        found = [member["x"] for member in members if member.get("kty") == "OKP" and member.get("crv") == "Ed25519"]
        raws = [read_bytes(x, Encoding.BASE64URL) for x in found]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise BadSecret("expected a JWKS with Ed25519 keys (kty OKP)") from None
    if not raws:
        raise BadSecret("expected a JWKS with Ed25519 keys (kty OKP), found none")
    return [_ed25519(raw, "a JWKS whose Ed25519 keys have 32 bytes") for raw in raws]


_PRIME = 2**255 - 19
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset((0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH))
"""The heights of the eight points that vanish when they are added eight times."""


def _ed25519(raw: bytes | None, expected: str) -> Key:
    if raw is None or len(raw) != 32:
        raise BadSecret(f"expected {expected}")
    if int.from_bytes(raw, "little") % 2**255 % _PRIME in _SMALL_ORDER:
        raise BadSecret("this Ed25519 key has a small order: a signature can be made without its private key")
    return PublicKey(ed25519.Ed25519PublicKey.from_public_bytes(raw).verify)


def _read_spki(secret: str) -> Key:
    try:
        if secret.lstrip().startswith("-----BEGIN"):
            public = serialization.load_pem_public_key(secret.encode("utf-8"))
        else:
            public = serialization.load_der_public_key(read_base64(secret.strip()) or b"")
    except (ValueError, UnsupportedAlgorithm):
        raise BadSecret("expected a public key as base64 DER or PEM") from None
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise BadSecret("expected a P-256 public key")
    return ecdsa_key(public)
