"""Which route does a path name? Segments are compared before they are decoded, so a key may hold `/` as `%2F`."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from hooklane.server.call import Route
from hooklane.server.problem import Problem

NO_PATH = "there is nothing at this path; /api/docs lists all calls"


class Router:
    """The table of routes, asked by method and raw path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        # Fixed words before parameters, so that /dead-letters/{id} cannot hide a path that is spelled out.
        by_words = sorted(routes, key=lambda route: [part.startswith("{") for part in route.path.split("/")])
        self._shapes = [(tuple(route.path.split("/")), route) for route in by_words]

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        """The route and its parameters, decoded; 404 for an unknown path, 405 where only the method is wrong."""
        segments = raw_path.split("/")
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for shape, route in self._shapes:
            if not _fits(shape, segments):
                continue
            if route.method == wanted:
                return route, _params(shape, segments)
            allowed.add(route.method)
            if route.method == "GET":
                allowed.add("HEAD")
        if allowed:
            allow = ", ".join(sorted(allowed))
            raise Problem(
                "method_not_allowed", f"{method[:20]} is not supported here; use {allow}", headers=[("allow", allow)]
            )
        raise Problem("not_found", NO_PATH)


def _fits(shape: Sequence[str], segments: Sequence[str]) -> bool:
    return len(shape) == len(segments) and all(
        (segment != "" if part.startswith("{") else part == segment)
        for part, segment in zip(shape, segments, strict=True)
    )


def _params(shape: Sequence[str], segments: Sequence[str]) -> dict[str, str]:
    try:
        params = {
            part[1:-1]: unquote_to_bytes(segment).decode()
            for part, segment in zip(shape, segments, strict=True)
            if part.startswith("{")
        }
    except UnicodeDecodeError:
        raise Problem("not_found", NO_PATH) from None
    if any("\0" in value for value in params.values()):
        raise Problem("not_found", NO_PATH)  # nothing has such a name, and PostgreSQL could not even be asked
    return params
