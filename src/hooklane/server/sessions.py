"""Sessions of the page: a cookie that only the browser holds, and of which the store keeps only the digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from time import monotonic

from hooklane.core.api_key import CHANCE_BYTES, key_of
from hooklane.model.api_key import Session, SessionKind
from hooklane.model.audit import Act
from hooklane.model.clock import Instant, wall_now
from hooklane.model.ids import new_id
from hooklane.server.caller import Caller
from hooklane.store.access import AccessStore

COOKIE = "hooklane"
SECURE_COOKIE = "__Host-hooklane"
"""Browsers take a cookie of this name only over https, for this very host."""
AGE_MS_MAX = 12 * 3_600_000
IDLE_MS_MAX = 30 * 60_000
"""A session of the page that is not used for so long is over. That of a portal has its own end, which is near."""
NOTED_MS = 60_000
"""A use is written at most so often."""
KEPT_S = 1.0
"""How long a session is believed without asking the store again: one that was ended elsewhere lives so long at most."""
KEPT_MAX = 1_024


class Sessions:
    """Opens, finds and ends sessions."""

    def __init__(
        self, store: AccessStore, chance: Callable[[int], bytes], now: Callable[[], Instant] = wall_now
    ) -> None:
        self._store = store
        self._chance = chance
        self._now = now
        self._kept: dict[bytes, tuple[float, Session]] = {}

    async def open(
        self, caller: Caller, kind: SessionKind, made_with: str, *, ttl_ms: int = AGE_MS_MAX, act: Act | None = None
    ) -> tuple[str, Session]:
        """A new session of *caller*, and the token that its holder shows: always a fresh one."""
        token = key_of(self._chance(CHANCE_BYTES))
        now = self._now()
        session = Session(
            id=new_id("ses", now),
            kind=kind,
            digest=_digest(token),
            made_with=made_with,
            name=caller.name,
            scopes=tuple(sorted(caller.scopes)),
            tenant=caller.tenant,
            created_at=now,
            expires_at=Instant(now + ttl_ms),
        )
        await self._store.add_session(session, act=act)
        return token, session

    async def find(self, token: str, *kinds: SessionKind) -> Session | None:
        """The session of one of *kinds* that *token* names, while it lasts."""
        digest = _digest(token)
        at, session = self._kept.get(digest, (0.0, None))
        if session is None or monotonic() - at > KEPT_S:
            self._kept.pop(digest, None)
            session = await self._store.session(digest)
            if session is None:
                return None
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[digest] = (monotonic(), session)
        return session if session.kind in kinds and self._now() < session.expires_at else None

    async def used(self, session: Session, until: Instant) -> None:
        """*session* was used: it goes on for a while, at most to its greatest age and to *until*."""
        if session.kind is not SessionKind.PAGE:
            return
        longer = Instant(min(self._now() + IDLE_MS_MAX, session.created_at + AGE_MS_MAX, until))
        if longer >= session.expires_at + NOTED_MS:
            await self._store.extend_session(session.id, longer)
            self._kept.pop(session.digest, None)

    async def end(self, session: Session) -> None:
        self._kept.pop(session.digest, None)
        await self._store.remove_session(session.id)

    def forget(self) -> None:
        """A key was revoked, and its sessions with it: ask the store about all of them."""
        self._kept.clear()


def token_of(headers: Mapping[str, str], *, secure: bool) -> str | None:
    """The token in the cookie of a request; over https only in the cookie that no other host can set."""
    cookies: dict[str, str] = {}
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        cookies.setdefault(name, value)
    return cookies.get(SECURE_COOKIE) or (None if secure else cookies.get(COOKIE)) or None


def cookie(token: str, age_s: int, *, secure: bool, framed: bool = False) -> tuple[str, str]:
    """The header that makes a browser hold *token*; with an age of 0 it forgets it.

    *framed*: also in a frame on a page of another site. Browsers ask for https there, and keep one for each such site.
    """
    name = SECURE_COOKIE if secure else COOKIE
    rules = ["Path=/", f"Max-Age={age_s}", "HttpOnly"]
    rules += ["SameSite=None", "Partitioned"] if framed and secure else ["SameSite=Strict"]
    rules += ["Secure"] if secure else []
    return "set-cookie", "; ".join([f"{name}={token}", *rules])


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
