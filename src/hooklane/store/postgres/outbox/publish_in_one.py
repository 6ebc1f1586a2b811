"""How do many events get their places in one round trip? By one statement that is the whole transaction.

It serves the usual publish: every place in a lane, every name new. What it cannot serve goes the longer way
(`publish`), which means the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.lane import Grown, Place
from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.outbox import Draft, Placer, Published, PublishReport, Refused, Stamp
from hooklane.store.postgres.literals import numbers, texts
from hooklane.store.postgres.outbox.lanes import Mark
from hooklane.store.postgres.outbox.statements import SQL


@dataclass(frozen=True, slots=True)
class OwnCommit:
    """What one transaction of ours wrote, and our engine was told of."""

    xid: str

    def past(self, mark: Mark) -> Mark:
        return replace(mark, told=(*mark.told, self.xid))


class PublishInOne:
    """A batch of drafts on its way: the question, and what its answer means."""

    def __init__(
        self,
        drafts: Sequence[Draft],
        placer: Placer,
        endpoints: Mapping[str, tuple[int, Sequence[Endpoint]]],
        seen: dict[tuple[str, str], int],
    ) -> None:
        """*endpoints* are those of each tenant of *drafts*, as of a revision; *seen* are lanes that are known to exist,
        by endpoint and key, each with a seq in it."""
        self._endpoints = endpoints
        self._seen = seen
        self._results: list[Refused | Event] = []
        self._events: list[Event] = []
        self._placed: list[tuple[int, Place]] = []
        """The event's place in the question, from 1 on, and where it stands."""
        self._claims: list[tuple[str, str, int, bytes]] = []
        """Tenant and name, the event that wants it, and the digest of its content."""
        self.is_plain = True
        """Whether one statement can say it all."""
        self.refuses = False
        """Whether one of the drafts was refused."""
        for draft in drafts:
            event = draft.event
            try:
                places = placer(event, draft.asked, endpoints[event.tenant][1])
            except InvalidEvent as error:
                self._results.append(Refused(error.code, str(error)))
                self.refuses = True
                self.is_plain = self.is_plain and not draft.names  # the longer way knows what was accepted before
                continue
            self._results.append(event)
            self._events.append(event)
            # The longer way notes a trace, and looks for a name of old.
            self.is_plain = self.is_plain and event.trace is None and draft.former is None
            for name in draft.names:
                self._claims.append((event.tenant, name, len(self._events), draft.digest))
            for place in places:
                self.is_plain = self.is_plain and place.key is not None
                self._placed.append((len(self._events), place))
        if self._claims:
            self._claims.sort()
            wanted = {(tenant, name) for tenant, name, _, _ in self._claims}
            self.is_plain = self.is_plain and len(wanted) == len(self._claims)
        self._lanes: list[tuple[str, str]] = []
        """In the order in which they are asked for."""
        self._lane_ats: list[int] = []
        self._nths: list[int] = []

    def statement(self, lock_wait_ms: int) -> Statement:
        """Ask for the places, if the endpoints of every tenant are still as of the revision that we know."""
        events, placed = self._events, self._placed
        many: dict[tuple[str, str], int] = {}
        named: list[tuple[str, str]] = []
        first: dict[tuple[str, str], int] = {}
        for nth_place, (_, place) in enumerate(placed):
            lane = place.endpoint_id, place.key or ""
            nth = many.get(lane, 0) + 1
            if nth == 1:
                first[lane] = nth_place
            many[lane] = nth
            named.append(lane)
            self._nths.append(nth)
        self._lanes = order = list(first)
        at = {lane: n for n, lane in enumerate(order, start=1)}
        lanes = [placed[first[lane]] for lane in order]
        self._lane_ats = [at[lane] for lane in named]
        sizes = [len(event.data) for event in events]
        starts = list(accumulate(sizes, initial=1))[:-1]
        params: dict[str, Any] = {
            "many": len(events),
            "publishing": texts(list(self._endpoints)),
            "revs": numbers([rev for rev, _ in self._endpoints.values()]),
            "tenant_count": len(self._endpoints),
            "lock_wait": f"{lock_wait_ms}ms",
            "tenants": texts([events[event_at - 1].tenant for event_at, _ in lanes]),
            "endpoints": texts([endpoint_id for endpoint_id, _ in order]),
            "keys": texts([key for _, key in order]),
            "pids": numbers([place.pid for _, place in lanes]),
            "hints": numbers([self._seen.get(lane, 0) for lane in order]),
            "lane_ats": numbers(self._lane_ats),
            "nths": numbers(self._nths),
            "place_pids": numbers([place.pid for _, place in placed]),
            "place_endpoints": texts([place.endpoint_id for _, place in placed]),
            "event_tenants": texts([event.tenant for event in events]),
            "ids": texts([event.id for event in events]),
            "types": texts([event.type for event in events]),
            "event_keys": texts([event.key for event in events]),
            "datas": b"".join([event.data for event in events]),
            "starts": numbers(starts),
            "sizes": numbers(sizes),
            "ats": numbers([event.created_at for event in events]),
            "replays": texts([event.replay_of for event in events]),
        }
        name = "publish_one_each"
        if len(placed) != len(events) or any(one[0] != n for n, one in enumerate(placed, start=1)):
            name = "publish_many_each"
            params["event_ats"] = numbers([event_at for event_at, _ in placed])
            params["place_tenants"] = texts([events[event_at - 1].tenant for event_at, _ in placed])
        if not self._claims:
            return Statement(SQL[name], params)
        return Statement(SQL[f"{name}_named"], params | self._names())

    def _names(self) -> dict[str, Any]:
        claims = self._claims
        sizes = [len(digest) for _, _, _, digest in claims]
        return {
            "name_tenants": texts([tenant for tenant, _, _, _ in claims]),
            "names": texts([name for _, name, _, _ in claims]),
            "digests": b"".join([digest for _, _, _, digest in claims]),
            "name_starts": numbers(list(accumulate(sizes, initial=1))[:-1]),
            "name_sizes": numbers(sizes),
            "name_ats": numbers([at for _, _, at, _ in claims]),
            "name_created": numbers([self._events[at - 1].created_at for _, _, at, _ in claims]),
        }

    def report(self, rows: Rows) -> PublishReport | None:
        """What was published; None when the endpoints had changed, and nothing was."""
        ((started, xid, ids, tails),) = rows
        if not started:
            return None
        self._seen.update(zip(self._lanes, [tail + 1 for tail in tails], strict=True))
        stamps: list[list[Stamp]] = [[] for _ in self._events]
        grown: list[Grown] = []
        for (event_at, place), lane_at, nth in zip(self._placed, self._lane_ats, self._nths, strict=True):
            lane_id, seq = ids[lane_at - 1], tails[lane_at - 1] + nth
            stamps[event_at - 1].append(Stamp(place.endpoint_id, seq))
            grown.append(Grown(lane_id, place.pid, place.endpoint_id, place.key, seq, self._events[event_at - 1]))
        given = iter(stamps)
        results: list[Published | Refused] = [
            one
            if isinstance(one, Refused)
            else Published(one.id, one.type, one.key, one.created_at, tuple(next(given)))
            for one in self._results
        ]
        return PublishReport(results, grown, OwnCommit(xid))
