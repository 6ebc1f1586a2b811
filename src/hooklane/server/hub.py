"""What changed since a viewer last looked? Changes of lanes, gathered and told at most ten times a second.

The store is the truth: the hub only notes which lanes moved and reads those again, and only while somebody looks.
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
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.health import BreakerState
from hooklane.model.lane import LaneState
from hooklane.server import views
from hooklane.server.picture import attempt_of, overview_of
from hooklane.server.viewer import Viewer, frame
from hooklane.store.reads import LaneView, OutboxReads
from hooklane.telemetry.deliveries import Fenced, Happening, Queued, Recorded, Sent

FLUSH_S = 0.1
LOOK_S = 1.0
LANES_MAX = 100
ATTEMPTS_MAX = 50
FRAMES_MAX = 256
TOPICS = ("lanes", "attempts", "overview")

Lane = tuple[str, str]
"""Endpoint and key."""

_UNSETTLED = (LaneState.BLOCKED, LaneState.RETRYING, LaneState.PAUSED, LaneState.ACTIVE)


class Hub:
    """Notes what moved (`listen`, `touch`), reads it again and tells the viewers (`run`)."""

    def __init__(self, reads: OutboxReads, endpoints: Callable[[], Awaitable[Sequence[Endpoint]]]) -> None:
        """*endpoints* reads all endpoints, as the store does."""
        self._reads = reads
        self._read_endpoints = endpoints
        self._boot = secrets.token_hex(4)
        self._count = 0
        self._frames: deque[tuple[int, str, bytes]] = deque(maxlen=FRAMES_MAX)
        self._viewers: set[Viewer] = set()
        self._watched = asyncio.Event()
        self._closed = asyncio.Event()
        self._missed = False
        self._moved: dict[Lane, bool] = {}
        self._in_flight: dict[Lane, int] = {}
        self._attempts: deque[Mapping[str, Any]] = deque(maxlen=ATTEMPTS_MAX)
        self._endpoints: Mapping[str, Endpoint] | None = None
        self._unsettled: dict[Lane, LaneView] = {}
        self._look_at = 0.0
        self.circuits: Callable[[], Mapping[str, BreakerState]] = dict
        """The breakers of the endpoints that this process delivers to."""
        self._overview: Mapping[str, Any] = {}

    @property
    def viewers(self) -> int:
        """How many are looking."""
        return len(self._viewers)

    # noting

    def listen(self, happening: Happening) -> None:
        """The relay's listener: cheap, since it runs for every batch of deliveries."""
        match happening:
            case Queued(grown=grown):
                if self._watched.is_set():
                    for one in grown:
                        self.touch(one.endpoint_id, one.key)
            case Sent(sends=sends):
                for send in sends:
                    if send.key is not None:
                        self._in_flight[send.endpoint.id, send.key] = send.seq
                        self.touch(send.endpoint.id, send.key)
            case Recorded(settlements=settlements):
                for settlement in settlements:
                    send = settlement.send
                    if send.key is not None:
                        self._in_flight.pop((send.endpoint.id, send.key), None)
                        self.touch(send.endpoint.id, send.key)
                    if self._watched.is_set():
                        self._attempts.append(attempt_of(settlement))
            case Fenced():
                self._in_flight.clear()
        self._missed = self._missed or not self._watched.is_set()

    def touch(self, endpoint_id: str, key: str | None) -> None:
        """A lane is no longer as it was told last."""
        if key is not None and self._watched.is_set() and len(self._moved) < 10 * LANES_MAX:
            self._moved[endpoint_id, key] = True

    def endpoints_changed(self) -> None:
        self._endpoints = None
        self._look_at = 0.0

    # telling

    def join(self, last_id: str | None, topics: frozenset[str] | None = None) -> Viewer:
        """A new viewer of *topics*; it goes on after *last_id*, or is told to `reset` when that is too long ago."""
        if self._missed or not self._watched.is_set():
            self._frames.clear()
            self._missed = False
            self._look_at = 0.0
        viewer = Viewer(topics)
        known = {f"{self._boot}-{number}": number for number, _, _ in self._frames}
        if last_id in known:
            for number, kind, text in self._frames:
                if number > known[last_id] and viewer.wants(kind):
                    viewer.put(text)
        else:
            viewer.put(frame("reset", self._last_id(), b"{}"))
        self._viewers.add(viewer)
        self._watched.set()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        if not self._viewers:
            self._watched.clear()
            self._moved.clear()
            self._attempts.clear()

    async def run(self) -> None:
        """Tell the viewers what moved, until `close`; as long as nobody looks, nothing is read."""
        clock = asyncio.get_running_loop().time
        while not self._closed.is_set():
            await _first_of(self._watched, self._closed)
            began = clock()
            try:
                if began >= self._look_at:
                    await self._look()
                    # A store with very many lanes is asked less often: looking may cost a twentieth of the time.
                    self._look_at = clock() + max(LOOK_S, 20 * (clock() - began))
                await self._flush()
            except StoreError:
                pass  # the store is in trouble: /readyz says so, and the next round asks again
            await _wait(self._closed, max(FLUSH_S, 4 * (clock() - began)))

    def close(self) -> None:
        self._closed.set()
        self._watched.set()
        for viewer in list(self._viewers):
            viewer.end()

    async def _look(self) -> None:
        """Find what nobody told us: lanes that move in other processes, and the totals."""
        page = await self._reads.lanes(
            DEFAULT_TENANT, states=_UNSETTLED, endpoint_id=None, text=None, cursor=None, limit=LANES_MAX
        )
        found = {(lane.endpoint_id, lane.key): lane for lane in page.items}
        for lane in self._unsettled.keys() | found.keys():
            if self._unsettled.get(lane) != found.get(lane):
                self._moved[lane] = True
        self._unsettled = found
        self._endpoints = None
        overview = await overview_of(self._reads, await self._all_endpoints())
        if overview != self._overview:
            self._overview = overview
            self._tell("overview", overview)

    async def _flush(self) -> None:
        moved, self._moved = list(self._moved)[:LANES_MAX], {}
        attempts, self._attempts = list(self._attempts), deque(maxlen=ATTEMPTS_MAX)
        if attempts:
            self._tell("attempts", {"items": attempts})
        if moved:
            items = [await self.lane_view(lane) for lane in moved]
            self._tell("lanes", {"items": [item for item in items if item is not None]})

    async def lane_view(self, lane: Lane) -> Mapping[str, Any] | None:
        found = await self._reads.lane(DEFAULT_TENANT, *lane)
        return None if found is None else self.shown(found, await self._all_endpoints())

    def shown(self, lane: LaneView, endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
        """A lane as the page draws it: with its endpoint's name and whether its head is in flight now."""
        endpoint = endpoints.get(lane.endpoint_id)
        view = views.lane(lane, {lane.endpoint_id: endpoint.name if endpoint else ""})
        view["attempts_max"] = endpoint.attempts_max if endpoint else None
        view["circuit"] = self.circuits().get(lane.endpoint_id)
        view["in_flight"] = self._in_flight.get((lane.endpoint_id, lane.key)) == lane.head
        return view

    async def _all_endpoints(self) -> Mapping[str, Endpoint]:
        if self._endpoints is None:
            self._endpoints = {endpoint.id: endpoint for endpoint in await self._read_endpoints()}
        return self._endpoints

    def _tell(self, kind: str, value: Mapping[str, Any]) -> None:
        self._count += 1
        text = frame(kind, self._last_id(), msgspec.json.encode(value))
        self._frames.append((self._count, kind, text))
        for viewer in self._viewers:
            if viewer.wants(kind):
                viewer.put(text)

    def _last_id(self) -> str:
        return f"{self._boot}-{self._count}"


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _wait(event: asyncio.Event, most_s: float) -> None:
    try:
        async with asyncio.timeout(most_s):
            await event.wait()
    except TimeoutError:
        pass  # nothing happened, which is what a pause is for
