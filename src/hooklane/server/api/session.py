"""The session of a browser: opened with a key or a portal link, asked who it is, ended."""

from __future__ import annotations

import msgspec

from hooklane.core.api_key import role_of
from hooklane.model.api_key import Scope, SessionKind
from hooklane.server import views
from hooklane.server.call import Access, Call, Response, Routes, answer
from hooklane.server.caller import Caller, of_session
from hooklane.server.problem import Problem
from hooklane.server.sessions import AGE_MS_MAX, IDLE_MS_MAX, cookie
from hooklane.server.shapes_of_access import SessionShape


class LogIn(msgspec.Struct, forbid_unknown_fields=True):
    """An API key, or what stands behind the `#` of a portal link."""

    key: str


routes = Routes("session", "/api/v1/session")


@routes.post(
    "",
    "Log in: a key, or a portal link's token, for a session cookie.",
    takes=LogIn,
    needs=Access.NOTHING,
    answers=SessionShape,
)
async def open_session(call: Call) -> Response:
    """Exchange a key for a cookie that no script can read."""
    text, auth = call.read(LogIn).key, call.auth
    if auth is None:
        raise Problem("wrong_state", "a session needs a server; this call was made on the database itself")
    if auth.is_open or auth.sessions is None:
        return answer(_view(call, call.caller))  # this server asks no caller for a key
    link = await auth.session_of(text, SessionKind.LINK)
    caller = of_session(link) if link is not None else await auth.holder_of(text)
    if caller is None:
        raise auth.wrong_key(call.peer)
    now = call.services.now()
    if link is not None:
        kind, made_with, ttl_ms = SessionKind.PORTAL, link.made_with, link.expires_at - now
    else:
        kind, made_with, ttl_ms = SessionKind.PAGE, caller.key_id or auth.static_id, AGE_MS_MAX
        if (ends_at := call.services.keys.expiry_of(caller.key_id)) is not None:
            ttl_ms = min(ttl_ms, ends_at - now)
    call.tenant, call.actor = caller.tenant or call.tenant, caller.name
    if call.caller.session is not None:
        await auth.sessions.end(call.caller.session)  # the one before is over: its cookie is about to be replaced
    idle_ms = min(ttl_ms, IDLE_MS_MAX) if kind is SessionKind.PAGE else ttl_ms
    token, session = await auth.sessions.open(
        caller, kind, made_with, ttl_ms=idle_ms, act=call.act("session.opened", made_with, kind)
    )
    secure = auth.is_secure(call.headers)
    framed = kind is SessionKind.PORTAL and bool(call.services.settings.portal_frames)
    header = cookie(token, ttl_ms // 1000, secure=secure, framed=framed)
    return answer(_view(call, of_session(session)), headers=[header])


@routes.get("", "Who the caller is, and what it may do.", answers=SessionShape)
async def who_am_i(call: Call) -> Response:
    return answer(_view(call, call.caller))


@routes.delete("", "Log out.", status=204, needs=Access.NOTHING)
async def close_session(call: Call) -> Response:
    """Log out: the session is over everywhere, not only in this browser."""
    if call.auth is None:
        return Response(204)
    if call.caller.session is not None and call.auth.sessions is not None:
        await call.auth.sessions.end(call.caller.session)
    return Response(204, headers=[cookie("", 0, secure=call.auth.is_secure(call.headers))])


def _view(call: Call, caller: Caller) -> views.View:
    settings = call.services.settings
    return {
        "name": caller.name,
        "role": "portal" if caller.in_portal else role_of(caller.scopes),
        "scopes": [scope for scope in Scope if scope in caller.scopes],
        "tenant": caller.tenant,
        "expires_at": views.when(None if caller.session is None else caller.session.expires_at),
        "asks_key": call.asks_key,
        "look": {"accent": settings.page_accent, "logo": settings.page_logo},
    }
