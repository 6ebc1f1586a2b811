"""Fixtures that every test may ask for: real servers, each started when the first test needs it.

`postgres_url` and `redis_url` are databases for this test alone; `each_…_url` runs the test once on every
server of that kind that this machine has; `crash_…` are servers of one's own to crash and start again.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.support import postgres as pg
from tests.support import valkey as vk
from tests.support.alone import Failures
from tests.support.dynamodb import DynamoDB
from tests.support.fork_server import fork
from tests.support.processes import Child
from tests.support.receiver import Sink
from tests.support.running import Running, tell_stacks_on_quit
from tests.support.shared import WITH_TABLES, SharedServers, shared
from tests.support.tree import SOURCE

SHARED = pytest.StashKey[SharedServers]()
EXAMPLES = 20

# How long an example takes, or is thought up, says how busy the machine is. `make soak` tries 15 times as many.
settings.register_profile(
    "hooklane", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=EXAMPLES
)
settings.register_profile("soak", settings.get_profile("hooklane"), max_examples=15 * EXAMPLES)
settings.load_profile("hooklane")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # by nohup; servers that tests start would ignore it as well
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if hasattr(config, "workerinput"):
        tell_stacks_on_quit()
    else:  # the main process, with or without workers
        config.stash[SHARED] = SharedServers()
        config.pluginmanager.register(Running(), "what is running")
        config.pluginmanager.register(Failures(), "what has failed")


def pytest_unconfigure(config: pytest.Config) -> None:
    if servers := config.stash.get(SHARED, None):
        servers.close()


def pytest_collection() -> None:
    gc.disable()  # of ten thousand tests none is garbage


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.fixture(scope="session")
def postgres_server() -> pg.Postgres:
    """The PostgreSQL of this run. Use `fresh_database()` on it where one database is not enough."""
    return pg.Postgres(**shared("postgres", pg.installation().major))


@pytest.fixture
def postgres_url(postgres_server: pg.Postgres) -> Iterator[str]:
    """A database for this test alone, as a hooklane has left it that was started once: our tables, and no rows."""
    with postgres_server.fresh_database(WITH_TABLES) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: pg.Postgres) -> Iterator[str]:
    """A database for this test alone in which nothing of ours ever was."""
    with postgres_server.fresh_database() as url:
        yield url


# An empty list would skip the tests; 18 makes them fail with the line that says what is missing.
@pytest.fixture(params=[one.major for one in pg.installations()] or [18], ids=lambda major: f"pg{major}")
def each_postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database for this test alone; the test runs once on each PostgreSQL of this machine."""
    with pg.Postgres(**shared("postgres", request.param)).fresh_database() as url:
        yield url


@pytest.fixture
def crash_postgres() -> Iterator[pg.PostgresServer]:
    """A PostgreSQL of one's own, on disk and with fsync, for tests that crash it."""
    with pg.postgres_server(durable=True) as server:
        yield server


@pytest.fixture
def redis_url() -> str:
    """An empty database of the run's Valkey, for this test alone."""
    return _fresh_redis(vk.programs()[0] if vk.programs() else Path("valkey-server"))


@pytest.fixture(params=vk.programs() or [Path("valkey-server")], ids=lambda program: program.name)
def each_redis_url(request: pytest.FixtureRequest) -> str:
    """An empty database for this test alone; the test runs once on each Valkey and Redis of this machine."""
    return _fresh_redis(request.param)


@pytest.fixture
def crash_redis() -> Iterator[vk.ValkeyServer]:
    """A Valkey of one's own that keeps every write, for tests that kill it."""
    with vk.valkey_server(durable=True) as server:
        yield server


def _fresh_redis(program: Path) -> str:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return vk.Valkey(**shared("valkey", str(program))).fresh_database(worker)


_accounts = count(1)


@pytest.fixture
def dynamodb(monkeypatch: pytest.MonkeyPatch) -> DynamoDB:
    """The run's DynamoDB Local with an empty account for this test alone, which the environment names as well."""
    import boto3  # slow to import, and few tests need it

    account = DynamoDB(**shared("dynamodb"), access_key=f"test{os.getpid()}x{next(_accounts)}")
    for name, value in account.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it would remember the account of an earlier test
    return account


@pytest.fixture
def dynamodb_url(dynamodb: DynamoDB) -> str:
    """The endpoint of `dynamodb`; credentials and region are in the environment."""
    return dynamodb.url


@pytest.fixture
def sink() -> Iterator[Sink]:
    """An HTTP server that records requests and answers by a script."""
    with Sink() as server:
        yield server


@pytest.fixture
def start_hooklane(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Starts `hooklane …` as a real process, from the tree under test; its log is shown when the test fails.

    It is forked from one that has read the modules; with `born=subprocess.Popen` it begins from nothing.
    """
    numbers = count(1)
    with ExitStack() as running:

        def start(
            *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None, born: Any = fork
        ) -> Child:
            source = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
            log = tmp_path / f"hooklane-{next(numbers)}.log"
            child = Child(
                [sys.executable, "-m", "hooklane", *arguments],
                log=log,
                env={"PYTHONPATH": source, "PYTHONUNBUFFERED": "1", **(env or {})},
                cwd=cwd or tmp_path,
                born=born,
            )
            running.enter_context(child)
            running.callback(lambda: print(f"--- {child}\n{child.output()}"))
            return child

        yield start
