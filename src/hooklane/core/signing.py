"""How does the sender sign? Standard Webhooks v1 (HMAC-SHA256) and v1a (Ed25519), one signature per live secret."""

from __future__ import annotations

import base64
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from hooklane.core.verify.reading import read_base64
from hooklane.core.verify.shared_secret import Algorithm, BadSecret, HmacKey, read_whsec
from hooklane.errors import ConfigError
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.endpoint import SigningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class KeyPair:
    """What signs, and what an endpoint's owner is given to verify with."""

    private: str = field(repr=False)
    public: str


def new_secret(chance: bytes) -> str:
    """A fresh `whsec_…` from 32 bytes of *chance*."""
    assert len(chance) == SECRET_BYTES
    return "whsec_" + _text(chance)


def new_key_pair(chance: bytes) -> KeyPair:
    """A fresh Ed25519 pair, `whsk_…` and `whpk_…`, from 32 bytes of *chance*."""
    assert len(chance) == SECRET_BYTES
    public = _private_key(chance).public_key().public_bytes_raw()
    return KeyPair("whsk_" + _text(chance + public), "whpk_" + _text(public))


class Scheme(StrEnum):
    """What signs: `v1` is a secret that both sides hold, `v1a` a key pair whose public half alone is given away."""

    V1 = "v1"
    V1A = "v1a"


def new_key(scheme: Scheme, chance: bytes) -> str:
    """A fresh `whsec_…` or `whsk_…` from 32 bytes of *chance*."""
    return new_secret(chance) if scheme is Scheme.V1 else new_key_pair(chance).private


def public_key(secret: str) -> str:
    """The `whpk_…` that belongs to a `whsk_…`; `ConfigError` when it is not one."""
    return "whpk_" + _text(_read_private(secret).public_key().public_bytes_raw())


class Signer:
    """Signs for one endpoint. Built once from its keys, used for every attempt."""

    __slots__ = ("_live_until", "_signs")

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        problems: list[str] = []
        self._signs: list[tuple[Instant, Callable[[bytes, bytes], bytes]]] = []
        for number, key in enumerate(keys, start=1):
            try:
                sign = _sign_with(key.secret)
            except ConfigError as problem:
                problems.append(f"signing key {number} of {len(keys)}: {problem}")
            else:
                self._signs.append((FOREVER if key.expires_at is None else key.expires_at, sign))
        if problems:
            raise ConfigError(problems)
        if not self._signs:
            raise ConfigError(["an endpoint needs at least one signing key"])
        self._live_until = max(until for until, _ in self._signs)

    def sign(self, event_id: str, timestamp: int, body: bytes, now: Instant | None = None) -> bytes:
        """The value of `webhook-signature` for an attempt at *timestamp* (unix seconds), newest key first.

        Keys that expired by *now* (*timestamp* unless given) are left out; the last one to live never is, so
        that a delivery always carries a signature.
        """
        head = f"{event_id}.{timestamp}.".encode("ascii")
        at = now if now is not None else timestamp * 1000
        signs = self._signs
        if len(signs) == 1:
            return signs[0][1](head, body)
        return b" ".join([sign(head, body) for until, sign in signs if until > at or until == self._live_until])


def _sign_with(secret: str) -> Callable[[bytes, bytes], bytes]:
    if secret.startswith("whsk_"):
        private = _read_private(secret)
        return lambda head, body: b"v1a," + base64.b64encode(private.sign(head + body))
    try:
        key = HmacKey(read_whsec(secret), Algorithm.HMAC_SHA256)
    except BadSecret as problem:
        raise ConfigError([str(problem)]) from None
    # Not base64.b64encode, which is one more call for each event.
    return lambda head, body: b"v1," + b2a_base64(key.mac((head, body)), newline=False)


def _read_private(secret: str) -> Ed25519PrivateKey:
    raw = read_base64(secret.removeprefix("whsk_")) if secret.startswith("whsk_") else None
    if raw is None or len(raw) != 64:
        raise ConfigError(["expected whsk_ and base64 of 64 bytes (seed and public key)"])
    private = _private_key(raw[:32])
    if private.public_key().public_bytes_raw() != raw[32:]:
        raise ConfigError(["the two halves of the whsk_ key do not belong together"])
    return private


def _private_key(seed: bytes) -> Ed25519PrivateKey:
    # Loaded for the first key of this kind: most endpoints have none, and a server starts sooner and smaller without.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
