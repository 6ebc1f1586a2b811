"""Fixtures that every test may ask for: real servers, each started when the first test needs it.

`postgres_url` is an empty database for this test alone, on the preferred PostgreSQL; `each_postgres_url` runs the test
once on every PostgreSQL that this machine has. `crash_postgres` is a server of one's own to crash and start again.
"""

from collections.abc import Iterator

import pytest
from tests.support.postgres import Postgres, PostgresServer, installation, installations
from tests.support.postgres import postgres_server as started_postgres
from tests.support.shared import SharedServers, shared

SHARED = pytest.StashKey[SharedServers]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the main process, with or without workers
        config.stash[SHARED] = SharedServers()


def pytest_unconfigure(config: pytest.Config) -> None:
    if servers := config.stash.get(SHARED, None):
        servers.close()


@pytest.fixture(scope="session")
def postgres_server() -> Postgres:
    """The PostgreSQL of this run. Use `fresh_database()` on it for more than one database."""
    return Postgres(**shared("postgres", installation().major))


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """An empty database for this test alone."""
    with postgres_server.fresh_database() as url:
        yield url


# An empty list would skip the tests; 18 makes them fail with the line that says what is missing.
@pytest.fixture(params=[one.major for one in installations()] or [18], ids=lambda major: f"pg{major}")
def each_postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database for this test alone; the test runs once on each PostgreSQL of this machine."""
    with Postgres(**shared("postgres", request.param)).fresh_database() as url:
        yield url


@pytest.fixture
def crash_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of one's own, on disk and with fsync, for tests that crash it."""
    with started_postgres(durable=True) as server:
        yield server
