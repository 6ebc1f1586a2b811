"""Where does the next page start? A cursor that only the list which gave it understands."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from functools import lru_cache

from hooklane.server.problem import Problem

_MAC_BYTES = 12
_CHARS_MAX = 2_048


@lru_cache(maxsize=8)
def _derived(secret: bytes) -> bytes:
    return hashlib.scrypt(secret, salt=b"hooklane cursor v2", n=2**14, r=8, p=1, dklen=32)


class Cursors:
    """Seals a store's cursor together with the list and filter it belongs to; anything else is refused."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        # From what all processes of one installation share, so that any of them can go on with the list.
        self._secret = secret.encode()

    @property
    def key(self) -> bytes:
        """Derived slowly, once: a client could otherwise try millions of keys a second against its cursor."""
        return _derived(self._secret)

    def seal(self, listing: str, query: Mapping[str, str], cursor: str | None) -> str | None:
        if cursor is None:
            return None
        text = cursor.encode()
        return base64.urlsafe_b64encode(self._mac(listing, query, text) + text).decode().rstrip("=")

    def open(self, listing: str, query: Mapping[str, str]) -> str | None:
        """The store's cursor in `?cursor=`, None when there is none."""
        sealed = query.get("cursor")
        if sealed is None:
            return None
        try:
            if len(sealed) > _CHARS_MAX:
                raise ValueError
            raw = base64.b64decode(sealed + "=" * (-len(sealed) % 4), altchars=b"-_", validate=True)
            mac, text = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
            if not hmac.compare_digest(mac, self._mac(listing, query, text)):
                raise ValueError
            return text.decode()
        except ValueError:
            raise Problem(
                "invalid_cursor",
                "this cursor belongs to another list or filter: start again without a cursor, or keep the filter",
            ) from None

    def _mac(self, listing: str, query: Mapping[str, str], text: bytes) -> bytes:
        fields = sorted((name, value) for name, value in query.items() if name not in ("cursor", "limit"))
        return hmac.digest(self.key, repr((listing, fields)).encode() + b"\0" + text, "sha256")[:_MAC_BYTES]
