"""The receiver in Flask: `app.register_blueprint(blueprint(inbox), url_prefix="/webhooks")`."""

from __future__ import annotations

from hooklane.errors import MissingExtra
from hooklane.model.message import Reply, Request
from hooklane.receiver.inbox import Inbox
from hooklane.receiver.receipt import error_reply

try:
    from flask import Blueprint, Response, request
except ImportError as error:
    raise MissingExtra("flask", "flask") from error


def blueprint(inbox: Inbox, *, name: str = "hooklane", worker: bool = True) -> Blueprint:
    """A blueprint that answers `POST …/<source>` and the providers' handshakes.

    In durable mode its worker is a thread of this process, which starts at the first request and so after any fork;
    with *worker* false run `hooklane inbox worker` instead. With Flask-WTF: `csrf.exempt(the blueprint)`.
    """
    made = Blueprint(name, __name__)

    @made.route("/<source>", methods=["POST", "GET"])
    def receive_webhook(source: str) -> Response:
        if worker:
            inbox.ensure_worker()
        limit = inbox.body_bytes_max
        # The stream itself: get_data() would be empty for a form that something has parsed already.
        body = request.stream.read(limit + 1)
        if len(body) > limit:
            return _response(error_reply(413, "too large", None, ("connection", "close")))
        # WSGI has merged headers that came twice; a scheme that forbids that sees one value with a comma, and refuses.
        raw = Request.of(request.method, request.url, list(request.headers), body)
        return _response(inbox.receive(raw, source))

    return made


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, list(reply.headers))
