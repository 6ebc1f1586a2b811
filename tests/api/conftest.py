"""A whole server in this process, on a SQLite file of its own, with a client to talk to it."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_client import Answer, Connection
from tests.support.receiver import Sink

from hooklane.cli.process import Running, running
from hooklane.config import Secret, Settings

KEY = "test-key-0123456789"


class Api:
    """A running server and a kept connection to it, with the key."""

    def __init__(self, server: Running, connection: Connection) -> None:
        self.server = server
        self.connection = connection
        self.port = connection.port

    async def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        return await self.connection.call(method, path, body, headers)

    async def get(self, path: str) -> Any:
        answer = await self.call("GET", path)
        assert answer.status == 200, answer
        return answer.json

    async def endpoint(self, url: str, **fields: Any) -> dict[str, Any]:
        answer = await self.call("POST", "/api/v1/endpoints", {"url": url, **fields})
        assert answer.status == 201, answer
        return answer.json

    async def publish(self, type_: str = "order.created", data: Any = None, **fields: Any) -> dict[str, Any]:
        answer = await self.call("POST", "/api/v1/events", {"type": type_, "data": data or {}, **fields})
        assert answer.status == 202, answer
        return answer.json

    def connect(self, headers: Mapping[str, str] | None = None) -> Connection:
        return Connection(self.port, {"authorization": f"Bearer {KEY}"} if headers is None else headers)


Start = Callable[..., Any]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts servers with other settings than usual."""
    async with AsyncExitStack() as stack:

        async def begin(**changes: Any) -> Api:
            settings = Settings(
                **{
                    "db": f"sqlite:///{tmp_path}/hooklane.db",
                    "port": 0,
                    "api_key": Secret(KEY),
                    "egress_allow": ("127.0.0.0/8",),
                    **changes,
                }
            )
            server = await stack.enter_async_context(running(settings))
            port = int(server.address.rpartition(":")[2])
            headers = {} if settings.no_auth else {"authorization": f"Bearer {KEY}"}
            return Api(server, await stack.enter_async_context(Connection(port, headers)))

        yield begin


@pytest.fixture
async def api(start: Start) -> Api:
    """A server with all roles and a key."""
    made: Api = await start()
    return made


# The fast door answers exactly this path; with an empty query the same call goes through the application.
@pytest.fixture(params=["/api/v1/events", "/api/v1/events?"], ids=["fast", "app"])
def publish_path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def endpoint(api: Api, sink: Sink) -> dict[str, Any]:
    """An endpoint at the sink, with short waits."""
    return await api.endpoint(sink.url("/hook"), attempts_max=3, backoff_ms=20, timeout_ms=2_000)


@pytest.fixture(params=["sqlite", "postgresql"])
def shared_db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/both.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def site(shared_db: str, start: Start) -> Any:
    """A server on a database that an application may share, SQLite and PostgreSQL in turn."""
    from tests.api.inbox_site import Site  # which needs the names above

    return Site(shared_db, await start(db=shared_db))


@pytest.fixture
def shop(site: Any) -> Iterator[Any]:
    """An application whose inbox is in the database of `site`."""
    from tests.api.inbox_site import Shop

    made = Shop(site.db)
    yield made
    made.inbox.close()


@pytest.fixture
def dead(shop: Any) -> str:
    """The id of a row that one of its two handlers has rejected."""
    shop.receive("evt_1", type="order.paid", data={"sku": 7}, key="A", seq=1)
    shop.broken = True
    shop.inbox.run_once()
    shop.broken = False
    shop.seen.clear()
    return str(shop.inbox.rows(source="hooklane")[0].id)
