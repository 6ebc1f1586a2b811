"""The API described: OpenAPI from the table of routes, and a page that shows it without any third party."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from hooklane import __version__
from hooklane.server.call import JSON, NDJSON, Access, Call, Response, Route, Routes, answer
from hooklane.server.problem import CODES, MEDIA
from hooklane.server.schema_words import EVENT_ID, IDEMPOTENCY_KEY, KEY, TENANT, TYPE

HEADER = "Hooklane-Tenant"
_OF_PATH = {"tenant": TENANT, "type": TYPE, "key": KEY, "endpoint": EVENT_ID, "id": {"minLength": 1}}


routes = Routes("documents", "/api/openapi.json")


@routes.get("", "This description.", needs=Access.NOTHING)
async def openapi(call: Call) -> Response:
    return answer(described(call.routes, asks_key=call.asks_key))


@lru_cache(maxsize=4)
def described(routes: Sequence[Route], *, asks_key: bool = True) -> dict[str, Any]:
    """The OpenAPI document of *routes*, of a server that asks for a key or (`--no-auth`) of one that never does."""
    shapes = [route.takes for route in routes if route.takes is not None]
    answers = [route.answers for route in routes if route.answers is not None]
    refs, schemas = msgspec.json.schema_components([*shapes, *answers], ref_template="#/components/schemas/{name}")
    given = dict(zip(map(id, answers), refs[len(shapes) :], strict=True))
    schemas["Problem"] = {
        "type": "object",
        "required": ["type", "title", "status", "detail", "code", "number", "errors"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string", "enum": sorted(CODES)},
            "number": {"type": "string", "description": "The same for people to search for: `HL…`"},
            "errors": {"type": "array", "items": {"type": "object"}},
        },
    }
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        described_ = route if asks_key else replace(route, needs=Access.NOTHING)
        operation = _operation(described_, given.get(id(route.answers)))
        if not asks_key:
            operation["responses"].pop("401", None)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "hooklane", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}} if asks_key else {},
        },
        "x-codes": {code: {"status": status, "title": title} for code, (status, title) in CODES.items()},
    }


_SECURITY: Mapping[Access, list[dict[str, list[str]]]] = {
    Access.KEY: [{"key": []}],
    Access.LOOPBACK: [{}, {"key": []}],  # on the loopback no key is needed
    Access.NOTHING: [],
}


def _statuses(route: Route) -> set[int]:
    """Of which problems a route can tell."""
    found = {400, 403, 405, 408, 422, 429, 431, 500, 503}
    if route.needs is not Access.NOTHING or (route.method, route.path) == ("POST", "/api/v1/session"):
        found.add(401)
    if "{" in route.path or route.needs is Access.KEY:
        found.add(404)
    if route.method != "GET":
        found |= {409, 413, 507}
    return found


def _problems(route: Route) -> dict[str, Any]:
    told = {}
    for status in sorted(_statuses(route)):
        codes = ", ".join(f"`{code}`" for code, (of, _) in CODES.items() if of == status)
        told[str(status)] = {
            "description": codes,
            "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return told


def _done(route: Route, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    if route.status == 204:
        return {"description": "Done"}
    content: dict[str, Any] = {route.gives: {"schema": schema or _OTHERWISE.get(route.gives, {})}}
    if route.gives_lines:
        content[NDJSON] = {"schema": {"type": "string"}}
    return {"description": "Done", "content": content}


_OTHERWISE = {JSON: {"type": "object"}, "text/plain": {"type": "string"}, "text/event-stream": {"type": "string"}}


_REPEATABLE = {
    "/api/v1/events": "the same key and content within seven days: the same answer, one event",
    "/api/v1/events/batch": "the same key and the same events within seven days: the same answer, each event once",
}


def _operation(route: Route, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", **_OF_PATH.get(name, {})}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {"name": param.name, "in": "query", "description": param.about, "schema": dict(param.words)}
        for param in route.query
    ]
    if route.path in _REPEATABLE and route.method == "POST":
        about = _REPEATABLE[route.path]
        parameters.append(
            {"name": "Idempotency-Key", "in": "header", "description": about, "schema": dict(IDEMPOTENCY_KEY)}
        )
    if route.needs is Access.KEY and not route.of_server:
        about = "the tenant on whose data to act, for a key that may act for all; `default` unless given"
        parameters.append(
            {"name": HEADER, "in": "header", "description": about, "schema": {"type": "string", **TENANT}}
        )
    operation: dict[str, Any] = {
        "summary": route.summary,
        "tags": [route.tag],
        "operationId": f"{route.run.__module__.rpartition('.')[2]}_{getattr(route.run, '__name__', 'run')}",
        "parameters": parameters,
        "responses": {
            str(route.status): _done(route, schema),
            **_problems(route),
        },
        "security": _SECURITY[route.needs],
    }
    if route.path == "/readyz":  # which tells in its own shape why it is not
        operation["responses"]["503"] = {**_done(route, schema), "description": "Not ready"}
    if route.takes is not None:
        operation["requestBody"] = {
            "required": any(field.required for field in msgspec.structs.fields(route.takes)),
            "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{route.takes.__name__}"}}},
        }
        if route.takes_lines:
            operation["requestBody"]["content"][NDJSON] = {"schema": {"type": "string"}}
    return operation
