"""Types of events: described, with the schema that their data keeps."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hooklane.core.entry import admit_type
from hooklane.core.event_type import InvalidSchema
from hooklane.model.event_type import EventType
from hooklane.server import views
from hooklane.server.call import Call, Response, Routes, answer
from hooklane.server.problem import Problem
from hooklane.server.schema_check import weight_of_schema
from hooklane.server.schema_words import text_of, told
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_access import EventTypeShape

DESCRIPTION_CHARS_MAX = 10_000
TYPES_MAX = 1_000
NO_TYPE = "there is no such event type"


class TypeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is known of a type; what is left out is empty. `enforce` needs a schema."""

    description: Annotated[str, told(text_of(DESCRIPTION_CHARS_MAX))] = ""
    schema: dict[str, Any] | bool | None = None
    enforce: bool = False


routes = Routes("types", "/api/v1/types")


@routes.put(
    "/{type}",
    "Describe a type of events; with `enforce`, a publish that breaks its schema is refused.",
    takes=TypeBody,
    answers=EventTypeShape,
)
async def put(call: Call) -> Response:
    services, type_, body = call.services, call.params["type"], call.read(TypeBody)
    admit_type(type_)
    if len(body.description) > DESCRIPTION_CHARS_MAX or "\0" in body.description:
        raise Problem("invalid_body", f"description must have at most {DESCRIPTION_CHARS_MAX:,} characters and no NUL")
    if body.enforce and body.schema is None:
        raise Problem("invalid_schema", "enforce needs a schema")
    schema = None if body.schema is None else msgspec.json.encode(body.schema)
    try:
        if schema is not None:
            weight_of_schema(schema)
    except InvalidSchema as error:
        raise Problem("invalid_schema", str(error), errors=[{"field": "schema", "detail": str(error)}]) from None
    known = await services.store.event_types(call.tenant)
    if len(known) >= TYPES_MAX and all(one.type != type_ for one in known):
        raise Problem("wrong_state", f"a tenant has at most {TYPES_MAX:,} event types: remove some")
    now = services.now()
    old = next((one.created_at for one in known if one.type == type_), now)
    one = EventType(
        tenant=call.tenant,
        type=type_,
        created_at=old,
        changed_at=now,
        description=body.description,
        schema=schema,
        enforce=body.enforce,
    )
    await services.store.save_type(one, act=call.act("type.set", type_, "enforced" if body.enforce else ""))
    await services.types.look()
    return answer(_view(one))


@routes.get("", "All types of events.", answers=ListShape[EventTypeShape])
async def listing(call: Call) -> Response:
    return answer({"items": [_view(one) for one in await call.services.store.event_types(call.tenant)], "next": None})


@routes.get("/{type}", "One type of events.", answers=EventTypeShape)
async def show(call: Call) -> Response:
    found = await call.services.store.event_type(call.tenant, call.params["type"])
    if found is None:
        raise Problem("not_found", NO_TYPE)
    return answer(_view(found))


@routes.delete("/{type}", "Forget a type of events; events stay.", status=204)
async def remove(call: Call) -> Response:
    """Events of the type stay, and more may be published; nothing is checked any more."""
    type_ = call.params["type"]
    if not await call.services.store.remove_type(call.tenant, type_, act=call.act("type.removed", type_)):
        raise Problem("not_found", NO_TYPE)
    await call.services.types.look()
    return Response(204)


def _view(one: EventType) -> views.View:
    schema = None if one.schema is None else msgspec.Raw(one.schema)
    return views.filled(EventTypeShape, one, schema=schema)
