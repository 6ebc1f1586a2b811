"""Authentication: who makes this call? An API key, a session of the page, or, on this machine alone, anyone.

And no page of another site may make calls through a browser that holds a session, or that runs on this machine.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from urllib.parse import urlsplit

from hooklane.config import is_loopback
from hooklane.core.api_key import digest_of, is_well_formed
from hooklane.model.api_key import Session, SessionKind
from hooklane.model.clock import FOREVER, Instant
from hooklane.server.call import Access, Route
from hooklane.server.caller import ADMIN, NOBODY, Caller, customer_of, of_session, tenant_of_pass
from hooklane.server.key_ring import KeyRing
from hooklane.server.permission import require
from hooklane.server.problem import Problem
from hooklane.server.sessions import Sessions, token_of
from hooklane.server.wrong_keys import WrongKeys

_SAFE = ("GET", "HEAD", "OPTIONS")
# What a form of another site can send without asking first.
_FORM_MEDIA = ("text/plain", "multipart/form-data")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?\Z")
STATIC = "static-"
"""How the id of `HOOKLANE_API_KEY` begins, where a session says with which key it was opened."""


class Authenticator:
    """Decides about each request before anything of it is looked at. Without a key only this machine may come in."""

    def __init__(
        self,
        api_key: str | None,
        *,
        on_loopback: bool,
        ring: KeyRing | None = None,
        sessions: Sessions | None = None,
        public_url: str | None = None,
    ) -> None:
        """*public_url* is where browsers find this server, where a proxy stands before it."""
        assert api_key is not None or on_loopback, "no key and reachable from elsewhere"
        self._api_key = api_key
        self._bearer = None if api_key is None else f"Bearer {api_key}".encode()
        self.static_id = STATIC + hashlib.sha256((api_key or "").encode()).hexdigest()[:16]
        """Another `HOOKLANE_API_KEY`, another id: the sessions of the old one are over."""
        self._ring = ring
        self.sessions = sessions
        self._wrong_keys = WrongKeys()
        self.is_open = self._bearer is None
        self.on_loopback = on_loopback
        self.public_url = public_url

    # --- who is it? ---

    def publisher(self, authorization: bytes | None) -> Caller | None:
        """The caller of a publish on the fast path; None where `admit` has to look at it."""
        if self._bearer is None or hmac.compare_digest(authorization or b"", self._bearer):
            return ADMIN
        return None if self._ring is None else self._ring.publisher(authorization)

    async def admit(
        self, method: str, headers: Mapping[str, str], needs: Access = Access.KEY, peer: str = ""
    ) -> Caller:
        """The caller of a request of *peer* (an address), or the Problem to answer."""
        caller = ADMIN if self.is_open else await self._identify(headers)
        if caller is None:
            if needs is Access.KEY or (needs is Access.LOOPBACK and not self.on_loopback):
                raise self._stranger(headers, peer)
            caller = NOBODY
        needs_local = caller is NOBODY and needs is not Access.NOTHING
        self.check_known(method, headers, needs_local=needs_local, has_cookie=caller.session is not None)
        return caller

    async def is_still(self, caller: Caller, headers: Mapping[str, str]) -> bool:
        """Whether who came in with *headers* as *caller* would come in now; it does not count as a use of a session."""
        if self.is_open:
            return True
        now = await self._identify(headers, is_use=False)
        return now is not None and (now.key_id, now.tenant, now.scopes) == (caller.key_id, caller.tenant, caller.scopes)

    def check_known(
        self, method: str, headers: Mapping[str, str], *, needs_local: bool = False, has_cookie: bool = False
    ) -> None:
        """Refuse what a browser was made to send, though its key or session is known or none is asked for."""
        if (needs_local or self.is_open) and not _is_local_name(headers.get("host", "")):
            # A foreign host name that points to 127.0.0.1 would make a browser carry calls in here (DNS rebinding).
            raise Problem(
                "cross_site",
                "a call without an API key is answered only where its Host is localhost or a loopback address",
            )
        self._check_site(method, headers, has_cookie=has_cookie)

    def permit(self, caller: Caller, route: Route, params: Mapping[str, str]) -> None:
        """Refuse what the caller's scopes do not allow. What needs no key needs no scope either."""
        is_local = self.on_loopback and not caller.in_portal  # a customer comes from anywhere
        if route.needs is Access.KEY or (route.needs is Access.LOOPBACK and not is_local):
            require(caller, route, params)

    async def _identify(self, headers: Mapping[str, str], *, is_use: bool = True) -> Caller | None:
        authorization = headers.get("authorization")
        if authorization is not None:
            scheme, _, key = authorization.partition(" ")
            return await self.holder_of(key) if scheme.lower() == "bearer" else None
        token = None if self.sessions is None else token_of(headers, secure=_is_https(self.public_url))
        if token is None:
            return None
        session = await self.session_of(token, SessionKind.PAGE, SessionKind.PORTAL)
        if session is None:
            return None
        if is_use and self.sessions is not None:
            await self.sessions.used(session, self._end_of(session.made_with))
        return of_session(session)

    def _end_of(self, key_id: str) -> Instant:
        """Until when a session may last that was opened with this key."""
        if key_id.startswith(STATIC):
            return FOREVER
        return Instant(0) if self._ring is None else self._ring.end_of(key_id)

    async def session_of(self, token: str, *kinds: SessionKind) -> Session | None:
        """The session or link that *token* names, unless `HOOKLANE_API_KEY` is not the one that it was made with."""
        session = None if self.sessions is None else await self.sessions.find(token, *kinds)
        if session is None or (session.made_with.startswith(STATIC) and session.made_with != self.static_id):
            return None
        return session

    async def holder_of(self, key: str) -> Caller | None:
        """The caller with this API key; None where it is not known, expired or revoked."""
        text = f"Bearer {key}".encode("utf-8", "surrogateescape")
        if self._bearer is not None and hmac.compare_digest(text, self._bearer):
            return ADMIN
        if self._api_key is not None and (tenant := tenant_of_pass(self._api_key, key)) is not None:
            return replace(customer_of(tenant), has_pass=True)
        if self._ring is None or not is_well_formed(key):
            return None  # a mistyped key costs the store nothing
        return await self._ring.caller(digest_of(key))

    def _stranger(self, headers: Mapping[str, str], peer: str) -> Problem:
        """No key is a mistake; a wrong one may be a guess, whose answer is held back when there are many."""
        if "authorization" in headers:
            return self.wrong_key(peer)
        if token_of(headers, secure=False) is not None:
            return Problem("unauthorized", "the session is over: log in again")
        return Problem("unauthorized", "send the API key in the header `Authorization: Bearer …`")

    def wrong_key(self, peer: str) -> Problem:
        """The answer to a key that is not known."""
        delay_s = self._wrong_keys.delay_s(peer, monotonic())
        if not delay_s:
            return Problem("unauthorized", "send the API key in the header `Authorization: Bearer …`")
        problem = Problem(
            "too_many_requests",
            "too many wrong API keys came from this address; wait a moment and send the right one",
            headers=[("connection", "close")],
        )
        problem.delay_s = delay_s
        return problem

    # --- from which site? ---

    def is_secure(self, headers: Mapping[str, str]) -> bool:
        """Whether the browser speaks https, as far as this server is told: its own Origin, or the public address."""
        return _is_https(headers.get("origin")) or _is_https(self.public_url)

    def _check_site(self, method: str, headers: Mapping[str, str], *, has_cookie: bool) -> None:
        """Refuse what a page of another site makes a browser send. A cookie is sent without that page knowing it."""
        site = headers.get("sec-fetch-site")
        if has_cookie and site not in (None, "same-origin", "none"):
            raise Problem("cross_site", "a web page of another site cannot make this call")
        if method in _SAFE:
            return
        if site is not None and site not in ("same-origin", "none"):
            raise Problem("cross_site", "a web page of another site cannot make this call")
        origin = headers.get("origin")
        if origin is not None and not self._is_ours(_authority(origin), headers):
            raise Problem("cross_site", "the Origin header names another site than this server")
        if has_cookie and origin is None and site != "same-origin":
            raise Problem("cross_site", "a call with a session must say that it comes from this site (Origin)")
        if self.is_open and headers.get("content-type", "").partition(";")[0].strip().lower() in _FORM_MEDIA:
            raise Problem("cross_site", "send the body with content-type: application/json")

    def _is_ours(self, authority: str | None, headers: Mapping[str, str]) -> bool:
        if authority is None:
            return False
        return authority in (headers.get("host", "").lower(), _authority(self.public_url or ""))


def _is_https(url: str | None) -> bool:
    return url is not None and url.startswith("https://")


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _is_local_name(host: str) -> bool:
    match = _HOST.match(host)
    return match is not None and is_loopback(match.group(1).strip("[]").lower())
