"""What one key was sent is found without a look at what all the others were, in searches and in plans."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hooklane.cli.main import run
from hooklane.core.fanout import places
from hooklane.model.endpoint import Order
from hooklane.model.lane import DeliveryState
from hooklane.store import budget
from hooklane.store.dashboard import EventSearch
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.store.recovery import Wanted
from hooklane.store.sqlite.outbox.statements import SQL
from hooklane.testing.conformance_outbox.kit import Owner, endpoint, event, published
from hooklane.testing.conformance_recovery.kit import Store, all_members

DELIVERED = DeliveryState.DELIVERED


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    # A search may look at ten rows, so that a hundred are too many for one page.
    monkeypatch.setattr(budget, "ROWS_MIN", 10)
    monkeypatch.setattr(budget, "ROWS_MAX", 10)
    if request.param == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('tmp_path') / 'outbox.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
    store = outbox_store(url, StoreOptions(placer=places))
    await store.open()
    yield store  # type: ignore[misc]
    await store.close()


async def deliver_all(store: Store) -> None:
    """A hundred events of other keys, three of the key `mine` among them, each delivered where it stands in a lane."""
    events = [event(f"e{n:03d}", "mine" if n in (20, 50, 80) else f"other {n}") for n in range(103)]
    report = await published(store, *events)
    owner = await Owner.of(store)
    for grown in report.grown:
        if grown.lane_id > 0:
            await owner.deliver(grown.lane_id)


async def test_what_a_key_was_sent_is_one_page_of_a_plan_and_of_a_search(store: Store) -> None:
    await store.save_endpoint(endpoint("ep_a"), expect=None)
    await deliver_all(store)

    for at in (None, "ep_a"):
        page = await store.select("default", Wanted(state=DELIVERED, key="mine", endpoint_id=at), None, 100)
        assert ([one.event_id for one in page.items], page.next) == (["e020", "e050", "e080"], None)
    events = await store.events("default", EventSearch(key="mine", endpoint_id="ep_a", state=DELIVERED), None, 100)
    assert ([one.id for one in events.items], events.next) == (["e080", "e050", "e020"], None)

    # Pages go on where the last one ended, and a key that is not there is one page too.
    found = await all_members(store, Wanted(state=DELIVERED, key="mine"), limit=2)
    assert [one.event_id for one in found] == ["e020", "e050", "e080"]
    nothing = await store.select("default", Wanted(state=DELIVERED, key="nobody's", endpoint_id="ep_a"), None, 100)
    assert (list(nothing.items), nothing.next) == ([], None)


@pytest.mark.parametrize("order", [Order.NONE, Order.GLOBAL])
async def test_what_stands_in_no_lane_of_its_key_is_found_as_well(store: Store, order: Order) -> None:
    await store.save_endpoint(endpoint("ep_a"), expect=None)
    await store.save_endpoint(endpoint("ep_b", order=order), expect=None)
    await deliver_all(store)

    seen: list[str] = []
    cursor = None
    for _ in range(100):
        page = await store.events("default", EventSearch(key="mine", endpoint_id="ep_b"), cursor, 100)
        seen += [one.id for one in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == ["e080", "e050", "e020"]
    found = await all_members(store, Wanted(state=DELIVERED, key="mine"))
    assert [one.event_id for one in found if one.endpoint_id == "ep_a"] == ["e020", "e050", "e080"]


def test_a_search_on_sqlite_looks_at_its_window_and_not_at_all_events_of_a_tenant(tmp_path: Path) -> None:
    """The index of tenants was taken for it, in which all events are: each window cost a walk over all of them."""
    path = tmp_path / "outbox.db"
    assert run(["migrate", "up", "--db", f"sqlite:///{path}"]) == 0
    conn = sqlite3.connect(path)
    names = ("fitting_events", "fitting_deliveries", "fitting_deliveries_in_lanes", "select_events")
    for name in (*names, "select_events_in_lanes"):
        values = dict.fromkeys(re.findall(r":(\w+)", SQL[name]), None)
        plan = [line[3] for line in conn.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", values)]
        assert "USING INTEGER PRIMARY KEY" in plan[0], (name, plan)
    conn.close()
