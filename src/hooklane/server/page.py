"""The dashboard and its files: served from the package, under a policy that lets no other script run."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, lru_cache
from importlib import resources
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from hooklane import __version__
from hooklane.config import Settings
from hooklane.server.compress import file_as, zipped
from hooklane.server.page_modules import modules_of, screens_of

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

PANELS = {"/lanes": "lane_panel.js"}
"""What a screen fetches later, unless its address names a lane (`?lane=`)."""
MISSING = (
    b"The dashboard's modules are missing: run `python -m tools.vendor` in the source folder, or install a wheel."
    b" The API and the command line work without them.\n"
)

_UI = resources.files("hooklane.server") / "ui"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}


class _Exact(Route):
    """A route whose pattern ends where the path does; Starlette's own also fits a path with a line feed behind it."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if "\n" in scope["path"] else super().matches(scope)


def framed_by(settings: Settings) -> dict[str, str]:
    """The headers of a page that the operator's sites may show in a frame, and whose logo may come from elsewhere.

    A session that is not the portal's is `SameSite=Strict`: in a frame of another site no browser sends it.
    """
    headers = dict(HEADERS)
    if settings.page_logo is not None:
        headers["content-security-policy"] = CSP.replace(
            "img-src 'self'", f"img-src 'self' {_origin(settings.page_logo)}"
        )
    if settings.portal_frames:
        policy = headers["content-security-policy"]
        ancestors = f"frame-ancestors {' '.join(settings.portal_frames)}"
        headers["content-security-policy"] = policy.replace("frame-ancestors 'none'", ancestors)
        del headers["x-frame-options"]
    return headers


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def page_routes(settings: Settings) -> list[BaseRoute]:
    headers = framed_by(settings)
    for content in _files().values():  # once, before the first page is asked for
        zipped(content)
    return [
        _Exact("/static/{version}/{name:path}", _static),  # first: a screen asks for thirty of them
        *(_Exact(path, _page("index.html", path, headers)) for path in (*screens_of(_files()), "/portal")),
        _Exact("/api/docs", _page("docs.html", "/api/docs")),
        _Exact("/favicon.ico", _icon),
    ]


@lru_cache(maxsize=1)
def _files() -> dict[str, bytes]:
    """Every file that a browser may have, by its name; what is not here is not there."""
    vendor = _UI / "vendor"
    found = {entry.name: entry for entry in _UI.iterdir()}
    if vendor.is_dir():
        found.update({f"vendor/{entry.name}": entry for entry in vendor.iterdir()})
    return {name: entry.read_bytes() for name, entry in sorted(found.items()) if _media(name) is not None}


@lru_cache(maxsize=1)
def version() -> str:
    """Part of every file's address: other files have another address, so a browser may keep these for ever."""
    digest = hashlib.sha256()
    for name, content in _files().items():
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return f"{__version__}-{digest.hexdigest()[:10]}"


def _media(name: str) -> str | None:
    return _TYPES.get(name[name.rfind(".") :])


def _page(name: str, path: str, headers: Mapping[str, str] = HEADERS) -> Callable[[Request], Awaitable[Response]]:
    """The page at *path*. Relative addresses, so that it works under any prefix."""

    async def show(request: Request) -> Response:
        if "vendor/preact.js" not in _files():
            return Response(MISSING, 503, media_type="text/plain", headers=headers)
        panel = PANELS.get(path) if "lane" in request.query_params else None
        return _reply(request, _text(name, path, panel), "text/html", "no-cache", headers)

    return show


@cache
def _text(name: str, path: str, panel: str | None) -> bytes:
    root = "../" * (path.count("/") - 1)  # leads from the page to where it is mounted
    modules = modules_of(_files(), path, *([panel] if panel else []))
    links = (f'<link rel="modulepreload" href="{{root}}static/{{version}}/{one}">' for one in modules)
    text = (_UI / name).read_text("utf-8").replace("{modules}", "\n".join(links))
    return text.replace("{version}", version()).replace("{root}", root).encode()


async def _icon(request: Request) -> Response:
    return _reply(request, _files()["logo.svg"], "image/svg+xml", "max-age=86400")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    content, media = _files().get(name), _media(name)
    if content is None or media is None:
        return Response(b"not found", 404, media_type="text/plain", headers=HEADERS)
    is_fresh = request.path_params["version"] == version()
    return _reply(request, content, media, "public, max-age=31536000, immutable" if is_fresh else "no-cache")


def _reply(request: Request, content: bytes, media: str, cache: str, headers: Mapping[str, str] = HEADERS) -> Response:
    content, encoded = file_as(content, media, request.headers.get("accept-encoding", ""))
    return Response(content, media_type=media, headers={**headers, "cache-control": cache, **encoded})
