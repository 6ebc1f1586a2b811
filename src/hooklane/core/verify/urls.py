"""Which URL did the provider sign? The one that it was given, not the one that a proxy left us with."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from hooklane.core.verify.scheme import UrlForm
from hooklane.errors import VerificationError
from hooklane.model.message import Request

_HUBSPOT_ESCAPES = {
    "%3A": ":", "%2F": "/", "%3F": "?", "%40": "@", "%21": "!", "%24": "$",
    "%27": "'", "%28": "(", "%29": ")", "%2A": "*", "%2C": ",", "%3B": ";",
}  # fmt: skip
_HUBSPOT = re.compile("|".join(_HUBSPOT_ESCAPES), re.IGNORECASE)
_PORTS = {"https": 443, "http": 80}


def query_of(url: str) -> str:
    """The raw query of *url*, empty when there is none."""
    return url.partition("#")[0].partition("?")[2]


def effective_url(request: Request, registered: str | None) -> str:
    """The URL as the provider called it: the registered one, with the query of this request if it has one."""
    if registered is None:
        return request.url
    query = query_of(request.url)
    return f"{registered.partition('?')[0]}?{query}" if query else registered


def signed_urls(request: Request, registered: str | None, form: UrlForm) -> list[bytes]:
    """The spellings that may have been signed."""
    url = effective_url(request, registered)
    if not url.lower().startswith(("http://", "https://")):
        raise VerificationError("misconfigured", "the public URL is part of what is signed: give the source its url")
    if form is UrlForm.REGISTERED:
        return [_bytes(registered or url)]
    match form:
        case UrlForm.HUBSPOT:
            return [_bytes(_HUBSPOT.sub(lambda found: _HUBSPOT_ESCAPES[found[0].upper()], url))]
        case UrlForm.PORTS:
            return [_bytes(each) for each in _with_and_without_port(url)]
        case UrlForm.REQUESTED:
            return [_bytes(url)]


def _with_and_without_port(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return [url]
    host = parts.netloc
    head = url[: len(parts.scheme) + 3]
    rest = url[len(head) + len(host) :]  # as it was spelled: urlunsplit would drop an empty query
    bare = host.rsplit(":", 1)[0] if port is not None else host
    ported = host if port is not None else f"{host}:{_PORTS[parts.scheme]}"
    return [f"{head}{each}{rest}" for each in dict.fromkeys((host, bare, ported))]


def _bytes(url: str) -> bytes:
    return url.encode("utf-8", "surrogatepass")
