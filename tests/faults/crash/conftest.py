"""A nursery of servers, a receiver, and a site on SQLite for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.faults.crash.serving import Nursery, Site
from tests.faults.crash.traffic import Client, Receiver


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    nursery = await Nursery.open()
    yield nursery
    await nursery.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def site(nursery: Nursery, tmp_path: Path) -> AsyncIterator[Site]:
    """A SQLite file to serve from."""
    site = Site(nursery, f"sqlite:///{tmp_path}/hooklane.db", tmp_path)
    yield site
    await site.close()


@pytest.fixture
def make_endpoint(receiver: Receiver, site: Site):
    async def make(**options) -> None:
        client = Client(site.port)
        quick = {"backoff_ms": 20, "backoff_cap_ms": 200, **options}
        status, answer = await client.call("POST", "/api/v1/endpoints", {"url": receiver.url, **quick})
        assert status == 201, answer
        client.close()

    return make
