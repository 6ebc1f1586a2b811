"""The receiver's side over HTTP: an application's inbox in the database of the server."""

import asyncio
import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Api
from tests.inbox.kit import SECRET, own_source, sealed, signed
from tests.support.http_client import Answer, Connection

from hooklane.errors import Reject
from hooklane.model.inbox import NewHandling, NewRow
from hooklane.model.message import Message, Status
from hooklane.receiver import Inbox
from hooklane.receiver.drive import transaction
from hooklane.receiver.runner import Run


@dataclass
class Site:
    """A server and its database."""

    db: str
    api: Api

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.api.call(method, f"/api/v1/{path}", body, headers)

    async def get(self, path: str) -> Any:
        answer = await self.call("GET", path)
        assert answer.status == 200, answer
        return answer.json

    async def acts(self) -> list[tuple[str, str, str]]:
        lines = (await self.get("audit"))["items"]
        return [(line["action"], line["subject"], line["note"]) for line in lines]


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/both.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def site(db: str, start: Any) -> Site:
    return Site(db, await start(db=db))


class Shop:
    """The application: its handlers do as they are told."""

    def __init__(self, db: str) -> None:
        self.inbox = Inbox(db)
        self.broken = False
        self.seen: list[str] = []
        source = own_source(self.inbox)

        @source.on("order.*", order="none", name="order")
        def order(event: Any, tx: Any) -> None:
            self.seen.append(event.id)
            if self.broken:
                raise Reject("unknown sku\nsecond line")

        @source.on("order.paid", order="none", name="ship")
        def ship(event: Any, tx: Any) -> None:
            self.seen.append(f"{event.id} shipped")

    def receive(self, event_id: str, **options: Any) -> None:
        reply = self.inbox.receive(signed(event_id, **options))
        assert reply.status == 200, reply


@pytest.fixture
def shop(site: Site) -> Iterator[Shop]:
    made = Shop(site.db)
    yield made
    made.inbox.close()


@pytest.fixture
def dead(shop: Shop) -> str:
    """The id of a row that one of its two handlers has rejected."""
    shop.receive("evt_1", type="order.paid", data={"sku": 7}, key="A", seq=1)
    shop.broken = True
    shop.inbox.run_once()
    shop.broken = False
    shop.seen.clear()
    return str(shop.inbox.rows(source="hooklane")[0].id)


# Without an inbox


async def test_without_an_inbox_lists_are_empty_ids_unknown_and_no_table_is_made(site: Site):
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
    assert {one.body for one in unknown} == {(await site.call("GET", "endpoints/ep_nobody")).body}
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
        "tenant": "default",
        "event_id": "evt_1",
        "type": "order.paid",
        "key": "A",
        "seq": 1,
        "status": "dead",
        "attempts": 1,
        "copies": 1,
        "next_at": None,
        "error": "unknown sku",
        "handlers": [
            {"handler": "order", "status": "dead", "attempts": 1, "next_at": None, "error": "unknown sku"},
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
    assert await ids("source=stripe") == await ids("tenant=acme") == await ids("status=dead") == []
    assert await ids("after=2100-01-01T00:00:00Z") == await ids("before=2000-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("inbox?status=gone", "invalid_parameter"),
        ("inbox?limit=0", "invalid_parameter"),
        ("inbox?after=yesterday", "invalid_parameter"),
        ("inbox?nobody=1", "invalid_parameter"),
        ("inbox?source=a%00b", "invalid_parameter"),
        ("inbox?cursor=17", "invalid_cursor"),
        ("dead-letters?side=nowhere", "invalid_parameter"),
        ("dead-letters?side=inbox&endpoint=ep_1", "invalid_parameter"),
        ("dead-letters?side=sender&source=stripe", "invalid_parameter"),
        ("dead-letters?source=stripe", "invalid_parameter"),
        ("dead-letters?side=inbox&cursor=17", "invalid_cursor"),
    ],
)
async def test_a_wrong_question_is_told(api: Any, query: str, code: str):
    assert (await api.call("GET", f"/api/v1/{query}")).code == code


async def test_a_row_is_shown_with_its_payload_headers_error_and_traceback(site: Site, shop: Shop, dead: str):
    shown = await site.get(f"inbox/{dead}")

    order, ship = shown["handlers"]
    assert (shown["payload_encoding"], shown["payload"]["data"], shown["purged"]) == ("json", {"sku": 7}, False)
    assert {header["name"] for header in shown["headers"]} >= {"webhook-id", "content-type"}
    assert order["error"].startswith("unknown sku\nsecond line")
    assert "Traceback" in order["traceback"]
    assert (ship["traceback"], ship["leased_until"]) == (None, None)


async def test_a_payload_that_is_not_json_comes_as_base64(site: Site, shop: Shop):
    body = b"\xff\x00not json"
    _insert(shop.inbox, "evt_raw", body=body)

    [row] = (await site.get("inbox?event_id=evt_raw"))["items"]
    shown = await site.get(f"inbox/{row['id']}")

    assert shown["payload_encoding"] == "base64"
    assert base64.b64decode(shown["payload"]) == body


async def test_a_credential_among_the_headers_is_never_shown(site: Site, shop: Shop):
    _insert(shop.inbox, "evt_1", headers=(("Authorization", "Basic hunter2"), ("X-Shop-Token", "hunter2"), ("A", "b")))

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


async def test_a_row_of_another_tenant_is_not_found_as_if_it_were_not_there(site: Site, shop: Shop):
    _insert(shop.inbox, "evt_1", tenant="acme")
    [row] = (await site.get("inbox?tenant=acme"))["items"]

    strange = [
        await site.call("GET", f"inbox/{row['id']}?tenant=other"),
        await site.call("POST", f"inbox/{row['id']}/replay?tenant=other"),
        *[await site.call("GET", f"inbox/{id}") for id in ("999999", "0", "01", "-1", "1.0", "x", "9" * 30, "%D9%A1")],
    ]

    assert (await site.call("GET", f"inbox/{row['id']}?tenant=acme")).json["tenant"] == "acme"
    assert {one.body for one in strange} == {(await site.call("GET", "events/evt_nobody")).body}


async def test_nobody_reads_the_inbox_without_the_key(site: Site, shop: Shop, dead: str):
    paths = ["inbox", "inbox/stats", f"inbox/{dead}", "dead-letters?side=inbox", f"dead-letters/{dead}"]
    async with Connection(site.api.port) as stranger:
        answers = [await stranger.call("GET", f"/api/v1/{path}") for path in paths]
        answers.append(await stranger.call("POST", f"/api/v1/inbox/{dead}/replay"))

    assert {(one.status, one.code) for one in answers} == {(401, "unauthorized")}


# Mending


async def test_a_replayed_row_is_run_again_by_the_application_and_is_on_record(site: Site, shop: Shop, dead: str):
    answer = await site.call("POST", f"inbox/{dead}/replay")
    owed = (await site.get(f"inbox/{dead}"))["status"]
    shop.inbox.run_once()

    assert (answer.status, answer.json["replayed"], answer.json["event_id"]) == (200, 2, "evt_1")
    assert owed == "pending"
    assert sorted(shop.seen) == ["evt_1", "evt_1 shipped"]
    assert (await site.get(f"inbox/{dead}"))["status"] == "completed"
    assert await site.acts() == [("inbox.replayed", dead, "hooklane evt_1")]
    assert (await site.get("audit/verify"))["whole"]


async def test_a_replay_can_be_for_one_handler(site: Site, shop: Shop, dead: str):
    answer = await site.call("POST", f"inbox/{dead}/replay", {"handler": "ship"})
    unknown = await site.call("POST", f"inbox/{dead}/replay", {"handler": "nobody"})
    wrong = await site.call("POST", f"inbox/{dead}/replay", {"handlers": []})
    shop.inbox.run_once()

    assert answer.json["replayed"] == 1
    assert shop.seen == ["evt_1 shipped"]
    assert (unknown.code, wrong.code) == ("wrong_state", "invalid_body")


async def test_what_cannot_be_replayed_is_refused_with_a_reason_and_not_on_record(site: Site, shop: Shop):
    _insert(shop.inbox, "ignored", status=Status.IGNORED)
    far = NewHandling(handler="order", status=Status.IN_PROGRESS, due_at=shop.inbox.clock() + 60_000, fence=1)
    _insert(shop.inbox, "busy", handlings=(far,))
    done = NewHandling(handler="order", status=Status.COMPLETED, key="A", seq=1, prev_seq=0, attempts=1)
    _insert(shop.inbox, "past", handlings=(done,))
    settled = NewHandling(handler="order", status=Status.COMPLETED, attempts=1)
    _insert(shop.inbox, "purged", handlings=(settled,))
    purge = shop.inbox.store.purge
    old = [row.id for row in shop.inbox.rows(event_id="purged")]
    _run(shop.inbox, purge(before=shop.inbox.clock() + 1, source="hooklane", limit=100))

    codes = {}
    for row in (await site.get("inbox"))["items"]:
        codes[row["event_id"]] = (await site.call("POST", f"inbox/{row['id']}/replay")).code

    assert codes["busy"] == "in_progress"
    assert codes["purged"] == "payload_purged"
    assert (await site.get(f"inbox/{old[0]}"))["payload"] is None
    assert await site.acts() == []


async def test_what_no_handler_has_or_was_applied_in_sequence_is_not_replayed(site: Site, shop: Shop):
    _insert(shop.inbox, "ignored", status=Status.IGNORED)
    done = NewHandling(handler="order", status=Status.COMPLETED, key="A", seq=1, prev_seq=0, attempts=1)
    _insert(shop.inbox, "past", handlings=(done,))

    answers = [await site.call("POST", f"inbox/{row['id']}/replay") for row in (await site.get("inbox"))["items"]]

    assert {(one.status, one.code) for one in answers} == {(409, "wrong_state")}
    assert [row["status"] for row in (await site.get("inbox"))["items"]] == ["ignored", "completed"]


# Dead letters


async def test_dead_rows_are_letters_of_the_inbox_in_pages_and_as_lines(site: Site, shop: Shop, dead: str):
    shop.receive("evt_2")
    shop.broken = True
    shop.receive("evt_3")
    shop.inbox.run_once()

    first = await site.get("dead-letters?side=inbox&limit=2")
    rest = await site.get(f"dead-letters?side=inbox&limit=2&cursor={first['next']}")
    lines = await site.call("GET", "dead-letters?side=inbox", accept="application/x-ndjson")

    told = [json.loads(line) for line in lines.body.splitlines()]
    letter = first["items"][0]
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [one["event"] for one in first["items"] + rest["items"]] == ["evt_1", "evt_2", "evt_3"]
    assert told == first["items"] + rest["items"]
    assert (letter["id"], letter["side"], letter["source"], letter["reason"]) == (
        dead, "inbox", "hooklane", "unknown sku",
    )  # fmt: skip
    assert (letter["key"], letter["seq"], letter["attempts"], letter["note"]) == ("A", 1, 1, "")
    assert (await site.get("dead-letters?side=inbox&source=stripe"))["items"] == []
    assert (await site.get("dead-letters"))["items"] == []


async def test_a_dead_letter_is_shown_and_owed_again_to_whoever_gave_it_up(site: Site, shop: Shop, dead: str):
    shown = await site.get(f"dead-letters/{dead}")
    answer = await site.call("POST", f"dead-letters/{dead}/replay")
    again = await site.call("POST", f"dead-letters/{dead}/replay")
    shop.inbox.run_once()

    assert (shown["side"], shown["payload"]["data"]) == ("inbox", {"sku": 7})
    assert (answer.status, answer.json["replayed"]) == (200, 1)
    assert (again.status, again.code) == (409, "not_dead")
    assert shop.seen == ["evt_1"]
    assert (await site.call("GET", f"dead-letters/{dead}")).status == 404
    assert await site.acts() == [("inbox.replayed", dead, "hooklane evt_1")]


async def test_a_skip_needs_a_note_gives_up_what_died_and_is_on_record(site: Site, shop: Shop, dead: str):
    without = await site.call("POST", f"dead-letters/{dead}/skip", {})
    answer = await site.call("POST", f"dead-letters/{dead}/skip", {"note": "the sku is gone"})
    shown = await site.get(f"inbox/{dead}")

    assert without.code == "note_required"
    assert (answer.status, answer.json["skipped"]) == (200, 1)
    assert [(each["status"], each["error"]) for each in shown["handlers"]] == [
        ("ignored", "skipped: the sku is gone"),
        ("completed", None),
    ]
    assert await site.acts() == [("inbox.skipped", dead, "the sku is gone")]
    assert (await site.call("POST", f"dead-letters/{dead}/skip", {"note": "x"})).code == "not_dead"


async def test_a_letter_of_the_inbox_takes_no_note(site: Site, shop: Shop, dead: str):
    noted = await site.call("PATCH", f"dead-letters/{dead}", {"note": "x"})
    unknown = await site.call("PATCH", "dead-letters/999999", {"note": "x"})

    assert (noted.status, noted.code) == (422, "wrong_side")
    assert (unknown.status, unknown.code) == (404, "not_found")


async def test_a_skip_lets_the_key_behind_it_go_on(site: Site, shop: Shop):
    seen: list[int] = []
    other = shop.inbox.source("other", [SECRET], profile="hooklane")

    @other.on("*", order="sequence", name="apply")
    def apply(event: Any, tx: Any) -> None:
        if event.seq == 1:
            raise Reject("poison")
        seen.append(event.seq)

    for seq in (1, 2):
        shop.receive(f"evt_{seq}", source="other", key="A", seq=seq)
    shop.inbox.run_once()
    [letter] = (await site.get("dead-letters?side=inbox"))["items"]
    held = list(seen)

    await site.call("POST", f"dead-letters/{letter['id']}/skip", {"note": "poison"})
    shop.inbox.run_once()

    assert (held, seen) == ([], [2])


async def test_reading_goes_on_while_a_handler_holds_the_database(site: Site, shop: Shop, dead: str):
    session = shop.inbox.store.begin()
    try:
        answers = [await site.call("GET", path) for path in ("inbox", "inbox/stats", "dead-letters?side=inbox")]
    finally:
        session.close()

    assert {one.status for one in answers} == {200}


async def test_what_a_source_keeps_of_a_request_holds_no_secret(site: Site, shop: Shop):
    shop.inbox.receive(sealed("evt_1", b'{"type": "order.created", "data": {}}'))

    [row] = (await site.get("inbox"))["items"]
    shown = await site.call("GET", f"inbox/{row['id']}")

    assert shown.status == 200
    assert b"whsec_" not in shown.body


# Helpers


def _insert(inbox: Inbox, event_id: str, **fields: Any) -> None:
    of_row = {name: fields.pop(name) for name in ("status", "headers", "handlings") if name in fields}
    message = Message(**{"source": "hooklane", "event_id": event_id, "type": "order.created", "body": b"{}", **fields})
    _run(inbox, inbox.store.insert([NewRow(message=message, received_at=inbox.clock(), **of_row)]))


def _run(inbox: Inbox, flow: Any) -> Any:
    def plan() -> Any:
        return (yield Run(transaction(flow)))

    return inbox.runner.run(plan())
