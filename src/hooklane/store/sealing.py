"""How are secrets kept in a database? Sealed: AES-256-GCM, under a key that the database never sees.

A sealed text names its key and holds a nonce and the ciphertext. It is bound to the row and the field it stands in:
moved elsewhere it does not open. Text that is not sealed opens as itself: a database can be sealed row by row.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hooklane.errors import SecretsSealed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK = "\x01sealed:1:"
"""No secret, header value or URL may hold a control character: what begins so is sealed."""
_NONCE_BYTES = 12
_KNOWN_MAX = 50_000


def key_id(key: bytes) -> str:
    """The name of a key: a digest of it, from which the key cannot be told."""
    return hashlib.sha256(b"hooklane seal key\0" + key).hexdigest()[:12]


def sealed_with(text: str) -> str | None:
    """The id of the key that sealed *text*; None where it is not sealed."""
    return text[len(MARK) :].partition(":")[0] if text.startswith(MARK) else None


class SealKeys:
    """The keys of a process: the first one seals, all of them open. Without any, nothing is sealed."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._ciphers = {key_id(key): _cipher(key) for key in keys}
        self.primary = key_id(keys[0]) if keys else None
        self._known: dict[tuple[str, str], str] = {}
        """What was opened before: a worker hears of the same endpoint again and again."""

    def seal(self, text: str, about: str) -> str:
        """*text*, sealed for the place that *about* names."""
        if self.primary is None:
            return text
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self.primary].encrypt(nonce, text.encode(), about.encode())
        return f"{MARK}{self.primary}:{base64.b64encode(nonce + sealed).decode()}"

    def open(self, text: str, about: str) -> str:
        """What was sealed for *about*; SecretsSealed where no key opens it."""
        if not text.startswith(MARK):
            return text
        known = self._known.get((text, about))
        if known is None:
            known = self._open(text, about)
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[text, about] = known
        return known

    def _open(self, text: str, about: str) -> str:
        id, _, kept = text[len(MARK) :].partition(":")
        cipher = self._ciphers.get(id)
        if cipher is None:
            has = f"the keys given are {', '.join(self._ciphers)}" if self._ciphers else "no key is given"
            raise SecretsSealed(f"secrets in this database are sealed with the key {id[:40]!r}, and {has}")
        from cryptography.exceptions import InvalidTag

        try:
            raw = base64.b64decode(kept, validate=True)
            return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], about.encode()).decode()
        except (binascii.Error, InvalidTag, ValueError):
            raise SecretsSealed(f"a secret sealed with the key {id!r} does not open: its row was changed") from None


def _cipher(key: bytes) -> AESGCM:
    # Loaded for the first key: a server that seals nothing starts sooner and smaller without.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
