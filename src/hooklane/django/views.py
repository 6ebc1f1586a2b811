"""The one view: the raw body first, and a transaction of hooklane's own."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from hooklane.django.inbox import inbox, settings_of_project
from hooklane.model.message import Reply, Request
from hooklane.receiver.receipt import error_reply


# CSRF: a provider has no cookie of ours, its signature is the proof. Not atomic: with ATOMIC_REQUESTS the answer 200
# would be written before Django commits, and a failed commit would lose the event.
@csrf_exempt
@transaction.non_atomic_requests
def receive_webhook(request: HttpRequest, source: str) -> HttpResponse:
    box = inbox()
    if settings_of_project()["WORKER"]:
        box.ensure_worker()
    limit = box.body_bytes_max
    # The stream itself: request.body has a limit of its own, and is gone once something has read request.POST.
    body = request.read(limit + 1)
    if len(body) > limit:
        return _response(error_reply(413, "too large", None, ("connection", "close")))
    raw = Request.of(request.method or "", request.build_absolute_uri(), list(request.headers.items()), body)
    return _response(box.receive(raw, source))


def _response(reply: Reply) -> HttpResponse:
    response = HttpResponse(reply.body, status=reply.status)
    del response["Content-Type"]
    for name, value in reply.headers:
        response[name] = value
    return response
