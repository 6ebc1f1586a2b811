"""A PostgreSQL outbox, an endpoint in it, and connections to step through what others do at the same time."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from tests.support.steps import Steps

from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.testing.conformance_outbox.kit import endpoint


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresOutbox]:
    store = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    yield store
    await store.close()


@pytest.fixture
async def conn(postgres_url: str, store: PostgresOutbox) -> AsyncIterator[asyncpg.Connection]:
    """The connection of another application."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
async def steps(postgres_url: str, store: PostgresOutbox) -> AsyncIterator[Steps]:
    """Flows that are run statement by statement, each in a transaction on a connection of its own."""
    async with Steps(postgres_url) as steps:
        yield steps
