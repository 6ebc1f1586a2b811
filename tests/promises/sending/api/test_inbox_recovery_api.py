"""Recovery of the receiver's side over HTTP: replay, dead letters and skips of an application's inbox."""

import asyncio
import json
from typing import Any

import pytest
from tests.promises.receiving.kit import SECRET
from tests.promises.sending.api.inbox_site import Shop, Site, insert, run

from hooklane.errors import Reject
from hooklane.model.inbox import NewHandling
from hooklane.model.message import Status

PAIRS = 20

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
    far = NewHandling(handler="order", status=Status.IN_PROGRESS, due_at=shop.inbox.clock() + 60_000, fence=1)
    insert(shop.inbox, "busy", handlings=(far,))
    settled = NewHandling(handler="order", status=Status.COMPLETED, attempts=1)
    insert(shop.inbox, "purged", handlings=(settled,))
    run(shop.inbox, shop.inbox.store.purge(before=shop.inbox.clock() + 1, source="hooklane", limit=100))

    busy, purged = (await site.get("inbox"))["items"]
    answers = [await site.call("POST", f"inbox/{one['id']}/replay") for one in (busy, purged)]

    assert [(one.status, one.code) for one in answers] == [(409, "in_progress"), (409, "payload_purged")]
    assert (await site.get(f"inbox/{purged['id']}"))["payload"] is None
    assert await site.acts() == []


async def test_what_no_handler_has_or_was_applied_in_sequence_is_not_replayed(site: Site, shop: Shop):
    insert(shop.inbox, "ignored", status=Status.IGNORED)
    done = NewHandling(handler="order", status=Status.COMPLETED, key="A", seq=1, prev_seq=0, attempts=1)
    insert(shop.inbox, "past", handlings=(done,))

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
        dead, "inbox", "hooklane", "Reject: unknown sku",
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


@pytest.mark.parametrize("path", ["dead-letters", "inbox"])
async def test_of_a_skip_and_a_replay_at_the_same_moment_one_is_done_and_the_other_is_refused(
    site: Site, shop: Shop, path: str
):
    """Both answered 200 once, and the handler ran although the skip was promised."""
    shop.broken = True
    for number in range(PAIRS):
        shop.receive(f"evt_{number}")
    shop.inbox.run_once()
    letters = (await site.get(f"dead-letters?side=inbox&limit={PAIRS}"))["items"]
    assert len(letters) == PAIRS
    shop.broken, shop.seen = False, []

    skipped = set()
    async with site.api.connect() as first, site.api.connect() as second:
        for letter in letters:
            skip, replay = await asyncio.gather(
                first.call("POST", f"/api/v1/dead-letters/{letter['id']}/skip", {"note": "known"}),
                second.call("POST", f"/api/v1/{path}/{letter['id']}/replay"),
            )
            if path == "inbox" and skip.status == replay.status == 200:  # what was skipped before may be replayed
                assert await site.acts_on(letter["id"]) == ["inbox.skipped", "inbox.replayed"]
                continue
            assert sorted((skip.status, replay.status)) == [200, 409], (skip, replay)
            if skip.status == 200:
                skipped.add(letter["event"])

    shop.inbox.run_once()
    assert set(shop.seen) == {letter["event"] for letter in letters} - skipped
    for letter in letters:
        status = (await site.get(f"inbox/{letter['id']}"))["status"]
        assert status == ("ignored" if letter["event"] in skipped else "completed")


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


async def test_a_letter_that_no_handler_could_be_given_is_given_up_once(site: Site, shop: Shop):
    insert(shop.inbox, "poison", status=Status.DEAD)
    (letter,) = (await site.get("dead-letters?side=inbox"))["items"]

    answers = [await site.call("POST", f"dead-letters/{letter['id']}/skip", {"note": "garbage"}) for _ in range(2)]

    assert [one.status for one in answers] == [200, 409]
    assert answers[1].code == "not_dead"
    (row,) = (await site.get("inbox"))["items"]
    assert (row["status"], (await site.get("dead-letters?side=inbox"))["items"]) == ("ignored", [])


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
