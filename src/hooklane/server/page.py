"""The page and its files: served from the package, under a policy that lets no other script run."""

from __future__ import annotations

import mimetypes
from functools import lru_cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from hooklane import __version__
from hooklane.server.compress import file_as, zipped

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_FILES = resources.files("hooklane.server") / "ui"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}


class _Exact(Route):
    """A route whose pattern ends where the path does; Starlette's own also fits a path with a line feed behind it."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if "\n" in scope["path"] else super().matches(scope)


def page_routes() -> list[BaseRoute]:
    for entry in _FILES.iterdir():  # once, before the first page is asked for
        if entry.is_file() and (content := _file(entry.name)) is not None:
            zipped(content)
    return [
        _Exact("/", _page("index.html")),
        _Exact("/api/docs", _page("docs.html")),
        _Exact("/favicon.ico", _icon),
        _Exact("/static/{version}/{name:path}", _static),
    ]


@lru_cache(maxsize=64)
def _file(name: str) -> bytes | None:
    """A file of the page by name; anything that is not exactly one of them is not there."""
    known = {entry.name for entry in _FILES.iterdir() if entry.is_file()}
    return (_FILES / name).read_bytes() if name in known else None


def _page(name: str):  # type: ignore[no-untyped-def]
    async def show(request: Request) -> Response:
        text = _file(name) or b""
        # Relative addresses, so that the page works under any prefix; the version makes old files unreachable.
        text = text.replace(b"{version}", __version__.encode())
        content, encoded = file_as(text, "text/html", request.headers.get("accept-encoding", ""))
        headers = {**HEADERS, "cache-control": "no-cache", **encoded}
        return Response(content, media_type="text/html", headers=headers)

    return show


async def _icon(request: Request) -> Response:
    return Response(
        _file("logo.svg") or b"", media_type="image/svg+xml", headers={**HEADERS, "cache-control": "max-age=86400"}
    )


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    content = _file(name)
    if content is None:
        return Response(b"not found", 404, media_type="text/plain", headers=HEADERS)
    suffix = name[name.rfind(".") :]
    media = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    fresh = request.path_params["version"] == __version__
    cache = "public, max-age=31536000, immutable" if fresh else "no-cache"
    content, encoded = file_as(content, media, request.headers.get("accept-encoding", ""))
    return Response(content, media_type=media, headers={**HEADERS, "cache-control": cache, **encoded})
