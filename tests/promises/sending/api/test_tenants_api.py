"""Tenants over HTTP: created, suspended, deleted, held to their quotas."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api, Start
from tests.support.eventually import eventually
from tests.support.http_client import Answer as Reply
from tests.support.pace import scaled_s
from tests.support.receiver import Answer, Sink

from hooklane.server import services

V1 = "/api/v1"
ACME = {"hooklane-tenant": "acme"}


async def call(api: Api, tenant: str, method: str, path: str, body: Any = None) -> Reply:
    return await api.call(method, f"{V1}/{path}", body, {"hooklane-tenant": tenant})


async def publish(api: Api, tenant: str, **fields: Any) -> Reply:
    return await call(api, tenant, "POST", "events", {"type": "order.created", "data": {}, **fields})


async def add(api: Api, id: str, **fields: Any) -> dict[str, Any]:
    made = await api.call("POST", f"{V1}/tenants", {"id": id, **fields})
    assert made.status == 201, made
    return dict(made.json)


async def test_the_tenant_default_is_there_and_cannot_be_deleted(api: Api):
    [default] = (await api.get(f"{V1}/tenants"))["items"]
    refused = await api.call("DELETE", f"{V1}/tenants/default")

    assert (default["id"], default["state"]) == ("default", "active")
    assert (refused.status, refused.code) == (409, "wrong_state")


async def test_a_tenant_is_created_changed_and_shown_with_its_ledger(api: Api, sink: Sink):
    made = await add(api, "acme", name="Acme", quota={"events_per_s": 50})
    changed = await api.call("PATCH", f"{V1}/tenants/acme", {"quota": {"endpoints": 3, "events_per_s": None}})
    await call(api, "acme", "POST", "endpoints", {"url": sink.url()})
    assert (await publish(api, "acme")).status == 202
    await sink.arrived(1)
    shown = await api.get(f"{V1}/tenants/acme")
    twice = await api.call("POST", f"{V1}/tenants", {"id": "acme"})

    assert (made["name"], made["quota"]) == ("Acme", {"events_per_s": 50.0, "endpoints": None, "bytes": None})
    assert changed.json["quota"] == {"events_per_s": None, "endpoints": 3, "bytes": None}
    assert (shown["endpoints"], shown["stored_bytes"], shown["ledger"]["accepted"]) == (1, 2, 1)
    assert (twice.status, twice.code) == (409, "tenant_exists")


async def test_an_id_that_does_not_fit_a_header_a_path_and_a_shell_is_refused_with_the_rule(api: Api):
    for id in ("", "-x", ".", "a b", "a/b", "ü", "a\n", "x" * 65, "a\0", "../x"):
        refused = await api.call("POST", f"{V1}/tenants", {"id": id})

        assert (refused.status, refused.code) == (422, "invalid_tenant"), id
        assert "letter or a digit" in refused.json["detail"], id


async def test_a_tenant_is_never_made_by_use(api: Api, publish_path: str, sink: Sink):
    answers = [
        await api.call("POST", publish_path, {"type": "a", "data": 1}, {"hooklane-tenant": name})
        for name in ("nobody", "", "Default", "x" * 500, "default, default")
    ]
    created = await call(api, "nobody", "POST", "endpoints", {"url": sink.url()})
    looked = await call(api, "nobody", "GET", "events")

    assert {(one.status, one.code) for one in (*answers, created, looked)} == {(404, "unknown_tenant")}
    assert len({one.body for one in (*answers, created, looked)}) == 1
    assert [one["id"] for one in (await api.get(f"{V1}/tenants"))["items"]] == ["default"]


async def test_two_tenants_may_use_the_same_ids_keys_and_names(api: Api, publish_path: str, sink: Sink):
    for tenant in ("one", "two"):
        await add(api, tenant)
        made = await call(api, tenant, "POST", "endpoints", {"url": sink.url(f"/{tenant}"), "name": "shop"})
        assert made.status == 201
    for tenant in ("one", "two"):
        answer = await api.call(
            "POST",
            publish_path,
            {"type": "a", "data": {"of": tenant}, "id": "evt_1", "key": "k"},
            {"hooklane-tenant": tenant, "idempotency-key": "same"},
        )
        assert (answer.status, [one["seq"] for one in answer.json["lanes"]]) == (202, [1])
    requests = await sink.arrived(2)

    assert {(one.path, one.headers["x-seq"]) for one in requests} == {("/one", "1"), ("/two", "1")}
    assert all(one.path[1:].encode() in one.body for one in requests)


async def test_a_suspended_tenant_is_refused_and_sent_nothing_until_it_is_resumed(api: Api, sink: Sink):
    await add(api, "acme")
    await call(api, "acme", "POST", "endpoints", {"url": sink.url("/acme")})
    await api.endpoint(sink.url("/default"))
    sink.react = lambda seen: Answer(status=503 if seen.path == "/acme" else 200)
    await publish(api, "acme", key="k")
    await sink.arrived(1)
    assert (await api.call("POST", f"{V1}/tenants/acme/suspend")).json["state"] == "suspended"
    sink.react = lambda _: Answer()

    refused = await publish(api, "acme", key="k")
    lanes = (await call(api, "acme", "GET", "lanes")).json["items"]
    why = (await call(api, "acme", "GET", f"lanes/{lanes[0]['endpoint']}/k/why")).json["why"]
    tested = await call(api, "acme", "POST", f"endpoints/{lanes[0]['endpoint']}/test")
    await api.publish()
    await sink.arrived(1, where=lambda one: one.path == "/default")
    assert (refused.status, refused.code) == (409, "tenant_suspended")
    assert (tested.status, tested.code) == (409, "tenant_suspended")
    assert lanes[0]["state"] == "paused"
    assert "suspended" in why
    assert sink.requests[-1].path == "/default"

    assert (await api.call("POST", f"{V1}/tenants/acme/resume")).json["state"] == "active"
    await sink.arrived(1, where=lambda one: one.path == "/acme" and one.headers["x-attempt"] == "2")
    assert (await publish(api, "acme", key="k")).status == 202


@pytest.mark.parametrize("backlog", ["drain", "cancel"])
async def test_deleting_a_tenant_delivers_or_cancels_what_it_is_owed(api: Api, sink: Sink, backlog: str):
    await add(api, "acme")
    made = (await call(api, "acme", "POST", "endpoints", {"url": sink.url(), "backoff_ms": 300})).json
    sink.react = lambda _: Answer(status=503)
    for n in range(3):
        await publish(api, "acme", key="k", data=n)
    await sink.arrived(1)

    assert (await api.call("DELETE", f"{V1}/tenants/acme?backlog={backlog}")).status == 204
    sink.react = lambda _: Answer()  # not before: on a slow machine the retry would come first
    assert (await publish(api, "acme")).status in (404, 409)
    state = "delivered" if backlog == "drain" else "cancelled"

    async def settled() -> bool:
        ledger = await api.server.services.store.ledger("acme", made["id"])
        return ledger[state] == ledger["accepted"] == 3

    assert await eventually(settled)
    await api.server.services.store.tidy()
    gone = await api.call("GET", f"{V1}/tenants/acme")
    assert (gone.status, gone.code) == (404, "unknown_tenant")
    again = await api.call("POST", f"{V1}/tenants", {"id": "acme"})
    assert (again.status, again.code) == (409, "tenant_exists")


@pytest.mark.parametrize("first", ["endpoints/{id}", "tenants/acme"])
@pytest.mark.parametrize("second", ["endpoints/{id}", "tenants/acme"])
async def test_a_backlog_that_was_cancelled_stays_cancelled_whatever_is_deleted_next(
    start: Start, sink: Sink, first: str, second: str
):
    api = await start(role=("api",))
    await add(api, "acme")
    id = (await call(api, "acme", "POST", "endpoints", {"url": sink.url()})).json["id"]
    for n in range(3):
        await publish(api, "acme", key="k", data=n)

    store = api.server.services.store
    assert (await call(api, "acme", "DELETE", f"{first.format(id=id)}?backlog=cancel")).status == 204
    assert (await call(api, "acme", "DELETE", second.format(id=id))).status == 204
    assert [str(one.state) for one in await store.endpoints("acme")] == ["cancelling"]
    await start()

    async def settled() -> bool:
        ledger = await store.ledger("acme", id)
        return ledger["cancelled"] + ledger["delivered"] == 3

    assert await eventually(settled)
    assert sink.requests == []


async def test_more_events_a_second_than_the_quota_get_429_and_when_to_come_back(api: Api, publish_path: str):
    await add(api, "acme", quota={"events_per_s": 2})
    header = {"hooklane-tenant": "acme"}
    answers = [await api.call("POST", publish_path, {"type": "a", "data": 1}, header) for _ in range(20)]

    refused = [one for one in answers if one.status == 429]
    assert len(refused) >= 10
    assert {(one.code, one.headers["retry-after"]) for one in refused} == {("quota_exceeded", "1")}
    assert answers[0].status == 202
    assert (await api.publish())["lanes"] == [], "another tenant is not touched"
    await asyncio.sleep(int(refused[-1].headers["retry-after"]))
    assert (await api.call("POST", publish_path, {"type": "a", "data": 1}, header)).status == 202


async def test_what_is_beyond_the_quota_is_refused_before_its_body_is_read(api: Api, publish_path: str):
    await add(api, "acme", quota={"events_per_s": 0.001})
    header = {"hooklane-tenant": "acme"}
    unreadable = {"type": "not a type", "data": 1}
    first = [await api.call("POST", publish_path, body, header) for body in (unreadable, {"type": "a", "data": 1})]
    then = [await api.call("POST", publish_path, unreadable, header) for _ in range(3)]

    assert [one.status for one in first] == [422, 202], "where there is room, a body is read, and a bad one costs none"
    assert {(one.status, one.code) for one in then} == {(429, "quota_exceeded")}
    assert (await api.call("POST", publish_path, unreadable)).status == 422, "another tenant is not touched"


async def test_a_batch_above_the_rate_comes_in_whole_where_nothing_came_before_and_what_follows_waits(api: Api):
    await add(api, "acme", quota={"events_per_s": 3})
    batch = {"events": [{"type": "a", "data": n} for n in range(100)]}
    taken = await call(api, "acme", "POST", "events/batch", batch)
    refused = [await call(api, "acme", "POST", "events/batch", batch), await publish(api, "acme")]

    assert taken.status == 202
    assert [(one.status, one.code) for one in refused] == [(429, "quota_exceeded")] * 2
    assert int(refused[0].headers["retry-after"]) > 30, "until the hundred are made up for"


async def test_a_batch_that_is_refused_for_its_bytes_leaves_room_for_a_smaller_one(api: Api):
    await add(api, "acme", quota={"bytes": 1_000})
    large = {"events": [{"type": "a", "data": "x" * 300} for _ in range(4)]}
    refused = await call(api, "acme", "POST", "events/batch", large)
    small = await call(api, "acme", "POST", "events/batch", {"events": large["events"][:3]})

    assert (refused.status, small.status) == (429, 202)
    assert len((await call(api, "acme", "GET", "events")).json["items"]) == 3


async def test_a_rate_that_is_next_to_nothing_is_refused(api: Api):
    answer = await api.call("POST", f"{V1}/tenants", {"id": "acme", "quota": {"events_per_s": 1e-320}})

    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "quota.events_per_s")


async def test_a_stored_rate_that_is_next_to_nothing_leaves_no_publish_without_an_answer(
    start: Start, tmp_path: Path, publish_path: str
):
    await add(await start(), "acme", quota={"events_per_s": 1})
    with sqlite3.connect(tmp_path / "hooklane.db") as conn:
        old = "replace(CAST(doc AS TEXT), '\"events_per_s\":1.0', '\"events_per_s\":1e-320')"
        conn.execute(f"UPDATE hooklane_tenant SET doc = CAST({old} AS BLOB) WHERE id = 'acme'")
        (doc,) = conn.execute("SELECT doc FROM hooklane_tenant WHERE id = 'acme'").fetchone()
    assert b"1e-320" in doc
    api, header = await start(role=("api",)), {"hooklane-tenant": "acme"}

    answers = [await api.call("POST", publish_path, {"type": "a", "data": 1}, header) for _ in range(2)]

    assert [one.status for one in answers] == [202, 429]


async def test_a_publish_whose_admission_fails_is_answered_all_the_same(
    api: Api, publish_path: str, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise OverflowError("cannot convert float infinity to integer")

    monkeypatch.setattr(api.server.services.publisher, "_guard", fail)

    answer = await api.call("POST", publish_path, {"type": "a", "data": 1})

    assert (answer.status, answer.code) == (500, "internal")


async def test_endpoints_beyond_the_quota_get_429_also_when_they_come_together(api: Api, sink: Sink):
    await add(api, "acme", quota={"endpoints": 2})

    async def create() -> int:
        async with api.connect() as connection:
            body = {"url": sink.url()}
            return (await connection.call("POST", f"{V1}/endpoints", body, {"hooklane-tenant": "acme"})).status

    statuses = await asyncio.gather(*(create() for _ in range(6)))

    assert sorted(statuses) == [201, 201, 429, 429, 429, 429]
    refused = await call(api, "acme", "POST", "endpoints", {"url": sink.url()})
    assert (refused.code, refused.headers["retry-after"]) == ("quota_exceeded", "60")
    assert (await api.call("POST", f"{V1}/endpoints", {"url": sink.url()})).status == 201


async def test_stored_bytes_beyond_the_quota_get_429_also_at_a_server_that_starts_later(start: Start):
    api = await start(role=("api",))
    await add(api, "acme", quota={"bytes": 1_000})
    data = "x" * 300
    statuses = [(await publish(api, "acme", data=data)).status for _ in range(5)]
    again = await start(role=("api",))
    await again.server.services.publish_limits.look()
    after = await publish(again, "acme", data=data)

    assert statuses == [202, 202, 202, 429, 429]
    assert (after.status, after.code) == (429, "quota_exceeded")
    assert (await publish(again, "acme", data="x")).status == 202


async def test_what_comes_in_while_stored_bytes_are_counted_counts_as_well(
    start: Start, monkeypatch: pytest.MonkeyPatch
):
    api = await start(role=("api",))
    store, meanwhile = api.server.services.store, list[Reply]()
    count = store.stored_bytes

    async def counted(tenant: str) -> int:
        found = await count(tenant)
        if not meanwhile:
            async with api.connect() as client:
                body = {"type": "a", "data": "x" * 600}
                meanwhile.append(await client.call("POST", f"{V1}/events", body, {"hooklane-tenant": tenant}))
        return int(found)

    async def was_counted() -> bool:
        return bool(meanwhile)

    monkeypatch.setattr(store, "stored_bytes", counted)
    await add(api, "acme", quota={"bytes": 1_000})
    await eventually(was_counted)

    assert meanwhile[0].status == 202
    assert (await publish(api, "acme", data="x" * 600)).status == 429


async def test_a_tenant_that_another_process_creates_can_be_used_at_once(start: Start):
    one, other = await start(), await start(role=("api",))
    await add(one, "acme")

    assert (await publish(other, "acme")).status == 202


async def test_tests_of_one_tenants_endpoints_leave_places_to_those_of_another(api: Api, sink: Sink):
    await api.call("POST", "/api/v1/tenants", {"id": "acme"})
    hold = threading.Event()
    sink.react = lambda _: Answer(status=200 if hold.wait(scaled_s(60)) else 500)
    slow = await api.endpoint(sink.url("/slow"), timeout_ms=100_000)
    theirs = (await api.call("POST", "/api/v1/endpoints", {"url": sink.url("/theirs")}, ACME)).json
    most = services.TESTS_MAX // 2
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(api.connect()) for _ in range(most + 2)]
        for caller in callers[:most]:
            caller.writer.write(caller.request("POST", f"/api/v1/endpoints/{slow['id']}/test", {}))

        async def is_full() -> bool:
            return api.server.services.tests._held["default"] == most

        assert await eventually(is_full)
        refused = await callers[most].call("POST", f"/api/v1/endpoints/{slow['id']}/probe")
        other = asyncio.create_task(callers[most + 1].call("POST", f"/api/v1/endpoints/{theirs['id']}/test", {}, ACME))

        async def has_place() -> bool:
            return api.server.services.tests._held["acme"] == 1

        assert await eventually(has_place)
        hold.set()
        assert [(await caller.answer()).status for caller in callers[:most]] == [200] * most
        assert (await other).status == 200

    assert (refused.status, refused.code) == (429, "too_many_requests")
    assert not api.server.services.tests._held
