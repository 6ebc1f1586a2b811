"""One Node consumer and one `hooklane serve` for all tests here, and a consumer of one's own to be killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.processes.interop.kit import Consumer, Sender
from tests.support.postgres import Postgres


@pytest.fixture
def own_consumer(tmp_path: Path, postgres_url: str) -> Iterator[Consumer]:
    """A running Node consumer of this test alone, to be killed and started again."""
    with _started(tmp_path, postgres_url) as program:
        yield program


@pytest.fixture(scope="session")
def _lasting_consumer(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Consumer]:
    with postgres_server.fresh_database() as url, _started(tmp_path_factory.mktemp("consumer"), url) as program:
        yield program


@pytest.fixture
def consumer(_lasting_consumer: Consumer) -> Consumer:
    """The running Node consumer of all tests here, which has seen and applied nothing yet."""
    with psycopg.connect(_lasting_consumer.db) as connection:
        connection.execute("TRUNCATE webhook_seen, webhook_lane, account, entry")
    return _lasting_consumer


@contextmanager
def _started(folder: Path, db: str) -> Iterator[Consumer]:
    program = Consumer(folder / "node_consumer", db)
    try:
        program.start()
        yield program
    finally:
        program.close()


@pytest.fixture(scope="session")
def sender(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Sender]:
    """A running `hooklane serve` on PostgreSQL, for all tests here: each has endpoints of its own."""
    with postgres_server.fresh_database() as url:
        program = Sender(url, tmp_path_factory.mktemp("serve") / "serve.log")
        try:
            program.start()
            yield program
        finally:
            program.close()
