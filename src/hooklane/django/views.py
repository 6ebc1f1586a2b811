"""The one view: the raw body first, and a transaction of hooklane's own."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from hooklane.django.inbox import inbox
from hooklane.django.settings import wanted
from hooklane.errors import StoreError
from hooklane.model.message import Reply, Request, Verdict
from hooklane.receiver.receipt import error_reply


class BrokenOff(Exception):
    """The body did not come to its end."""


# A provider has no cookie of ours: its signature is the proof.
@csrf_exempt
def receive_webhook(request: HttpRequest, source: str) -> HttpResponse:
    """Answer what a provider sent to *source*."""
    try:
        box = inbox()
    except StoreError:  # the first request of a process, and the database is away: nothing was stored
        return response_of(error_reply(503, "try again", Verdict.BUSY, ("retry-after", "5")))
    threads = int(wanted().worker)
    if threads:
        box.ensure_worker(threads)
    try:
        body = raw_body(request, box.body_bytes_max)
    except BrokenOff:
        return response_of(box.broken_off(source))
    if body is None:
        return response_of(box.too_large(request.path, source))
    raw = Request.of(request.method or "", request.build_absolute_uri(), list(request.headers.items()), body)
    return response_of(box.receive(raw, source))


# With ATOMIC_REQUESTS the answer 200 would be written before Django commits, and a failed commit would lose the event.
for _alias in settings.DATABASES:
    receive_webhook = transaction.non_atomic_requests(using=_alias)(receive_webhook)


def raw_body(request: HttpRequest, limit: int) -> bytes | None:
    """The bytes as they were sent; None when there are more than *limit*.

    Not `request.body`: that has a limit of its own, which answers 400, and is gone once something has parsed a form.
    """
    length = request.META.get("CONTENT_LENGTH") or ""
    if length.isascii() and length.isdigit() and int(length) > limit:
        return None
    # Chunked bodies have no length, and Django's own stream would end at once; the server says when it knows their end.
    chunked = not length and request.META.get("wsgi.input_terminated")
    was_read = getattr(request, "_read_started", False)
    try:
        body: bytes = (request.META["wsgi.input"] if chunked else request).read(limit + 1)
    except Exception as error:  # each server has errors of its own for a chunk that is none, and for a client that left
        raise BrokenOff from error
    if len(body) > limit:
        return None
    if not (length.isascii() and length.isdigit()) or len(body) >= int(length):
        return body
    if was_read:
        raise RuntimeError("something read the request before hooklane did: no middleware may touch request.POST here")
    raise BrokenOff  # the client left: some servers hand over what they have


def response_of(reply: Reply) -> HttpResponse:
    response = HttpResponse(reply.body, status=reply.status)
    del response["Content-Type"]
    for name, value in reply.headers:
        response[name] = value
    return response
