"""How is a request read from a text file? As it went over the wire: request line, headers, empty line, raw body."""

from __future__ import annotations

import re

from hooklane.errors import UsageError
from hooklane.model.message import Request

_REQUEST_LINE = re.compile(r"([A-Za-z]{1,20}) (\S+)(?: HTTP/[0-9.]+)?")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)")


def parse_http(text: bytes) -> Request:
    """The request in *text*. Lines may end in LF or CRLF; the body is taken byte for byte, up to its
    Content-Length where that only cuts off the line end that an editor added."""
    head, body = _cut(text.lstrip(b"\r\n"))
    lines = re.split("\r?\n", head.decode("latin-1"))  # splitlines() ends lines at more, bytes of UTF-8 among them
    found = _REQUEST_LINE.fullmatch(lines[0].strip())
    if found is None:
        raise UsageError("the first line is not a request line such as  POST /webhooks/stripe HTTP/1.1")
    headers: list[tuple[str, str]] = []
    for number, line in enumerate(lines[1:], start=2):
        header = _HEADER.fullmatch(line)
        if header is None:
            raise UsageError(f"line {number} is not a header such as  webhook-id: msg_1")
        headers.append((header[1], header[2].strip(" \t")))
    request = Request.of(found[1], found[2], headers, body)
    lengths = request.values("content-length")
    if len(lengths) == 1 and lengths[0].isdigit() and len(lengths[0]) < 12:
        length = int(lengths[0])
        if body[length:] in (b"\n", b"\r\n"):
            body = body[:length]
    return Request.of(request.method, _absolute(request), headers, body)


def _cut(text: bytes) -> tuple[bytes, bytes]:
    ends = [(text.find(mark), mark) for mark in (b"\r\n\r\n", b"\n\n")]
    there = [(at, mark) for at, mark in ends if at >= 0]
    if not there:
        return text, b""
    at, mark = min(there)
    return text[:at], text[at + len(mark) :]


def _absolute(request: Request) -> str:
    """The URL as the sender called it: from the Host header, and https unless a proxy says otherwise."""
    hosts = request.values("host")
    if not request.url.startswith("/") or len(hosts) != 1:
        return request.url
    scheme = "http" if request.values("x-forwarded-proto") == ["http"] else "https"
    return f"{scheme}://{hosts[0]}{request.url}"
