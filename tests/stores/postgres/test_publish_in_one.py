"""The publish in one round trip means the same as the longer way, whatever stands in it."""

from __future__ import annotations

from dataclasses import replace

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.fanout import places
from hooklane.store.outbox import Draft, Published, Refused, StoreOptions
from hooklane.store.postgres.literals import numbers, texts
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.store.postgres.outbox.group import DOUBLED
from hooklane.store.postgres.outbox.publish_in_one import OwnCommit
from hooklane.testing.conformance_outbox.kit import Owner, draft, endpoint, event, published

STRANGE = ['"', "\\", '\\"', "{a,b}", "NULL", "", "a,b", "é😀", "'", "%", "$1", " x "]


async def warm(store: PostgresOutbox) -> None:
    """The first publish reads the endpoints, the longer way."""
    await published(store, event("evt_warm", "warm"))


async def test_each_lane_of_a_batch_counts_on_and_each_event_has_its_stamps(store: PostgresOutbox) -> None:
    await store.save_endpoint(endpoint("ep_b", types=("order.paid",)), expect=None)
    await warm(store)
    keys = ["k1", "k2", "k1", "k1", "k3", "k2"]
    types = ["order.paid", "order.created"] * 3

    report = await published(
        store, *(event(f"evt_{n}", key, type=type_) for n, (key, type_) in enumerate(zip(keys, types, strict=True)))
    )

    assert isinstance(report.span, OwnCommit), "it went the longer way"
    grown = [(one.endpoint_id, one.key, one.seq, one.event.id) for one in report.grown if one.event]
    assert [one for one in grown if one[0] == "ep_a"] == [
        *(("ep_a", "k1", 1, "evt_0"), ("ep_a", "k2", 1, "evt_1"), ("ep_a", "k1", 2, "evt_2")),
        *(("ep_a", "k1", 3, "evt_3"), ("ep_a", "k3", 1, "evt_4"), ("ep_a", "k2", 2, "evt_5")),
    ]
    assert [one for one in grown if one[0] == "ep_b"] == [
        ("ep_b", "k1", 1, "evt_0"),
        ("ep_b", "k1", 2, "evt_2"),
        ("ep_b", "k3", 1, "evt_4"),
    ]
    stored = await store.deliveries("default", [f"evt_{n}" for n in range(6)])
    for result in report.results:
        assert isinstance(result, Published)
        assert {(one.endpoint_id, one.seq) for one in stored[result.event_id]} == set(result.stamps)


async def test_keys_of_any_spelling_come_back_as_they_are(store: PostgresOutbox) -> None:
    await warm(store)
    keys = [key or "empty" for key in STRANGE]

    report = await published(store, *(event(f"evt_{n}", key) for n, key in enumerate(keys)))

    assert isinstance(report.span, OwnCommit)
    assert [one.key for one in report.grown] == keys
    for n, key in enumerate(keys):
        found = await store.event("default", f"evt_{n}")
        assert found is not None
        assert found.key == key


async def test_a_batch_with_nobody_to_get_it_is_stored_all_the_same(store: PostgresOutbox) -> None:
    await store.save_endpoint(endpoint(types=("never",)), expect=endpoint())
    await warm(store)

    report = await published(store, event("evt_1"), event("evt_2", None))

    assert isinstance(report.span, OwnCommit)
    assert (report.grown, [result.stamps for result in report.results]) == ([], [(), ()])
    assert await store.event("default", "evt_2") is not None


async def test_an_endpoint_made_meanwhile_gets_its_event(store: PostgresOutbox, postgres_url: str) -> None:
    await warm(store)
    other = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await other.open()
    await other.save_endpoint(endpoint("ep_new"), expect=None)
    await other.close()

    report = await store.publish([draft(event("evt_1")), draft(event("evt_2"), asked=("ep_new",))])

    assert [(one.endpoint_id, one.seq) for one in report.grown] == [("ep_a", 1), ("ep_new", 1), ("ep_new", 2)]


async def test_a_refused_draft_leaves_no_trace_and_stops_no_other(store: PostgresOutbox) -> None:
    await warm(store)

    report = await store.publish([draft(event("evt_1")), draft(event("evt_2"), asked=("ep_x",)), draft(event("evt_3"))])

    assert isinstance(report.span, OwnCommit)
    assert isinstance(report.results[1], Refused)
    assert [(one.seq, one.event.id) for one in report.grown if one.event] == [(1, "evt_1"), (2, "evt_3")]
    assert await store.event("default", "evt_2") is None


async def test_a_whole_batch_takes_one_round_trip_unless_one_is_refused(store: PostgresOutbox) -> None:
    await warm(store)
    refused = replace(draft(event("evt_2", "b")), asked=("ep_unknown",))

    whole = await store.publish_all([draft(event("evt_0", "a")), draft(event("evt_1", "a"))])
    none = await store.publish_all([draft(event("evt_3", "c")), refused])
    named = await store.publish_all([draft(event("evt_4", "d"), "name")])
    again = await store.publish_all([draft(event("evt_5", "d"), "name")])

    assert isinstance(whole.span, OwnCommit), "it went the longer way"
    assert isinstance(named.span, OwnCommit)
    assert [one.seq for one in whole.grown] == [1, 2]
    assert all(isinstance(one, Refused) for one in none.results)
    assert not await store.deliveries("default", ["evt_3"])
    assert [one.code for one in again.results if isinstance(one, Refused)] == ["idempotency_conflict"]


async def test_a_poll_passes_over_what_the_engine_was_told_and_over_nothing_else(store: PostgresOutbox) -> None:
    await warm(store)
    owner = await Owner.of(store, "w")
    mark = (await owner.load()).mark
    mine = await published(store, event("evt_mine", "mine"))
    await published(store, event("evt_other", "other"))
    assert mine.span is not None

    news = await store.poll("w", list(owner.epochs), mine.span.past(mark))

    assert [one.key for one in news.grown] == ["other"]


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))))
def test_texts_are_never_read_as_something_else(values: list[str | None]) -> None:
    """Read as PostgreSQL reads an array: elements apart by commas, quoted ones with backslashes."""
    assert read(texts(values)) == values


def read(literal: str) -> list[str | None]:
    found: list[str | None] = []
    at, text = 1, literal
    while text[at] != "}":
        if text[at] == ",":
            at += 1
        if text.startswith("NULL", at):
            found.append(None)
            at += 4
            continue
        assert text[at] == '"'
        at, letters = at + 1, []
        while text[at] != '"':
            at += text[at] == "\\"
            letters.append(text[at])
            at += 1
        found.append("".join(letters))
        at += 1
    return found


async def test_the_database_reads_the_literals_as_they_were_meant(conn: asyncpg.Connection) -> None:
    values = [*STRANGE, None]
    assert await conn.fetchval("SELECT $1::text::text[]", texts(values)) == values
    assert await conn.fetchval("SELECT $1::text::int[]", numbers([1, None, -3])) == [1, None, -3]
    assert await conn.fetchval("SELECT $1::text::float8[]", numbers([0.1, 1e-7, 2.5e9, 3])) == [0.1, 1e-7, 2.5e9, 3.0]
    assert await conn.fetchval("SELECT $1::text::bigint[]", numbers([])) == []
    assert await conn.fetchval("SELECT $1::text::text[]", texts([])) == []


def test_a_nul_is_refused_and_not_taken_for_a_border() -> None:
    with pytest.raises(ValueError, match="NUL"):
        texts(["a\0b", "c"])


def named(id: str, name: str, digest: bytes = b"d" * 32, key: str = "k1") -> Draft:
    return Draft(event(id, key), None, (name,), digest)


async def test_names_are_claimed_in_the_same_round_trip(store: PostgresOutbox) -> None:
    await warm(store)
    batch = [named("evt_1", "b", b"1" * 32), draft(event("evt_2", "k1")), named("evt_3", "a", b"")]

    first = await store.publish(batch)
    again = await store.publish([named("evt_4", "a", b""), named("evt_5", "b", b"1" * 32)])
    other = await store.publish([named("evt_6", "b", b"2" * 32)])

    assert isinstance(first.span, OwnCommit), "it went the longer way"
    assert [(one.key, one.seq) for one in first.grown] == [("k1", 1), ("k1", 2), ("k1", 3)]
    assert [replace(first.results[n], repeated=True) for n in (2, 0)] == list(again.results)
    assert again.grown == []
    (refused,) = other.results
    assert isinstance(refused, Refused)
    assert refused.code == "idempotency_conflict"


async def test_a_name_that_is_wanted_twice_in_a_batch_is_given_once(store: PostgresOutbox) -> None:
    await warm(store)

    report = await store.publish([named("evt_1", "a"), named("evt_2", "a"), named("evt_3", "b")])

    first, second, third = report.results
    assert isinstance(first, Published)
    assert (second, third.event_id) == (replace(first, repeated=True), "evt_3")
    assert [one.seq for one in report.grown] == [1, 2]


async def test_where_names_come_twice_others_are_not_tried_in_vain(store: PostgresOutbox) -> None:
    await warm(store)
    await store.publish([named("evt_0", "a")])
    await store.publish([named("evt_1", "a")])

    spans = [(await store.publish([named(f"evt_x{n}", f"x{n}")])).span for n in range(DOUBLED + 1)]
    plain = await published(store, event("evt_plain", "k2"))

    assert [isinstance(span, OwnCommit) for span in spans] == [False] * DOUBLED + [True]
    assert isinstance(plain.span, OwnCommit)


async def test_a_batch_whose_name_is_taken_leaves_no_trace_of_its_first_try(
    store: PostgresOutbox, conn: asyncpg.Connection
) -> None:
    await warm(store)
    await store.publish([named("evt_0", "a")])

    report = await store.publish([draft(event("evt_1", "k1")), named("evt_2", "a", b"other"), named("evt_3", "new")])

    assert [isinstance(one, Published) for one in report.results] == [True, False, True]
    assert [one.seq for one in report.grown] == [2, 3]
    assert await conn.fetchval("SELECT count(*) FROM hooklane.event WHERE key = 'k1'") == 3
    assert await conn.fetchval("SELECT tail FROM hooklane.lane_tail WHERE key = 'k1'") == 3
