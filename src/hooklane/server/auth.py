"""Authentication: one static API key; and no page of another site may make calls through a browser of this machine."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from time import monotonic
from urllib.parse import urlsplit

from hooklane.config import is_loopback
from hooklane.server.call import Access
from hooklane.server.problem import Problem
from hooklane.server.wrong_keys import WrongKeys

_SAFE = ("GET", "HEAD", "OPTIONS")
# What a form of another site can send without asking first.
_FORM_MEDIA = ("text/plain", "multipart/form-data")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?\Z")


class Authenticator:
    """Decides about each request before anything of it is looked at. Without a key only this machine may come in."""

    __slots__ = ("_bearer", "_wrong_keys", "is_open", "on_loopback")

    def __init__(self, api_key: str | None, *, on_loopback: bool) -> None:
        assert api_key is not None or on_loopback, "no key and reachable from elsewhere"
        self._bearer = None if api_key is None else f"Bearer {api_key}".encode()
        self._wrong_keys = WrongKeys()
        self.is_open = self._bearer is None
        self.on_loopback = on_loopback

    def admit(self, method: str, headers: Mapping[str, str], needs: Access = Access.KEY, peer: str = "") -> None:
        """Let the request of *peer* (an address) in, or raise the Problem to answer."""
        has_key = self._bearer is not None and self.knows(headers.get("authorization"))
        if self._bearer is not None and not has_key:
            free = needs is Access.NOTHING or (needs is Access.LOOPBACK and self.on_loopback)
            if not free:
                raise self._stranger(headers, peer)
        if (
            not has_key
            and (self.is_open or needs is not Access.NOTHING)
            and not _is_local_name(headers.get("host", ""))
        ):
            # A foreign host name that points to 127.0.0.1 would make a browser carry calls in here (DNS rebinding).
            raise Problem(
                "cross_site",
                "a server without an API key answers only calls to localhost or a loopback address",
            )
        if method not in _SAFE:
            self._refuse_other_sites(headers)

    def _stranger(self, headers: Mapping[str, str], peer: str) -> Problem:
        """No key is a mistake; a wrong one may be a guess, whose answer is held back when there are many."""
        delay_s = self._wrong_keys.delay_s(peer, monotonic()) if "authorization" in headers else 0.0
        if not delay_s:
            return Problem("unauthorized", "send the API key in the header `Authorization: Bearer …`")
        problem = Problem(
            "too_many_requests",
            "too many wrong API keys came from this address; wait a moment and send the right one",
            headers=[("connection", "close")],
        )
        problem.delay_s = delay_s
        return problem

    def knows(self, authorization: str | None) -> bool:
        """Whether this is our key, compared in constant time."""
        return self.knows_bytes((authorization or "").encode("utf-8", "surrogateescape"))

    def knows_bytes(self, authorization: bytes | None) -> bool:
        return self._bearer is None or hmac.compare_digest(authorization or b"", self._bearer)

    def _refuse_other_sites(self, headers: Mapping[str, str]) -> None:
        site = headers.get("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            raise Problem("cross_site", "a web page of another site cannot make this call")
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != headers.get("host", "").lower():
            raise Problem("cross_site", "the Origin header names another site than this server")
        if self.is_open and headers.get("content-type", "").partition(";")[0].strip().lower() in _FORM_MEDIA:
            raise Problem("cross_site", "send the body with content-type: application/json")


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _is_local_name(host: str) -> bool:
    match = _HOST.match(host)
    return match is not None and is_loopback(match.group(1).strip("[]").lower())
