"""What became of an event at our own receiver stands in the event's story, where both share a database."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Start
from tests.promises.sending.api.inbox_site import Shop, Site
from tests.support.receiver import Sink
from tests.support.sqlite_files import new_outbox_file


@pytest.fixture(params=["sqlite", "postgresql"])
async def site(request: pytest.FixtureRequest, tmp_path: Path, start: Start) -> Site:
    at = new_outbox_file(tmp_path / "both.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return Site(at, await start(db=at))


async def published(site: Site, sink: Sink) -> str:
    await site.call("POST", "endpoints", {"url": sink.url()})
    answer = await site.call("POST", "events", {"type": "order.paid", "key": "order:1", "data": {}})
    await asyncio.to_thread(sink.wait_for, 1)
    return str(answer.json["id"])


async def outcomes(site: Site, event: str) -> list[tuple[Any, ...]]:
    story = (await site.get(f"events/{event}/story"))["items"]
    return [(one["actor"], one["said"], one["attempt"], one["note"]) for one in story if one["kind"] == "receiver"]


async def test_the_story_of_an_event_ends_with_what_each_handler_of_the_receiver_made_of_it(site: Site, sink: Sink):
    event = await published(site, sink)
    assert await outcomes(site, event) == []
    shop = Shop(site.db)
    shop.broken = True
    await asyncio.to_thread(shop.receive, event, type="order.paid")
    assert sorted(await outcomes(site, event)) == [("order", "pending", 0, None), ("ship", "pending", 0, None)]

    while await asyncio.to_thread(shop.inbox.run_once):
        pass

    assert sorted(await outcomes(site, event)) == [
        ("order", "dead", 1, "Reject: unknown sku"),
        ("ship", "completed", 1, None),
    ]
    await asyncio.to_thread(shop.inbox.close)
