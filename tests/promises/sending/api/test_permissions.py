"""Every route of the table x {no key, unknown, mistyped, wrong scope, expired, revoked, right key}."""

import re
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api
from tests.support.eventually import eventually
from tests.support.http_client import Answer

from hooklane.core.api_key import digest_of, key_of
from hooklane.errors import StoreUnavailable
from hooklane.model.api_key import ApiKey, Scope
from hooklane.model.audit import Act
from hooklane.model.clock import Instant, wall_now
from hooklane.server import key_ring, wrong_keys
from hooklane.server.api import ROUTES
from hooklane.server.call import Access, Route
from hooklane.server.permission import PORTAL, scope_of
from hooklane.server.refusals import KINDS_MAX, Refusals

ASKING = [route for route in ROUTES if route.needs is not Access.NOTHING]


@pytest.fixture
async def api(start: Any, monkeypatch: pytest.MonkeyPatch) -> Api:
    """Reachable from elsewhere, so that no call is free because it comes from this machine."""
    monkeypatch.setattr(wrong_keys, "BURST", 10_000)
    monkeypatch.setattr(wrong_keys, "BURST_OF_ALL", 10_000)
    made: Api = await start(host="0.0.0.0")
    return made


async def new_key(api: Api, *scopes: str, **fields: Any) -> dict[str, Any]:
    if (tenant := fields.get("tenant")) is not None:
        assert (await api.call("POST", "/api/v1/tenants", {"id": tenant})).status in (201, 409)
    answer = await api.call("POST", "/api/v1/keys", {"name": "test", "scopes": list(scopes), **fields})
    assert answer.status == 201, answer
    return dict(answer.json)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def ask(api: Api, route: Route, headers: dict[str, str]) -> Answer:
    path = re.sub(r"{\w+}", "x", route.path)
    if route.path == "/api/v1/stream":
        path += "?topics=none"  # else the answer has no end
    async with api.connect(headers) as caller:
        return await caller.call(route.method, path, b"[]" if route.method != "GET" else None)


async def test_every_route_is_closed_without_a_good_key_and_open_with_the_right_one(api: Api):
    expired = key_of(b"e" * 20)
    await api.server.services.store.add_key(
        ApiKey(
            id="key_old",
            name="old",
            digest=digest_of(expired),
            scopes=tuple(Scope),
            tenant=None,
            created_at=Instant(1),
            expires_at=Instant(wall_now() - 1),
        ),
        act=Act(tenant="default", at=Instant(1), actor="test", action="key.created", subject="key_old"),
    )
    revoked = await new_key(api, "admin")
    assert (await api.call("DELETE", f"/api/v1/keys/{revoked['id']}")).status == 204
    strangers = {
        "no key": {},
        "unknown key": bearer(key_of(b"u" * 20)),
        "mistyped key": bearer(revoked["key"][:-1] + ("0" if revoked["key"][-1] != "0" else "1")),
        "expired key": bearer(expired),
        "revoked key": bearer(revoked["key"]),
        "no such session": {"cookie": f"hooklane={key_of(b's' * 20)}"},
    }
    good = {scope: bearer((await new_key(api, scope))["key"]) for scope in Scope}
    for route in ASKING:
        name = f"{route.method} {route.path}"
        for who, headers in strangers.items():
            answer = await ask(api, route, headers)
            assert (answer.status, answer.code) == (401, "unauthorized"), (name, who, answer)
        needed = scope_of(route)
        for scope, headers in good.items():
            answer = await ask(api, route, headers)
            may = needed in (None, scope) or scope is Scope.ADMIN
            assert (answer.status == 403) == (not may), (name, scope, answer)
            assert answer.status not in (401, 429, 500, 503), (name, scope, answer)
            if not may:
                assert answer.code == "forbidden"


def test_each_scope_is_needed_where_one_expects_it():
    needed = {f"{route.method} {route.path}": scope_of(route) for route in ROUTES}

    assert needed["POST /api/v1/events"] is needed["POST /api/v1/events/batch"] is Scope.PUBLISH
    assert needed["GET /api/v1/events"] is needed["GET /api/v1/audit"] is Scope.READ
    assert needed["POST /api/v1/dead-letters/{id}/replay"] is needed["POST /api/v1/endpoints"] is Scope.OPERATE
    assert needed["POST /api/v1/endpoints/{id}/reveal"] is needed["GET /api/v1/keys"] is Scope.ADMIN
    assert {name for name, scope in needed.items() if scope is None} == {
        "POST /api/v1/session",
        "GET /api/v1/session",
        "DELETE /api/v1/session",
    }
    writes = {name for name in PORTAL if not name.startswith("GET ")}
    assert writes == {name for name in writes if name in needed}, "the portal names a route that is not there"


async def test_a_key_without_the_scope_publish_is_refused_on_the_fast_path_too(api: Api):
    reader, publisher = await new_key(api, "read"), await new_key(api, "publish")
    event = {"type": "a", "data": 1}

    refused = await api.call("POST", "/api/v1/events", event, bearer(reader["key"]))
    taken = [await api.call("POST", "/api/v1/events", event, bearer(publisher["key"])) for _ in range(3)]

    assert (refused.status, refused.code) == (403, "forbidden")
    assert "needs the scope publish; the key has: read" in refused.json["detail"]
    assert [one.status for one in taken] == [202, 202, 202]


async def test_a_revoked_key_is_dead_on_a_connection_that_used_it_a_moment_ago(api: Api):
    key = await new_key(api, "publish")
    async with api.connect(bearer(key["key"])) as connection:
        before = [(await connection.call("POST", "/api/v1/events", {"type": "a", "data": 1})).status for _ in range(3)]
        await api.call("DELETE", f"/api/v1/keys/{key['id']}")
        after = await connection.call("POST", "/api/v1/events", {"type": "a", "data": 1})

    assert (before, after.status) == ([202, 202, 202], 401)


async def test_keys_that_cannot_be_compared_with_the_store_are_trusted_for_a_while_only(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(key_ring, "TRUST_S", 0.5)
    key = await new_key(api, "publish")
    store = api.server.services.store
    compare = store.key_revision

    async def away() -> int:
        raise StoreUnavailable("the database is away")

    async with api.connect(bearer(key["key"])) as connection:

        async def answered(status: int) -> bool:
            return (await connection.call("POST", "/api/v1/events", {"type": "a", "data": 1})).status == status

        assert await answered(202)
        monkeypatch.setattr(store, "key_revision", away)
        await eventually(lambda: answered(503))  # another process may have revoked it meanwhile
        monkeypatch.setattr(store, "key_revision", compare)
        await eventually(lambda: answered(202))


async def test_a_key_is_shown_once_and_then_by_what_it_may_do(api: Api):
    made = await new_key(api, "read", "publish", expires_at="2999-01-01T00:00:00Z", tenant="acme")
    listed = (await api.get("/api/v1/keys"))["items"]

    assert re.fullmatch(r"hl_[0-9a-hjkmnp-tv-z]{38}", made["key"])
    assert listed == [{name: value for name, value in made.items() if name != "key"}]
    assert (made["scopes"], made["tenant"], made["last_used_at"]) == (["publish", "read"], "acme", None)
    actions = [(one["action"], one["subject"]) for one in (await api.get("/api/v1/audit"))["items"]]
    assert ("key.created", made["id"]) in actions
    assert (await api.call("DELETE", "/api/v1/keys/key_x")).status == 404


NO_SENSE: list[dict[str, Any]] = [
    {"scopes": []},
    {"scopes": ["all"]},
    {"name": ""},
    {"name": "a\nb"},
    {"name": "x" * 101},
    {"expires_at": "2001-01-01T00:00:00Z"},
    {"expires_at": "tomorrow"},
]


async def test_a_key_that_makes_no_sense_is_refused(api: Api):
    for wrong in NO_SENSE:
        answer = await api.call("POST", "/api/v1/keys", {"name": "a", "scopes": ["read"], **wrong})

        assert (answer.status, answer.code) == (422, "invalid_body"), wrong


async def test_a_key_of_one_tenant_reaches_that_tenant_alone(api: Api):
    acme = await new_key(api, "admin", tenant="acme")
    other = await new_key(api, "admin", tenant="other")
    sink = "http://127.0.0.1:9/hook"
    mine = (await api.call("POST", "/api/v1/endpoints", {"url": sink}, bearer(acme["key"]))).json
    event = (await api.call("POST", "/api/v1/events", {"type": "a", "data": 1}, bearer(acme["key"]))).json

    async with api.connect(bearer(other["key"])) as connection:
        unknown = await connection.call("GET", "/api/v1/endpoints/ep_x")
        foreign = await connection.call("GET", f"/api/v1/endpoints/{mine['id']}")
        assert (foreign.status, foreign.body) == (404, unknown.body)
        assert (await connection.call("GET", f"/api/v1/events/{event['id']}")).status == 404
        assert (await connection.call("GET", "/api/v1/endpoints")).json["items"] == []
        assert [one["id"] for one in (await connection.call("GET", "/api/v1/keys")).json["items"]] == [other["id"]]
        assert (await connection.call("DELETE", f"/api/v1/keys/{acme['id']}")).status == 404
        for tenant in (None, "acme"):
            body = {"name": "x", "scopes": ["read"], "tenant": tenant}
            made = await connection.call("POST", "/api/v1/keys", body)
            assert (made.status, made.json.get("tenant")) == ((201, "other") if tenant is None else (403, None))
        assert (await connection.call("GET", "/metrics")).status == 403
        assert (await connection.call("GET", "/api/v1/inbox")).status == 403
    assert event["lanes"][0]["endpoint"] == mine["id"]


async def test_when_a_key_was_used_is_written_without_a_write_for_each_use(api: Api):
    key = await new_key(api, "read")
    for _ in range(3):
        await api.call("GET", "/api/v1/endpoints", headers=bearer(key["key"]))
    (before,) = (await api.get("/api/v1/keys"))["items"]
    await api.server.services.keys.flush()
    (after,) = (await api.get("/api/v1/keys"))["items"]

    assert before["last_used_at"] is None
    assert after["last_used_at"] is not None


async def test_a_call_that_a_key_does_not_permit_is_on_record_once_and_then_counted(api: Api):
    key = await new_key(api, "read", tenant="acme")
    for _ in range(20):
        assert (await api.call("POST", "/api/v1/keys", {}, bearer(key["key"]))).status == 403
    assert (await api.call("GET", "/api/v1/inbox", headers=bearer(key["key"]))).status == 403
    assert (await api.call("GET", "/api/v1/endpoints", headers=bearer(key["key"]))).status == 200

    lines = (await api.call("GET", "/api/v1/audit?action=call.refused", headers=bearer(key["key"]))).json["items"]
    assert [(one["subject"], one["note"]) for one in lines] == [
        (key["id"], "GET /api/v1/inbox"),
        (key["id"], "POST /api/v1/keys"),
    ]


def test_a_flood_of_refusals_is_no_flood_of_lines_and_none_is_lost_from_the_count():
    refusals = Refusals()
    first = [refusals.note("key_a", f"GET /{n}", 0.0) for n in range(1_000)]

    assert [one for one in first if one] == [f"GET /{n}" for n in range(30)]
    assert refusals.note("key_a", "GET /0", 10.0) is None
    assert refusals.note("key_a", "GET /0", 3_601.0) == "GET /0, 2 times"
    assert refusals.note("key_a", "GET /999", 3_602.0) == "GET /999, 2 times"


def test_refusals_that_are_not_written_down_are_remembered_within_a_bound_too():
    refusals = Refusals()
    for n in range(3 * KINDS_MAX):
        refusals.note(f"key_{n}", "GET /", 0.0)

    assert len(refusals._kinds) <= KINDS_MAX


async def test_one_tenant_cannot_use_up_the_keys_of_all(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hooklane.server.api.keys.KEYS_OF_TENANT_MAX", 2)
    for tenant in ("acme", "other"):
        assert (await api.call("POST", "/api/v1/tenants", {"id": tenant})).status == 201

    async def key(tenant: str) -> int:
        return (await api.call("POST", "/api/v1/keys", {"name": "k", "scopes": ["read"], "tenant": tenant})).status

    assert [await key("acme"), await key("acme"), await key("acme"), await key("other")] == [201, 201, 409, 201]
