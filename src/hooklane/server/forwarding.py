"""`hooklane dev --forward-to`: a URL for webhooks of any provider; what is posted there is published and forwarded."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hooklane.core.entry import admit_key, admit_type
from hooklane.errors import InvalidEvent
from hooklane.model.size import size_text
from hooklane.sender.draft import draft_of
from hooklane.server import views
from hooklane.server.app import problem_response
from hooklane.server.auth import Authenticator
from hooklane.server.json_body import BODY_BYTES_MAX
from hooklane.server.problem import Problem, refused
from hooklane.server.services import Services
from hooklane.store.outbox import Refused

TYPE = "webhook.received"


class _Hints(msgspec.Struct):
    """What a body may say about itself; everything else in it is only carried."""

    type: str | None = None
    key: str | None = None


def forwarding_app(services: Services, auth: Authenticator, endpoint_id: str) -> ASGIApp:
    """An ASGI application that publishes each body to *endpoint_id*."""

    async def take(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            await auth.admit(request.method, dict(request.headers), peer=request.client.host if request.client else "")
            if request.method != "POST":
                raise Problem("method_not_allowed", "webhooks are sent here with POST", headers=[("allow", "POST")])
            body = b""
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise Problem(
                        "too_large", f"the body is larger than {size_text(BODY_BYTES_MAX)}, the most for a webhook"
                    )
            hints = _hints(body)
            draft = draft_of(hints.type or TYPE, body, now=services.now(), key=hints.key, endpoints=[endpoint_id])
            await services.types.check(draft.event)
            result = await services.publisher.publish(draft)
            if isinstance(result, Refused):
                raise refused(result)
            answer = Response(msgspec.json.encode(views.published(result)), 202, media_type="application/json")
        except Exception as error:
            problem = problem_response(error)
            answer = Response(problem.body, problem.status, dict(problem.headers), problem.media)
        await answer(scope, receive, send)

    return take


def _hints(body: bytes) -> _Hints:
    """Type and key where the body names usable ones."""
    try:
        hints = msgspec.json.decode(body, type=_Hints)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Hints()  # another shape, or no JSON: draft_of says which
    for field, admit in (("type", admit_type), ("key", admit_key)):
        try:
            if (value := getattr(hints, field)) is not None:
                admit(value)
        except InvalidEvent:
            setattr(hints, field, None)
    return hints
