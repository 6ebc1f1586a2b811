"""What are rows, tracks and tombstones called? Digests of what they are: they say nothing, and all have one length."""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from functools import partial

from hooklane.model.inbox import Identity, Track


def identity_name(identity: Identity) -> str:
    """What a row is called: 128 bits of a digest, so that a name says nothing and has always the same length."""
    return _name(f"{identity.source}\0{identity.account}\0{identity.event_id}\0{identity.variant}")


def track_name(track: Track) -> str:
    return _name(f"{track.source}\0{track.account}\0{track.handler}\0{track.key}")


def digest_name(source: str, account: str, digest: bytes) -> str:
    return _name(f"{source}\0{account}\0{digest.hex()}")


def _name(text: str) -> str:
    digest = _sha256(text.encode("utf-8", "surrogatepass")).digest()
    return b2a_base64(digest[:16], newline=False)[:22].translate(_URL_SAFE).decode()


_sha256 = partial(hashlib.sha256, usedforsecurity=False)
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def text_of(text: str) -> str:
    """*text* as any store can keep it: half a surrogate pair is not text."""
    return text.encode("utf-8", "replace").decode()
