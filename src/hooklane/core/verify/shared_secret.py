"""A secret that both sides hold: what signs a delivery, and what most providers sign with.

It stands apart from `keys`, which reads keys of all kinds: a sender needs this kind alone, and starts without the rest.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum

from hooklane.core.verify.reading import read_base64

SECRET_BYTES_MIN = 24
"""What the standard asks of a new secret."""


class Algorithm(StrEnum):
    """What turns key and bytes into a signature."""

    HMAC_SHA1 = "hmac-sha1"
    HMAC_SHA256 = "hmac-sha256"
    HMAC_SHA512 = "hmac-sha512"
    ED25519 = "ed25519"
    ECDSA_P256 = "ecdsa-p256-sha256"
    RSA_SHA256 = "rsa-sha256"


class BadSecret(ValueError):
    """The text is not a secret of this kind; the message says what was expected and never quotes it."""


_DIGESTS = {
    Algorithm.HMAC_SHA1: "sha1",
    Algorithm.HMAC_SHA256: "sha256",
    Algorithm.HMAC_SHA512: "sha512",
}


class HmacKey:
    """A shared secret, keyed once: each message starts from a copy of the two digests that RFC 2104 keys with it.

    The standard library's HMAC does the same in twice the time, four Python functions around each digest.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes, algorithm: Algorithm) -> None:
        if not secret:
            raise BadSecret("a secret must not be empty")
        digest = getattr(hashlib, _DIGESTS[algorithm])
        size = digest().block_size
        block = (secret if len(secret) <= size else digest(secret).digest()).ljust(size, b"\0")
        self._inner = digest(bytes(byte ^ 0x36 for byte in block))
        self._outer = digest(bytes(byte ^ 0x5C for byte in block))

    def mac(self, message: Sequence[bytes]) -> bytes:
        """The code of *message*, given in pieces."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(b"".join(message))  # a body is short: copying it costs less than a call per piece
        outer.update(inner.digest())
        code: bytes = outer.digest()
        return code

    def fits(self, message: Sequence[bytes], signatures: Sequence[bytes]) -> bool:
        expected = self.mac(message)
        fitting = False
        for signature in signatures:  # all of them: when the answer comes must not tell which one it was
            fitting |= hmac.compare_digest(expected, signature)
        return fitting


def read_whsec(secret: str, bytes_min: int = SECRET_BYTES_MIN) -> bytes:
    """The key bytes of `whsec_…` or of bare base64; only here is missing padding forgiven."""
    text = secret.removeprefix("whsec_")
    raw = read_base64(text + "=" * (-len(text) % 4)) if "=" not in text else read_base64(text)
    if raw is None:
        raise BadSecret("expected whsec_ and base64")
    if len(raw) < bytes_min:
        raise BadSecret(f"expected at least {bytes_min} bytes of base64 after whsec_, got {len(raw)}")
    return raw
