"""Types of events: described, and enforced where that is wished."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api

from hooklane.core import event_type
from hooklane.core.event_type import InvalidSchema, weight_of
from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.server import event_types
from hooklane.server.problem import Problem

PATH = "/api/v1/types/order.paid"
SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "a/b": {"type": "string", "pattern": "^[a-z]+$"},
    },
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string", "format": "uuid"}}}},
}

HUGE = {"items": {"anyOf": [{"minLength": 9 + n % 3, "maxLength": 3} for n in range(900)]}}
SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
UNEVALUATED: dict[str, Any] = {"properties": {"a": {}}}
for _ in range(13):
    UNEVALUATED = {"unevaluatedProperties": False, "allOf": [UNEVALUATED]}


async def enforce(api: Api, schema: Any = SCHEMA, path: str = PATH) -> None:
    answer = await api.call("PUT", path, {"description": "an order is paid", "schema": schema, "enforce": True})
    assert answer.status == 200, answer


async def test_a_type_is_described_listed_and_forgotten(api: Api):
    await api.call("PUT", PATH, {"description": "paid"})
    await enforce(api)
    shown = await api.get(PATH)

    assert (await api.get("/api/v1/types"))["items"] == [shown]
    assert (shown["schema"], shown["enforce"], shown["description"]) == (SCHEMA, True, "an order is paid")
    assert (await api.call("DELETE", PATH)).status == 204
    assert (await api.call("DELETE", PATH)).status == (await api.call("GET", PATH)).status == 404
    actions = [one["action"] for one in (await api.get("/api/v1/audit"))["items"]]
    assert actions == ["type.removed", "type.set", "type.set"]


async def test_a_publish_that_breaks_its_schema_is_refused_and_told_where(api: Api, publish_path: str):
    await enforce(api)
    wrong = {"type": "order.paid", "data": {"id": "canary", "lines": [{}, {"sku": 7}], "a/b": "A"}}

    refused = await api.call("POST", publish_path, wrong)
    taken = await api.call("POST", publish_path, {"type": "order.paid", "data": {"id": 7}})
    other = await api.call("POST", publish_path, {"type": "order.made", "data": "anything"})

    assert (refused.status, refused.code) == (422, "schema_violation")
    assert {one["path"] for one in refused.json["errors"]} == {"/data/id", "/data/lines/1/sku", "/data/a~1b"}
    assert "canary" not in refused.body.decode()
    assert (taken.status, other.status) == (202, 202)
    assert len((await api.get("/api/v1/events"))["items"]) == 2


async def test_a_batch_with_a_breach_is_refused_whole(api: Api):
    await enforce(api)
    events = [{"type": "order.paid", "data": {"id": 1}}, {"type": "order.paid", "data": {}}]

    answer = await api.call("POST", "/api/v1/events/batch", {"events": events})

    assert (answer.status, answer.code) == (422, "schema_violation")
    assert '"id" is a required property' in answer.json["detail"]
    assert (await api.get("/api/v1/events"))["items"] == []


async def test_what_is_not_enforced_is_not_checked(api: Api, publish_path: str):
    await enforce(api)
    await api.call("PUT", PATH, {"schema": SCHEMA})

    assert (await api.call("POST", publish_path, {"type": "order.paid", "data": 1})).status == 202
    assert not api.server.services.types.enforced


async def test_a_large_event_is_checked_beside_the_server_and_its_answer_is_the_same(api: Api, publish_path: str):
    await enforce(api)
    good = {"type": "order.paid", "data": {"id": 1, "lines": [{"n": n} for n in range(5_000)]}}
    bad = {"type": "order.paid", "data": {"id": 1, "lines": [*good["data"]["lines"], {"sku": 7}]}}

    refused = await api.call("POST", publish_path, bad)
    taken = await api.call("POST", publish_path, good)

    assert (refused.status, refused.code, refused.json["errors"][0]["path"]) == (
        422,
        "schema_violation",
        "/data/lines/5000/sku",
    )
    assert taken.status == 202


async def test_a_check_without_end_is_given_up_and_stops_nothing_else(api: Api, monkeypatch: pytest.MonkeyPatch):
    await enforce(api, {"items": {"allOf": [{"minimum": n} for n in range(900)]}})
    monkeypatch.setattr(event_types, "ASIDE_S_MAX", 0.1)
    many = {"type": "order.paid", "data": list(range(1_000, 31_000))}
    async with api.connect() as slow:
        waiting = asyncio.create_task(slow.call("POST", "/api/v1/events", many))
        other = await api.call("POST", "/api/v1/events", {"type": "b", "data": 1})
        first = await waiting

    assert other.status == 202
    assert (first.status, first.code) == (422, "schema_violation")
    assert "too large for its schema" in first.json["detail"]


HOSTILE_SCHEMAS: list[Any] = [
    {"$ref": "http://127.0.0.1:9/schema"},
    {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    {"$ref": "file:///etc/passwd"},
    {"$ref": "other.json#/a"},
    {"properties": {"a": {"$ref": "#"}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"items": {"$ref": "#/$defs/a"}}}},
    {"$ref": "#/$defs/none"},
    {"$ref": "#/$defs/%61", "$defs": {"%61": {}, "a": {"items": {"$ref": "#/$defs/%61"}}}},
    {"$ref": "#/$defs/%FF", "$defs": {"%FF": {}}},
    {"allOf": [{"$ref": "#/allOf/²"}]},
    {"allOf": [{"$ref": "#/allOf/" + "1" * 5_000}]},
    {"$dynamicRef": "#a"},
    {"properties": {"a": {"$id": "http://x/"}}},
    {"$schema": "http://json-schema.org/draft-07/schema#"},
    {"type": "text"},
    {"pattern": "(a"},
    {"pattern": "(?=a)b"},
    {"pattern": "a" * 257},
    {"pattern": "((a{100}){100}){100}"},
    {"enum": list(range(3_000))},
    *({by_name: {"default": HUGE}} for by_name in SCHEMAS_BY_NAME),
    {"properties": {"enum": {"$ref": "file:///etc/passwd"}}},
    {"$ref": "#/$defs/const", "$defs": {"const": HUGE}},
    {"anyOf": [False] * 3_000},
    {"required": [f"a{n}" for n in range(3_000)]},
    UNEVALUATED,
    {"description": "x" * 70_000},
]


async def test_a_hostile_schema_is_refused(api: Api):
    for schema in HOSTILE_SCHEMAS:
        answer = await api.call("PUT", PATH, {"schema": schema, "enforce": True})

        assert (answer.status, answer.code) == (422, "invalid_schema"), (str(schema)[:60], answer)


def test_a_schema_that_multiplies_itself_again_and_again_is_refused_without_doing_the_work():
    defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 9} for n in range(8)} | {"d8": {"type": "string"}}

    with pytest.raises(InvalidSchema, match="too large"):
        weight_of({"$ref": "#/$defs/d0", "$defs": defs})


def test_a_ref_is_weighed_where_the_validator_goes_although_it_is_percent_encoded():
    """`%641` leads to `d1`, not to the definition that is spelled so. Checked inline, it never came to an end."""
    defs: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/%64{n + 1}"}] * 9} for n in range(8)}
    decoys: dict[str, Any] = {f"%64{n + 1}": {} for n in range(8)}

    with pytest.raises(InvalidSchema, match="too large"):
        weight_of({"$ref": "#/$defs/d0", "$defs": {**defs, "d8": {"type": "string"}, **decoys}})
    assert weight_of({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "string"}}}) == weight_of(
        {"$ref": "#/$defs/ab", "$defs": {"ab": {"type": "string"}}}
    )


def test_a_property_may_have_the_name_of_a_keyword():
    names = ("$ref", "$id", "$anchor", "$defs", "pattern", "const", "enum", "default", "examples", "properties")
    weights = {name: weight_of({"properties": {name: {"items": {"type": "string"}}}}) for name in names}

    assert weights == dict.fromkeys(names, weight_of({"properties": {"other": {"items": {"type": "string"}}}}))


async def test_an_event_that_breaks_many_alternatives_is_refused_and_stops_nothing_else(api: Api):
    """What each alternative lacks is noted for each place: seconds of work for 211 bytes."""
    await enforce(api, {"anyOf": [{"items": {"required": [f"a{n}" for n in range(1_900)]}}]})
    async with api.connect() as slow:
        waiting = asyncio.create_task(slow.call("POST", "/api/v1/events", {"type": "order.paid", "data": [{}] * 69}))
        other = await api.call("POST", "/api/v1/events", {"type": "b", "data": 1})
        is_over = waiting.done()
        refused = await waiting

    assert (other.status, is_over) == (202, False)
    assert (refused.status, refused.code) == (422, "schema_violation")


async def test_a_schema_that_was_kept_under_a_milder_rule_is_enforced_still(api: Api, monkeypatch: pytest.MonkeyPatch):
    await enforce(api, {"allOf": [{"minimum": n} for n in range(9)]})
    monkeypatch.setattr(event_type, "WEIGHT_MAX", 5)
    rules = event_types.TypeRules(api.server.services.store)
    await rules.look()
    events = [Event("evt_1", "order.paid", None, data, Instant(1), "default") for data in (b"7", b"8")]
    refused, taken = [await verdict for one in events if isinstance(verdict := rules.judge(one), Awaitable)]
    rules.stop()
    await rules.run()

    assert isinstance(refused, Problem)
    assert taken is None


async def test_enforce_needs_a_schema_and_a_type_its_grammar(api: Api):
    assert (await api.call("PUT", PATH, {"enforce": True})).code == "invalid_schema"
    assert (await api.call("PUT", "/api/v1/types/a%20b", {})).code == "invalid_type"
