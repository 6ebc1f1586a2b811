"""Who may call? One static key for programs; and no page of another site may speak for a browser of this machine."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from hooklane.config import is_loopback
from hooklane.server.call import Access
from hooklane.server.problem import Problem

_SAFE = ("GET", "HEAD", "OPTIONS")
# What a form of another site can send without asking first.
_FORM_MEDIA = ("text/plain", "multipart/form-data")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?\Z")


class Door:
    """Decides about each request before anything of it is looked at. Without a key only this machine may come in."""

    __slots__ = ("_bearer", "is_open", "on_loopback")

    def __init__(self, api_key: str | None, *, on_loopback: bool) -> None:
        assert api_key is not None or on_loopback, "no key and reachable from elsewhere"
        self._bearer = None if api_key is None else f"Bearer {api_key}".encode()
        self.is_open = self._bearer is None
        self.on_loopback = on_loopback

    def admit(self, method: str, headers: Mapping[str, str], needs: Access = Access.KEY) -> None:
        """Let the request in, or raise the Problem to answer."""
        if self._bearer is not None:
            free = needs is Access.NOTHING or (needs is Access.LOOPBACK and self.on_loopback)
            if not free and not self.knows(headers.get("authorization")):
                raise Problem("unauthorized", "send the API key as `Authorization: Bearer …`")
        elif not _is_local_name(headers.get("host", "")):
            # A name of somebody else's that points to 127.0.0.1 would make a browser carry calls in here.
            raise Problem("cross_site", "without a key this server answers only to the names of the loopback")
        if method not in _SAFE:
            self._refuse_other_sites(headers)

    def knows(self, authorization: str | None) -> bool:
        """Whether this is our key, compared in constant time."""
        return self.knows_bytes((authorization or "").encode("utf-8", "surrogateescape"))

    def knows_bytes(self, authorization: bytes | None) -> bool:
        return self._bearer is None or hmac.compare_digest(authorization or b"", self._bearer)

    def _refuse_other_sites(self, headers: Mapping[str, str]) -> None:
        site = headers.get("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            raise Problem("cross_site", "a page of another site may not do this")
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != headers.get("host", "").lower():
            raise Problem("cross_site", "the Origin is not this server")
        if self.is_open and headers.get("content-type", "").partition(";")[0].strip().lower() in _FORM_MEDIA:
            raise Problem("cross_site", "send JSON as application/json")


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _is_local_name(host: str) -> bool:
    match = _HOST.match(host)
    return match is not None and is_loopback(match.group(1).strip("[]").lower())
