"""The live stream of one tenant (`GET /api/v1/stream`): lanes that changed, sent at most ten times a second.

The store is the truth: the stream only notes which lanes moved and reads those again, while at least one client is
connected. `live_streams.py` has those of all tenants.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from hooklane.errors import StoreError
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import LaneState
from hooklane.server.overview import overview_of
from hooklane.server.recent_attempts import Told
from hooklane.server.repeating import came
from hooklane.server.stream_client import StreamClient, frame
from hooklane.server.totals import Totals
from hooklane.store.dashboard import Cells
from hooklane.store.open import Outbox
from hooklane.store.reads import LaneFilter, LaneView
from hooklane.telemetry.deliveries import Happening, Queued, Recorded, Sent

FLUSH_S = 0.1
LOOK_S = 1.0
LANES_MAX = 100
"""Lanes of one message; those that moved besides are told by the next ones."""
UNSETTLED_MAX = 1_000
SETTLED = 8
"""How many events before its head are told of a lane."""
MOVED_MAX = 2_000
"""Lanes that wait to be told. Where more have moved, clients are told to fetch everything again."""
RESET_S = 2.0
ATTEMPTS_MAX = 50
FRAMES_MAX = 256
TOPICS = ("lanes", "attempts", "overview", "dead_letters", "jobs", "endpoints", "inbox")

Lane = tuple[str, str]
"""Endpoint and key."""
Shown = Callable[[LaneView, Mapping[str, Endpoint], Cells], Mapping[str, Any]]

_UNSETTLED = (LaneState.BLOCKED, LaneState.RETRYING, LaneState.PAUSED, LaneState.ACTIVE)


class LiveStream:
    """Notes what moved (`listen`, `touch`), reads it again and tells the clients (`run`)."""

    def __init__(self, tenant: str, store: Outbox, totals: Totals, shown: Shown) -> None:
        """*shown* is a lane as the page draws it."""
        self._tenant = tenant
        self._store = store
        self._totals = totals
        self._shown = shown
        self._boot = secrets.token_hex(4)
        self._count = 0
        self._frames: deque[tuple[int, str, bytes]] = deque(maxlen=FRAMES_MAX)
        self._clients: set[StreamClient] = set()
        self._watched = asyncio.Event()
        self._closed = asyncio.Event()
        self._missed = False
        self._moved: dict[Lane, None] = {}
        self._untold = False
        """Whether more has moved than is noted: a `reset` is due."""
        self._reset_at = 0.0
        self.hears_all = True
        """Whether all that moves lanes is told here; otherwise totals that change stand for what was not."""
        self._attempts: deque[Mapping[str, Any]] = deque(maxlen=ATTEMPTS_MAX)
        self._endpoints: Mapping[str, Endpoint] | None = None
        self._unsettled: dict[Lane, LaneView] = {}
        self._look_at = 0.0
        self._overview: Mapping[str, Any] = {}
        self.asked: Mapping[str, Callable[[], Awaitable[Mapping[str, Any] | None]]] = {}
        """Topics that are asked for at each look, while a client wants them: what is new of them."""

    @property
    def client_count(self) -> int:
        """How many are looking."""
        return len(self._clients)

    # noting

    def listen(self, happening: Happening) -> None:
        """The relay's listener: cheap, since it runs for every batch of deliveries."""
        if not self._watched.is_set():
            self._missed = True
            return
        tenant = self._tenant
        match happening:
            case Queued(grown=grown):
                for one in grown:
                    if one.event is None or one.event.tenant == tenant:
                        self.touch(one.endpoint_id, one.key)
            case Sent(sends=sends):
                for send in sends:
                    if send.endpoint.tenant == tenant:
                        self.touch(send.endpoint.id, send.key)
            case Recorded(settlements=settlements):
                for settlement in settlements:
                    send = settlement.send
                    if send.endpoint.tenant == tenant:
                        self.touch(send.endpoint.id, send.key)
            case _:
                pass  # what was fenced or missed is found by a look

    def touch(self, endpoint_id: str, key: str | None) -> None:
        """A lane is no longer as it was told last."""
        if key is None or not self._watched.is_set():
            return
        if len(self._moved) < MOVED_MAX or (endpoint_id, key) in self._moved:
            self._moved[endpoint_id, key] = None
        else:
            self.reset()

    def reset(self) -> None:
        """More has happened than is told."""
        self._untold = True

    def attempted(self, told: Sequence[Told]) -> None:
        """Attempts were made."""
        if self._watched.is_set():
            self._attempts.extend(view for tenant, view in told if tenant == self._tenant)

    def endpoints_changed(self) -> None:
        self._endpoints = None
        self._look_at = 0.0

    # telling

    def join(self, last_id: str | None, topics: frozenset[str] | None = None) -> StreamClient:
        """A new client of *topics*; it goes on after *last_id*, or is told to `reset` when that is too long ago."""
        if self._missed or not self._watched.is_set():
            self._frames.clear()
            self._missed = False
            self._look_at = 0.0
        client = StreamClient(topics)
        known = {f"{self._boot}-{number}": number for number, _, _ in self._frames}
        if last_id in known:
            for number, kind, text in self._frames:
                if number > known[last_id] and (kind == "reset" or client.wants(kind)):
                    client.put(text)
        else:
            client.put(frame("reset", self._last_id(), b"{}"))
        self._clients.add(client)
        self._watched.set()
        return client

    def leave(self, client: StreamClient) -> None:
        self._clients.discard(client)
        if not self._clients:
            self._watched.clear()
            self._moved.clear()
            self._untold = False
            self._attempts.clear()

    async def run(self) -> None:
        """Tell the clients what moved, until `close`; while no client is connected, nothing is read."""
        clock = asyncio.get_running_loop().time
        while not self._closed.is_set():
            await _first_of(self._watched, self._closed)
            began = clock()
            try:
                if began >= self._look_at:
                    await self._look()
                    # A store with very many lanes is asked less often: looking may cost a twentieth of the time.
                    self._look_at = clock() + max(LOOK_S, 20 * (clock() - began))
                    began = clock()  # what a look took is paid for by the next look: it does not hold up what is told
                await self._flush()
            except StoreError:
                pass  # the store is in trouble: /readyz says so, and the next round asks again
            await came(self._closed, max(FLUSH_S, 4 * (clock() - began)))

    def close(self) -> None:
        self._closed.set()
        self._watched.set()
        for client in list(self._clients):
            client.end()

    async def _look(self) -> None:
        """Find what this process was not told: lanes that move in other processes, and the totals."""
        found, is_all = await self._find_unsettled()
        for lane in self._unsettled.keys() | found.keys():
            if self._unsettled.get(lane) != found.get(lane):
                self.touch(*lane)
        self._unsettled = found
        self._endpoints = None
        overview = overview_of(await self._totals.of(self._tenant), await self._all_endpoints())
        if overview != self._overview:
            # A lane that another process moved from rest to rest was not seen: nor were those beyond the search.
            if self._overview and (not is_all or not self.hears_all):
                self._untold = self._untold or overview["ledger"] != self._overview["ledger"]
            self._overview = overview
            self._tell("overview", overview)
        for topic, ask in self.asked.items():
            if any(client.wants(topic) for client in self._clients) and (news := await ask()) is not None:
                self._tell(topic, news)

    async def _find_unsettled(self) -> tuple[dict[Lane, LaneView], bool]:
        """The lanes that are not at rest, the most pressing first, and whether these are all of them."""
        page = await self._store.lanes(self._tenant, LaneFilter(states=_UNSETTLED), None, UNSETTLED_MAX)
        return {(lane.endpoint_id, lane.key): lane for lane in page.items}, page.next is None

    async def _flush(self) -> None:
        attempts, self._attempts = list(self._attempts), deque(maxlen=ATTEMPTS_MAX)
        if attempts:
            self._tell("attempts", {"items": attempts})
        if self._untold and asyncio.get_running_loop().time() >= self._reset_at:
            # What is read after this is as new as what would have been told.
            self._untold = False
            self._reset_at = asyncio.get_running_loop().time() + RESET_S
            self._tell("reset", {})
        moved = list(self._moved)[:LANES_MAX]
        if moved:
            for lane in moved:
                del self._moved[lane]  # before it is read: what moves it meanwhile is told again
            try:
                lanes = await self._store.lanes_named(self._tenant, moved)
                cells = await self._store.cells(lanes, SETTLED)
                endpoints = await self._all_endpoints()
            except StoreError:
                self._moved.update(dict.fromkeys(moved))
                raise
            self._tell("lanes", {"items": [self._shown(lane, endpoints, cells[lane.lane_id]) for lane in lanes]})

    async def _all_endpoints(self) -> Mapping[str, Endpoint]:
        if self._endpoints is None:
            self._endpoints = {endpoint.id: endpoint for endpoint in await self._store.endpoints(self._tenant)}
        return self._endpoints

    def _tell(self, kind: str, value: Mapping[str, Any]) -> None:
        self._count += 1
        text = frame(kind, self._last_id(), msgspec.json.encode(value))
        self._frames.append((self._count, kind, text))
        for client in self._clients:
            if kind == "reset" or client.wants(kind):
                client.put(text)

    def _last_id(self) -> str:
        return f"{self._boot}-{self._count}"


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
