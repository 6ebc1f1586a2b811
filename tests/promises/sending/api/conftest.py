"""A whole server in this process, on a SQLite file of its own, with a client to talk to it."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest
from tests.support.http_client import Answer, Connection
from tests.support.receiver import Sink
from tests.support.sqlite_files import new_outbox_file

from hooklane.cli import process
from hooklane.cli.process import Running, running
from hooklane.config import Secret, Settings
from hooklane.server.api import ROUTES
from hooklane.server.api.documents import described
from hooklane.server.problem import Problem
from hooklane.server.router import Router

KEY = "test-key-0123456789"
HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What the API does on both databases is tested on one of them, by turns; on the other it soaks. What a store does
    is tested on each (tests/stores), and so is each promise of sending (tests/promises/sending)."""
    stores_of: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        store = item.callspec.params.get("shared_db") if hasattr(item, "callspec") else None
        if store is not None and item.path.is_relative_to(HERE):
            stores_of.setdefault(item.nodeid.partition("[")[0], {}).setdefault(store, []).append(item)
    for name, stores in stores_of.items():
        if len(stores) == len(STORES):
            for item in stores[STORES[crc32(name.encode()) % len(STORES)]]:
                item.add_marker(pytest.mark.soak)


_ROUTER = Router(ROUTES)
SEEN: set[str] = set()
"""Routes whose answer was checked against the description of the API."""


@cache
def _described_paths() -> Any:
    return described(ROUTES)["paths"]


def check_shape(method: str, path: str, answer: Answer) -> None:
    """Hold an answer to what the description of the API says of its route."""
    try:
        route, _ = _ROUTER.find(method, path.partition("?")[0])
    except Problem:
        return
    name = f"{route.method} {route.path}"
    responses = _described_paths()[route.path][route.method.lower()]["responses"]
    assert str(answer.status) in responses, (name, answer)
    if (
        answer.status == route.status
        and route.answers is not None
        and answer.headers["content-type"] == "application/json"
    ):
        msgspec.json.decode(answer.body, type=route.answers)
        SEEN.add(name)


class Api:
    """A running server and a kept connection to it, with the key."""

    def __init__(self, server: Running, connection: Connection) -> None:
        self.server = server
        self.connection = connection
        self.port = connection.port

    async def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        answer = await self.connection.call(method, path, body, headers)
        check_shape(method, path, answer)
        return answer

    async def call_alone(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """A call on a connection of its own: what it does to the connection concerns no other call."""
        async with self.connect() as connection:
            answer = await connection.call(method, path, body, headers)
        check_shape(method, path, answer)
        return answer

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
def cores() -> int:
    """How many cores a server thinks that it has. With a second one SQLite gets a process that writes.

    To start that process costs more than most tests here, so they do without; a module about publishing says 2.
    """
    return 1


@pytest.fixture
async def start(tmp_path: Path, cores: int, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Starts servers with other settings than usual."""
    monkeypatch.setattr(process, "_cores", lambda: cores)
    async with AsyncExitStack() as stack:

        async def begin(**changes: Any) -> Api:
            usual = tmp_path / "hooklane.db"
            if "db" not in changes and not usual.exists():
                new_outbox_file(usual)
            settings = Settings(
                **{
                    "db": f"sqlite:///{usual}",
                    "port": 0,
                    "api_key": Secret(KEY),
                    "egress_allow": ("127.0.0.0/8",),
                    **changes,
                }
            )
            server = await stack.enter_async_context(running(settings))
            if server.services.relay is not None:
                await server.services.relay.ready()  # else a pause may be heard of after what was published behind it
            port = int(server.address.rpartition(":")[2])
            headers = {} if settings.no_auth else {"authorization": f"Bearer {KEY}"}
            return Api(server, await stack.enter_async_context(Connection(port, headers)))

        yield begin


@pytest.fixture
async def api(start: Start) -> Api:
    """A server with all roles and a key."""
    made: Api = await start()
    return made


# The fast path answers exactly this path; with an empty query the same call goes through the application.
@pytest.fixture(params=["/api/v1/events", "/api/v1/events?"], ids=["fast", "app"])
def publish_path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def endpoint(api: Api, sink: Sink) -> dict[str, Any]:
    """An endpoint at the sink, with short waits."""
    return await api.endpoint(sink.url("/hook"), attempts_max=3, backoff_ms=20, timeout_ms=2_000)


STORES = ("sqlite", "postgresql")


@pytest.fixture(params=STORES)
def shared_db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return new_outbox_file(tmp_path / "both.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def site(shared_db: str, start: Start) -> Any:
    """A server on a database that an application may share, SQLite and PostgreSQL in turn."""
    from tests.promises.sending.api.inbox_site import Site  # which needs the names above

    return Site(shared_db, await start(db=shared_db, seal_key=("00" * 32,)))


@pytest.fixture
def shop(site: Any) -> Iterator[Any]:
    """An application whose inbox is in the database of `site`."""
    from tests.promises.sending.api.inbox_site import Shop

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
