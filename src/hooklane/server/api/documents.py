"""The API described: OpenAPI from the table of routes, and a page that shows it without any third party."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from hooklane import __version__
from hooklane.server.call import JSON, Access, Call, Response, Route, answer
from hooklane.server.problem import CODES, MEDIA


async def openapi(call: Call) -> Response:
    from hooklane.server.api import ROUTES  # the whole table, of which this very route is a part

    return answer(described(ROUTES))


@lru_cache(maxsize=4)
def described(routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI document of *routes*."""
    shapes = [route.takes for route in routes if route.takes is not None]
    _, schemas = msgspec.json.schema_components(shapes, ref_template="#/components/schemas/{name}")
    schemas["Problem"] = {
        "type": "object",
        "required": ["type", "title", "status", "detail", "code", "errors"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string", "enum": sorted(CODES)},
            "errors": {"type": "array", "items": {"type": "object"}},
        },
    }
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "hooklane", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Problem": {
                    "description": "What is wrong, by a stable code",
                    "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
        },
        "security": [{"key": []}],
        "x-codes": {code: {"status": status, "title": title} for code, (status, title) in CODES.items()},
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {"name": param.name, "in": "query", "description": param.about, "schema": {"type": "string"}}
        for param in route.query
    ]
    operation: dict[str, Any] = {
        "summary": route.summary,
        "tags": [route.tag],
        "operationId": f"{route.run.__module__.rpartition('.')[2]}_{getattr(route.run, '__name__', 'run')}",
        "parameters": parameters,
        "responses": {
            str(route.status): {"description": "Done"}
            | ({} if route.status == 204 else {"content": {route.gives: {}}}),
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if route.takes is not None:
        operation["requestBody"] = {
            "required": route.method == "POST",
            "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{route.takes.__name__}"}}},
        }
    return operation


ROUTES = (
    Route(
        method="GET",
        path="/api/openapi.json",
        run=openapi,
        summary="This description.",
        tag="documents",
        needs=Access.NOTHING,
    ),
)
