"""How is a key spelled, and what does it permit? `hl_`, 32 letters of chance (160 bits), 6 letters of checksum."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection

from hooklane.model.api_key import ApiKey, Scope
from hooklane.model.clock import Instant

PREFIX = "hl_"
CHANCE_BYTES = 20
NAME_CHARS_MAX = 100
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no i, l, o, u
_LETTERS = CHANCE_BYTES * 8 // 5
_CHECK_LETTERS = 6
_LENGTH = len(PREFIX) + _LETTERS + _CHECK_LETTERS


def key_of(chance: bytes) -> str:
    """The key that 20 bytes of chance make."""
    assert len(chance) == CHANCE_BYTES
    body = PREFIX + _spelled(int.from_bytes(chance, "big"), _LETTERS)
    return body + _checksum(body)


def is_well_formed(text: str) -> bool:
    """Whether *text* is spelled like a key: a mistyped one is told from a wrong one without asking the store."""
    if len(text) != _LENGTH or not text.startswith(PREFIX) or not text.isascii():
        return False
    return text[-_CHECK_LETTERS:] == _checksum(text[:-_CHECK_LETTERS])


def digest_of(text: str) -> bytes:
    """What a store keeps of a key. A fast hash: 160 bits of chance cannot be guessed, however fast the guesses are."""
    return hashlib.sha256(text.encode()).digest()


def is_alive(key: ApiKey, now: Instant) -> bool:
    return key.expires_at is None or now < key.expires_at


def permits(scopes: Collection[Scope], wanted: Scope) -> bool:
    """Whether a caller with *scopes* may do what needs *wanted*."""
    return wanted in scopes or Scope.ADMIN in scopes


def role_of(scopes: Collection[Scope]) -> str:
    """The word of the page for what a caller may do there."""
    if Scope.ADMIN in scopes:
        return "admin"
    if Scope.OPERATE in scopes:
        return "operator"
    return "viewer" if Scope.READ in scopes else "publisher"


def _checksum(body: str) -> str:
    return _spelled(zlib.crc32(body.encode()) >> 2, _CHECK_LETTERS)


def _spelled(number: int, letters: int) -> str:
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(5 * (letters - 1), -1, -5))
