"""The live streams of all tenants: one for each tenant that is watched, and never a word of another's in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hooklane.model.endpoint import Endpoint
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.health import BreakerState
from hooklane.server import views
from hooklane.server.live_stream import Lane, LiveStream
from hooklane.server.recent_attempts import Told
from hooklane.server.shapes import LaneShape
from hooklane.server.stream_client import StreamClient
from hooklane.server.totals import Totals
from hooklane.store.dashboard import Cells
from hooklane.store.open import Outbox
from hooklane.store.reads import LaneView
from hooklane.telemetry.deliveries import Fenced, Happening, Recorded, Sent

Asked = Mapping[str, Callable[[], Awaitable[Mapping[str, Any] | None]]]


class LiveStreams:
    """Opens a tenant's stream for its first client and closes it after the last; that of `default` stays."""

    def __init__(self, store: Outbox, totals: Totals) -> None:
        self._store = store
        self._totals = totals
        self._in_flight: dict[Lane, int] = {}
        self.breakers: Callable[[], Mapping[str, BreakerState]] = dict
        """The breakers of the endpoints that this process delivers to."""
        self.hears_all = True
        """Whether all that moves lanes is told here; otherwise totals that change stand for what was not."""
        self.ask_for: Callable[[str], Asked] = lambda _: {}
        """The topics of a tenant that are asked for at each look."""
        self._group: asyncio.TaskGroup | None = None
        self._closed = asyncio.Event()
        self._streams: dict[str, LiveStream] = {}
        self._tenants: dict[StreamClient, str] = {}
        self._streams[DEFAULT_TENANT] = self._open(DEFAULT_TENANT)

    def _open(self, tenant: str) -> LiveStream:
        return LiveStream(tenant, self._store, self._totals, self.shown)

    @property
    def client_count(self) -> int:
        """How many are looking."""
        return len(self._tenants)

    def count_of(self, tenant: str) -> int:
        """How many are looking at *tenant*."""
        stream = self._streams.get(tenant)
        return 0 if stream is None else stream.client_count

    # noting

    def listen(self, happening: Happening) -> None:
        """The relay's listener: cheap, since it runs for every batch of deliveries."""
        match happening:
            case Sent(sends=sends):
                for send in sends:
                    if send.key is not None:
                        self._in_flight[send.endpoint.id, send.key] = send.seq
            case Recorded(settlements=settlements):
                for settlement in settlements:
                    if settlement.send.key is not None:
                        self._in_flight.pop((settlement.send.endpoint.id, settlement.send.key), None)
            case Fenced():
                self._in_flight.clear()
            case _:
                pass  # nothing of it is in flight
        for stream in self._streams.values():
            stream.listen(happening)

    def touch(self, tenant: str, endpoint_id: str, key: str | None) -> None:
        """A lane is no longer as it was told last."""
        if (stream := self._streams.get(tenant)) is not None:
            stream.touch(endpoint_id, key)

    def reset(self, tenant: str) -> None:
        """More has happened than is told: clients fetch everything again."""
        if (stream := self._streams.get(tenant)) is not None:
            stream.reset()

    def attempted(self, told: Sequence[Told]) -> None:
        """Attempts were made."""
        for stream in self._streams.values():
            stream.attempted(told)

    def endpoints_changed(self) -> None:
        for stream in self._streams.values():
            stream.endpoints_changed()

    def shown(self, lane: LaneView, endpoints: Mapping[str, Endpoint], cells: Cells) -> dict[str, Any]:
        """A lane as the page draws it: with its endpoint's name and whether its head is in flight now."""
        endpoint = endpoints.get(lane.endpoint_id)
        return views.filled(
            LaneShape,
            lane,
            endpoint_name=endpoint.name if endpoint else "",
            attempts_max=endpoint.attempts_max if endpoint else None,
            breaker=self.breakers().get(lane.endpoint_id),
            in_flight=self._in_flight.get((lane.endpoint_id, lane.key)) == lane.head,
            settled=cells.settled,
            head_said=cells.head_said,
        )

    # telling

    def join(self, tenant: str, last_id: str | None, topics: frozenset[str] | None = None) -> StreamClient:
        """A new client of *tenant*'s stream, of *topics*; it goes on after *last_id*, or is told to `reset`."""
        stream = self._streams.get(tenant)
        if stream is None:
            stream = self._streams[tenant] = self._open(tenant)
            if self._group is not None and not self._closed.is_set():
                self._group.create_task(stream.run(), name=f"live stream of {tenant}")
        stream.hears_all = self.hears_all
        if not stream.asked:
            stream.asked = self.ask_for(tenant)
        client = stream.join(last_id, topics)
        self._tenants[client] = tenant
        return client

    def leave(self, client: StreamClient) -> None:
        tenant = self._tenants.pop(client, None)
        if tenant is None:
            return
        stream = self._streams[tenant]
        stream.leave(client)
        if not stream.client_count and tenant != DEFAULT_TENANT:
            self._streams.pop(tenant).close()

    async def run(self) -> None:
        """Tell the clients of each tenant what moved, until `close`."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for tenant, stream in self._streams.items():
                group.create_task(stream.run(), name=f"live stream of {tenant}")
            await self._closed.wait()

    def close(self) -> None:
        self._closed.set()
        for stream in list(self._streams.values()):
            stream.close()
