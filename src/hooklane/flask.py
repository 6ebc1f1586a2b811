"""The receiver in Flask: `app.register_blueprint(blueprint(inbox), url_prefix="/webhooks")`; and the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hooklane.errors import MissingExtra, needing
from hooklane.model.message import Reply, Request
from hooklane.receiver.inbox import Inbox

try:
    from flask import Blueprint, Response, request
except ImportError as error:
    raise MissingExtra("flask", "flask") from error


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

METHODS = ["POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]
"""All: which of them a provider's greeting may use is the profile's business, and so is the answer to the others."""


class _BrokenOff(Exception):
    """The body did not come to its end."""


def blueprint(inbox: Inbox, *, name: str = "hooklane", worker: bool = True) -> Blueprint:
    """A blueprint that answers `POST …/<source>` and the providers' handshakes.

    Its worker is a thread of this process, which starts at the first request and so after any fork;
    with *worker* false run `hooklane inbox worker` instead. With Flask-WTF: `csrf.exempt(the blueprint)`.
    """
    made = Blueprint(name, __name__)

    # With a slash at the end too, as in the other frameworks.
    @made.route("/<source>", methods=METHODS, provide_automatic_options=False, strict_slashes=False)
    def receive_webhook(source: str) -> Response:
        if worker:
            inbox.ensure_worker()
        try:
            body = _whole_body(inbox.body_bytes_max)
        except _BrokenOff:
            return _response(inbox.broken_off(source))
        if body is None:
            return _response(inbox.too_large(_url(), source))
        # WSGI has merged headers that came twice; a scheme that forbids that sees one value with a comma, and refuses.
        raw = Request.of(request.method, _url(), list(request.headers), body)
        return _response(inbox.receive(raw, source))

    return made


def _whole_body(limit: int) -> bytes | None:
    """The bytes as they were sent; None when there are more than *limit*."""
    length = request.content_length or 0
    if length > limit:
        return None
    # The stream itself: get_data() would parse nothing, but keep all of a body that may be chunked and endless.
    try:
        body = request.stream.read(limit + 1)
    except Exception as error:  # each server has errors of its own for a chunk that is none, and for a client that left
        raise _BrokenOff from error
    if len(body) > limit:
        return None
    if len(body) < length:  # the client left: some servers hand over what they have
        raise _BrokenOff
    return body


def _url() -> str:
    """The URL as it was called. Not `request.url`: that is made for people, and spells `%3A` as a colon, which is
    another text than the one that Twilio signed."""
    path = quote(request.root_path + request.path, safe="/:@!$&'()*+,;=~")
    query = request.query_string.decode("latin-1")
    return f"{request.scheme}://{request.host}{path}" + (f"?{query}" if query else "")


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, list(reply.headers))


def dashboard(
    where: str,
    *,
    may: Callable[[], Any],
    name: str = "hooklane_dashboard",
    login_url: str | None = None,
    deliver: bool = False,
    playground: bool = False,
    behind_proxy: bool = False,
    egress_allow: Sequence[str] = (),
    tenant: str | Callable[[], str | None] | None = None,
) -> Blueprint:
    """The dashboard on the database *where*: `app.register_blueprint(dashboard(DB, may=…), url_prefix="/hooklane")`.

    *may* is asked for each request (`flask.request`, `session` and `current_user` are there) whether this person may
    come in; a browser without a login is sent to *login_url*. The page asks for news every two seconds, as WSGI has no
    room for a live stream. With Flask-WTF: `csrf.exempt(the blueprint)`; calls of other sites are refused without it.
    """
    with needing("server"):
        from hooklane.dashboard import made
        from hooklane.dashboard_wsgi import BODY_BYTES_MAX, WsgiDashboard, raw_below
    inner = WsgiDashboard(
        made(
            where,
            may,
            login_url=login_url,
            deliver=deliver,
            playground=playground,
            behind_proxy=behind_proxy,
            egress_allow=egress_allow,
            tenant=tenant,
        )
    )
    mounted = Blueprint(name, __name__)

    @mounted.route("/", defaults={"rest": ""}, methods=METHODS, provide_automatic_options=False)
    @mounted.route("/<path:rest>", methods=METHODS, provide_automatic_options=False)
    def show(rest: str) -> Response:
        headers = list(request.headers)
        is_in, customer = inner.lets_in()
        if not is_in:
            return _response(inner.turn_away(request.method, headers))
        path = f"/{rest}"
        # The empty segments of `//` count in the raw path and not in the route: what is left over is what is below.
        depth = (request.root_path + request.path).rstrip("/").count("/") - path.rstrip("/").count("/")
        raw = raw_below(request.environ.get("REQUEST_URI") or request.environ.get("RAW_URI"), path, depth)
        try:
            body = _whole_body(BODY_BYTES_MAX)
        except _BrokenOff:
            return Response(status=400)
        if body is None:
            return Response(status=413)
        query = request.query_string.decode("latin-1")
        return _response(inner.answer(request.method, path, raw, query, headers, body, customer))

    return mounted
