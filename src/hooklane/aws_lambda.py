"""The receiver in AWS Lambda: behind a function URL, an API Gateway (REST or HTTP) or a load balancer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from hooklane.model.message import Reply, Request
from hooklane.receiver.inbox import Inbox
from hooklane.receiver.receipt import error_reply

Answer = dict[str, Any]


def handler(inbox: Inbox, source: str | None = None) -> Callable[[Mapping[str, Any], Any], Answer]:
    """A Lambda handler; *source* is the last part of the path unless given.

    A function is frozen after its answer, so nothing may run behind it: use an inbox with `mode="inline"`, or let
    another process do the work of a durable one.
    """
    inbox.retention.is_function = True

    def handle(event: Mapping[str, Any], context: Any) -> Answer:
        try:
            request = _request(event)
        except (ValueError, TypeError, KeyError, AttributeError, binascii.Error):
            return _answer(error_reply(400, "not an HTTP event", None), event)
        return _answer(inbox.receive(request, source), event)

    return handle


def _request(event: Mapping[str, Any]) -> Request:
    body = event.get("body") or ""
    raw = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
    headers = tuple(_headers(event))
    host = next((value for name, value in headers if name.lower() == "host"), "")
    context = event.get("requestContext") or {}
    if event.get("version") == "2.0":
        http = context["http"]
        method, path, query = http["method"], event.get("rawPath") or http["path"], event.get("rawQueryString") or ""
    else:
        # The path as it was called, with the stage, where the gateway tells it.
        method, path = event["httpMethod"], context.get("path") or event["path"]
        many = event.get("multiValueQueryStringParameters") or {}
        pairs = [(name, value) for name, values in many.items() for value in values]
        pairs = pairs or list((event.get("queryStringParameters") or {}).items())
        # A load balancer hands the query on as it came, a gateway decodes it first.
        query = "&".join(f"{name}={value}" for name, value in pairs) if "elb" in context else urlencode(pairs)
    return Request.of(method, f"https://{host}{path}" + (f"?{query}" if query else ""), headers, raw)


def _headers(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    many = event.get("multiValueHeaders")
    if many:
        yield from ((name, value) for name, values in many.items() for value in values)
    else:
        yield from ((name, str(value)) for name, value in (event.get("headers") or {}).items())


def _answer(reply: Reply, event: Mapping[str, Any]) -> Answer:
    answer: Answer = {
        "statusCode": reply.status,
        "headers": dict(reply.headers),
        "body": reply.body.decode("utf-8", "replace"),
        "isBase64Encoded": False,
    }
    if event.get("multiValueHeaders") is not None:  # a load balancer that sends many wants many back
        answer["multiValueHeaders"] = {name: [value] for name, value in reply.headers}
    return answer
