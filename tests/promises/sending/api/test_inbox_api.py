"""The receiver's side over HTTP: what an application received, in the database of the server."""

import asyncio
import base64
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.promises.receiving.kit import signed_bytes
from tests.promises.sending.api.conftest import Start
from tests.promises.sending.api.inbox_site import Shop, Site, insert
from tests.support.eventually import eventually
from tests.support.http_client import Connection

from hooklane.model.message import Status
from hooklane.server.inbox_sources import source_views

# Without an inbox


@pytest.fixture(params=["sqlite", "postgresql"])
async def site_alone(request: pytest.FixtureRequest, tmp_path: Path, start: Start) -> Site:
    """A server on a database in which no application has an inbox."""
    at = (
        f"sqlite:///{tmp_path}/alone.db" if request.param == "sqlite" else request.getfixturevalue("empty_postgres_url")
    )
    return Site(at, await start(db=at))


async def test_without_an_inbox_lists_are_empty_ids_unknown_and_no_table_is_made(site_alone: Site):
    site = site_alone
    listed = await site.get("inbox")
    letters = await site.get("dead-letters?side=inbox")
    stats = await site.get("inbox/stats")
    unknown = [
        await site.call("GET", "inbox/1"),
        await site.call("POST", "inbox/1/replay"),
        await site.call("GET", "dead-letters/1"),
        await site.call("POST", "dead-letters/1/skip", {"note": "x"}),
    ]

    assert listed == letters == {"items": [], "next": None}
    assert (stats["store"], stats["owed"], stats["lag_ms"], stats["sources"]) == (None, 0, 0, {})
    assert {(one.status, one.json["detail"]) for one in unknown} == {(404, "there is no row with this id in the inbox")}
    assert len({one.body for one in unknown}) == 1
    assert await asyncio.to_thread(_tables, site.db) == 0


def _tables(db: str) -> int:
    if db.startswith("sqlite"):
        with closing(sqlite3.connect(db.removeprefix("sqlite:///"))) as conn:
            return int(conn.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE '%inbox%'").fetchone()[0])
    import psycopg

    with psycopg.connect(db) as conn:
        found = conn.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'inbox%'").fetchone()
        assert found is not None
        return int(found[0])


@pytest.mark.parametrize("version", [1, 99])
async def test_tables_of_another_version_are_left_alone_and_told(site: Site, shop: Shop, version: int):
    if version == 1 and site.db.startswith("postgres"):
        version = 98  # there is no older one yet
    await asyncio.to_thread(_set_version, site.db, version)

    answers = [await site.call("GET", "inbox"), await site.call("POST", "inbox/1/replay")]

    assert {(one.status, one.code) for one in answers} == {(503, "inbox_refused")}
    assert f"schema {version}" in answers[0].json["detail"]
    assert (await site.call("GET", "events")).status == 200


def _set_version(db: str, version: int) -> None:
    if db.startswith("sqlite"):
        with closing(sqlite3.connect(db.removeprefix("sqlite:///"))) as conn, conn:
            conn.execute("UPDATE hooklane_schema SET version = ? WHERE component = 'inbox'", (version,))
        return
    import psycopg

    with psycopg.connect(db) as conn:
        conn.execute("UPDATE hooklane.schema SET version = %s WHERE component = 'inbox'", (version,))


# Looking


async def test_what_was_received_is_listed_with_what_each_handler_made_of_it(site: Site, shop: Shop, dead: str):
    [item] = (await site.get("inbox"))["items"]

    received_at = item.pop("received_at")
    assert item == {
        "id": dead,
        "source": "hooklane",
        "account": "default",
        "event_id": "evt_1",
        "type": "order.paid",
        "key": "A",
        "seq": 1,
        "status": "dead",
        "attempts": 1,
        "copies": 1,
        "next_at": None,
        "error": "Reject: unknown sku",
        "handlers": [
            {"handler": "order", "status": "dead", "attempts": 1, "next_at": None, "error": "Reject: unknown sku"},
            {"handler": "ship", "status": "completed", "attempts": 1, "next_at": None, "error": None},
        ],
    }
    assert received_at.endswith("Z")


async def test_a_list_is_narrowed_by_each_filter_and_goes_on_with_its_cursor(site: Site, shop: Shop):
    for number in range(60):
        shop.receive(f"evt_{number:02}", type="order.paid" if number % 2 else "user.left", key=f"k{number % 3}", seq=1)

    async def ids(query: str) -> list[str]:
        return [item["event_id"] for item in (await site.get(f"inbox?limit=200&{query}"))["items"]]

    first = await site.get("inbox?type=order.paid&limit=29")
    second = await site.get(f"inbox?type=order.paid&limit=29&cursor={first['next']}")
    borders = [len((await site.get(f"inbox?limit={limit}"))["items"]) for limit in (24, 25, 26, 60)]

    paid = [f"evt_{number:02}" for number in range(1, 60, 2)]
    assert [item["event_id"] for item in first["items"] + second["items"]] == paid
    assert (len(second["items"]), second["next"]) == (1, None)
    assert borders == [24, 25, 26, 60]
    assert (await site.get("inbox?limit=60"))["next"] is None
    assert await ids("status=pending") == paid
    assert len(await ids("status=ignored")) == 30
    assert len(await ids("key=k0")) == 20
    assert await ids("event_id=evt_07") == ["evt_07"]
    assert await ids("handler=ship") == paid
    assert await ids("source=stripe") == await ids("account=acme") == await ids("status=dead") == []
    assert await ids("after=2100-01-01T00:00:00Z") == await ids("before=2000-01-01T00:00:00Z") == []
    newest = await site.get("inbox?type=order.paid&limit=29&order=newest")
    rest = await site.get(f"inbox?type=order.paid&limit=29&order=newest&cursor={newest['next']}")
    assert [item["event_id"] for item in newest["items"] + rest["items"]] == paid[::-1]
    assert rest["next"] is None
    other = await site.call("GET", f"inbox?type=order.paid&cursor={newest['next']}")
    assert other.code == "invalid_cursor", "a cursor goes on in its own direction"


async def test_a_wrong_question_is_told(api: Any):
    wrong = [
        *("inbox?status=gone", "inbox?limit=0", "inbox?after=yesterday", "inbox?nobody=1", "inbox?source=a%00b"),
        *("dead-letters?side=nowhere", "dead-letters?side=inbox&endpoint=ep_1", "dead-letters?source=stripe"),
        *("dead-letters?side=sender&account=acme", "inbox?order=random"),
    ]
    told = {query: (await api.call("GET", f"/api/v1/{query}")).code for query in wrong}
    cursors = [await api.call("GET", f"/api/v1/{list}cursor=17") for list in ("inbox?", "dead-letters?side=inbox&")]

    assert told == dict.fromkeys(wrong, "invalid_parameter")
    assert {one.code for one in cursors} == {"invalid_cursor"}


async def test_a_row_is_shown_with_its_payload_headers_error_and_traceback(site: Site, shop: Shop, dead: str):
    shown = await site.get(f"inbox/{dead}")

    order, ship = shown["handlers"]
    assert (shown["payload_encoding"], shown["payload"]["data"], shown["purged"]) == ("json", {"sku": 7}, False)
    assert {header["name"] for header in shown["headers"]} >= {"webhook-id", "content-type"}
    assert order["error"].startswith("Reject: unknown sku\nsecond line")
    assert "Traceback" in order["traceback"]
    assert (ship["traceback"], ship["leased_until"]) == (None, None)


async def test_a_payload_that_is_not_json_comes_as_base64(site: Site, shop: Shop):
    body = b"\xff\x00not json"
    insert(shop.inbox, "evt_raw", body=body)

    [row] = (await site.get("inbox?event_id=evt_raw"))["items"]
    shown = await site.get(f"inbox/{row['id']}")

    assert shown["payload_encoding"] == "base64"
    assert base64.b64decode(shown["payload"]) == body


async def test_a_credential_among_the_headers_is_never_shown(site: Site, shop: Shop):
    insert(shop.inbox, "evt_1", headers=(("Authorization", "Basic hunter2"), ("X-Shop-Token", "hunter2"), ("A", "b")))

    [row] = (await site.get("inbox"))["items"]
    shown = await site.call("GET", f"inbox/{row['id']}")

    assert b"hunter2" not in shown.body
    assert shown.json["headers"][-1] == {"name": "A", "value": "b"}


async def test_the_figures_tell_what_is_owed_and_since_when(site: Site, shop: Shop, dead: str):
    shop.receive("evt_2")

    stats = await site.get("inbox/stats")

    assert stats["store"] == site.db.partition(":")[0]
    assert {word: many for word, many in stats["statuses"].items() if many} == {"dead": 1, "completed": 1, "pending": 1}
    assert set(stats["statuses"]) == {str(status) for status in Status}
    assert stats["sources"] == {"hooklane": {"dead": 1, "completed": 1, "pending": 1}}
    assert (stats["dead"], stats["owed"]) == (1, 1)
    assert stats["lag_ms"] >= 0
    assert stats["oldest_owed_at"] == (await site.get("inbox?event_id=evt_2"))["items"][0]["received_at"]


async def test_a_row_of_another_account_is_not_found_as_if_it_were_not_there(site: Site, shop: Shop):
    insert(shop.inbox, "evt_1", account="acme")
    [row] = (await site.get("inbox?account=acme"))["items"]

    strange = [
        await site.call("GET", f"inbox/{row['id']}?account=other"),
        await site.call("POST", f"inbox/{row['id']}/replay?account=other"),
        *[await site.call("GET", f"inbox/{id}") for id in ("999999", "0", "01", "-1", "1.0", "x", "9" * 30, "%D9%A1")],
    ]

    assert (await site.call("GET", f"inbox/{row['id']}?account=acme")).json["account"] == "acme"
    assert {one.body for one in strange} == {(await site.call("GET", "inbox/999999")).body}


async def test_nobody_reads_the_inbox_without_the_key(site: Site, shop: Shop, dead: str):
    paths = ["inbox", "inbox/stats", f"inbox/{dead}", "dead-letters?side=inbox", f"dead-letters/{dead}"]
    async with Connection(site.api.port) as stranger:
        answers = [await stranger.call("GET", f"/api/v1/{path}") for path in paths]
        answers.append(await stranger.call("POST", f"/api/v1/inbox/{dead}/replay"))

    assert {(one.status, one.code) for one in answers} == {(401, "unauthorized")}


async def test_reading_goes_on_while_a_handler_holds_the_database(site: Site, shop: Shop, dead: str):
    session = shop.inbox.store.begin()
    try:
        answers = [await site.call("GET", path) for path in ("inbox", "inbox/stats", "dead-letters?side=inbox")]
    finally:
        session.close()

    assert {one.status for one in answers} == {200}


async def test_what_a_source_keeps_of_a_request_holds_no_secret(site: Site, shop: Shop):
    shop.inbox.receive(signed_bytes("evt_1", b'{"type": "order.created", "data": {}}'))

    [row] = (await site.get("inbox"))["items"]
    shown = await site.call("GET", f"inbox/{row['id']}")

    assert shown.status == 200
    assert b"whsec_" not in shown.body


async def test_the_sources_of_the_inbox_tell_what_came_of_what_they_received(site: Site, shop: Shop, dead: str):
    shop.receive("evt_2", type="order.created", data={}, key="B", seq=1)
    shop.receive("evt_2", type="order.created", data={}, key="B", seq=1)
    shop.inbox.run_once()
    shop.inbox.stats()  # which writes what it has counted

    async def told() -> Any:
        [one] = (await site.get("inbox/sources"))["items"]
        return one if one["applied"] >= 2 else None

    one = await eventually(told)
    assert (one["source"], one["live"], one["dead"], one["rejected"]) == ("hooklane", False, 1, None)
    assert one["duplicate"] == 1
    assert one["received"] >= 3


def test_a_source_that_forgets_ids_before_its_sender_gives_up_has_a_warning():
    day = 86_400_000
    short, long = reversed(source_views((), {}, {}, {}, {"short": (2 * day, 3 * day), "long": (30 * day, 3 * day)}))

    assert (short["source"], short["sender_retries_s"], long["warning"]) == ("short", 259_200, None)
    assert short["warning"] == (
        "ids are kept 2 d, but the sender retries for 3 d: a late copy would be taken for a new event"
    )


async def test_a_dry_run_tells_what_a_replay_would_do_and_does_nothing(site: Site, shop: Shop, dead: str):
    dry = await site.call("POST", f"inbox/{dead}/replay?dry_run=1", {"handler": "order"})
    after = await site.get(f"inbox/{dead}")

    assert (dry.status, dry.json["replayed"], dry.json["dry_run"]) == (200, 1, True)
    assert after["status"] == "dead"
    assert await site.acts_on(dead) == []
    assert (await site.call("POST", f"inbox/{dead}/replay?dry_run=2")).code == "invalid_parameter"


async def test_a_conflict_leads_to_the_first_receipt_of_its_id(site: Site, shop: Shop):
    shop.receive("evt_1", type="order.created", data={"n": 1})
    insert(shop.inbox, "evt_1", variant="other", status=Status.CONFLICT)

    rows = (await site.get("inbox"))["items"]
    second = await site.get(f"inbox/{rows[1]['id']}")

    assert second["first_receipt"]["id"] == rows[0]["id"]
    assert (await site.get(f"inbox/{rows[0]['id']}"))["first_receipt"] is None
