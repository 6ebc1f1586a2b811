"""A database without a server in between: the calls of the API, made on the store itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from hooklane.cli.client import Reply, failure_of
from hooklane.cli.process import open_services, open_store
from hooklane.config import Settings
from hooklane.server.api import ROUTES
from hooklane.server.app import problem_response
from hooklane.server.call import Call, parse_query
from hooklane.server.caller import COMMAND_LINE, TENANT_HEADER, tenant_of_call
from hooklane.server.router import Router
from hooklane.server.services import Services


class DirectClient:
    """Opens the store for as long as the command runs. It publishes and recovers; delivering is the server's work."""

    def __init__(self, settings: Settings) -> None:
        self._runner = asyncio.Runner()
        self._router = Router(ROUTES)
        self._store = open_store(settings)
        try:
            self._services = self._runner.run(self._open(settings))
        except BaseException:
            self._runner.close()
            raise

    async def _open(self, settings: Settings) -> Services:
        await self._store.open()
        services = open_services(settings, self._store, deliver=False)
        await services.types.look()
        return services

    def send(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Reply:
        return self._runner.run(self._perform(method, path, query, headers, body))

    async def _perform(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Reply:
        try:
            route, params = self._router.find(method, urlsplit(path).path)
            asked = parse_query(query.encode(), route.query)
            await self._services.tenants.look()
            named = None if route.of_server else headers.get(TENANT_HEADER)
            tenant = tenant_of_call(None, named, self._services.tenants)
            call = Call(self._services, params, asked, headers, body, tenant, actor="cli", caller=COMMAND_LINE)
            response = await route.run(call)
        except Exception as error:
            response = problem_response(error)
        if response.stream is not None:
            return Reply(response.status, b"".join([chunk async for chunk in response.stream]))
        return Reply(response.status, response.body)

    def scrub(self) -> None:
        """Leave no page behind that holds what was overwritten or deleted."""
        self._runner.run(self._store.scrub())

    def lines(self, path: str, query: str, headers: Mapping[str, str]) -> Iterator[bytes]:
        """Written out first: what is asked for in this way has an end, on a database."""
        reply = self.send("GET", path, query, headers, b"")
        if reply.status >= 400:
            raise failure_of(reply)
        yield from reply.body.splitlines(keepends=True)

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        await self._services.publisher.close()
        await self._services.transport.close(0)
        await self._store.close()
