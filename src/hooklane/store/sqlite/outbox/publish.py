"""How does an event get its place? One flow for the server's group commit and for a caller's own transaction."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import Grown, Place
from hooklane.store.caller.flow import Flow, Rows, Statement
from hooklane.store.codec import decode_endpoint
from hooklane.store.outbox import Draft, Placer, Published, PublishReport, Refused, Stamp
from hooklane.store.sqlite.outbox.lanes import Span
from hooklane.store.sqlite.rows import Insert, Row, Upsert

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode

_NUMBERS = Statement(
    "SELECT (SELECT value FROM hooklane_counter WHERE name = 'endpoint'),"
    " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'hooklane_event'), 0),"
    " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'hooklane_lane_event'), 0),"
    " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'hooklane_loose'), 0)"
)
_ENDPOINTS = Statement("SELECT doc FROM hooklane_endpoint ORDER BY id")
_CLAIM_NAME = """
INSERT INTO hooklane_idempotency (tenant, name, digest, event_n, created_at)
VALUES (:tenant, :name, :digest, :event_n, :at) ON CONFLICT DO NOTHING RETURNING 1
"""
_FREE_NAME = "DELETE FROM hooklane_idempotency WHERE tenant = :tenant AND name = :name"
_WHO_HAS_NAME = "SELECT digest, event_n FROM hooklane_idempotency WHERE tenant = :tenant AND name = :name"
_EVENT = "SELECT id, type, key, created_at, stamps FROM hooklane_event WHERE n = :n"
_ANSWER = "SELECT answer FROM hooklane_idempotency WHERE event_n = :n AND answer IS NOT NULL LIMIT 1"
_GROW = Upsert(
    "hooklane_lane_tail",
    ("tenant", "endpoint_id", "key", "pid", "tail"),
    "ON CONFLICT (endpoint_id, key) DO UPDATE SET tail = tail + excluded.tail",
    keys=("endpoint_id", "key"),
    returning=("lane_id", "tail"),
)
_ADD_EVENTS = Insert(
    "hooklane_event", ("n", "tenant", "id", "type", "key", "data", "created_at", "replay_of", "stamps")
)
_ADD_LANE_EVENTS = Insert("hooklane_lane_event", ("n", "tenant", "lane_id", "seq", "event_n"))
_ADD_LOOSE = Insert("hooklane_loose", ("n", "tenant", "endpoint_id", "pid", "event_n"))


@dataclass(frozen=True, slots=True)
class Many:
    """Rows that go in together; what comes back, if anything, is a row for each."""

    insert: Insert
    rows: Sequence[Row]


PublishFlow = Generator[Statement | Many, Rows, T]


@dataclass(slots=True)
class EndpointCache:
    """The endpoints as of a revision, so that a busy writer does not decode them for every commit."""

    rev: int = -1
    endpoints: Sequence[Endpoint] = ()
    by_tenant: dict[str, list[Endpoint]] = field(default_factory=dict)

    def forget(self) -> None:
        """A transaction was rolled back, and perhaps an endpoint with it whose revision another will get."""
        self.rev = -1

    def of(self, tenant: str) -> Sequence[Endpoint]:
        found = self.by_tenant.get(tenant)
        if found is None:
            found = self.by_tenant[tenant] = [one for one in self.endpoints if one.tenant == tenant]
        return found


@dataclass(slots=True)
class _Accepted:
    """A draft on its way in: the number of its row and its places, which get their seq together with others'."""

    draft: Draft
    n: int
    places: Sequence[Place]
    stamps: list[tuple[str, int, int | None]] = field(default_factory=list)
    """(endpoint, lane, seq) each; a loose delivery has a negative lane and no seq."""


def publish(drafts: Sequence[Draft], placer: Placer, cache: EndpointCache | None = None) -> PublishFlow[PublishReport]:
    """Stamp and store *drafts* in order; one that is refused leaves no trace and stops no other."""
    cache = cache or EndpointCache()
    ((rev, last_n, last_lane_event, last_loose),) = yield _NUMBERS
    if rev != cache.rev:
        # Read inside the publishing transaction: an endpoint whose creation was answered must not be missed.
        cache.endpoints = [decode_endpoint(doc) for (doc,) in (yield _ENDPOINTS)]
        cache.by_tenant = {}
        cache.rev = rev
    next_n = last_n + 1
    results: list[Published | Refused | _Accepted] = []
    by_n: dict[int, _Accepted] = {}
    for draft in drafts:
        try:
            places = placer(draft.event, draft.asked, cache.of(draft.event.tenant))
        except InvalidEvent as error:
            results.append(Refused(error.code, str(error)))
            continue
        holder = (yield from _claim_names(draft, next_n)) if draft.names else None
        if isinstance(holder, Refused):
            results.append(holder)
        elif holder in by_n:
            results.append(by_n[holder])  # a twin in the same commit
        elif holder is not None:
            results.append((yield from _published_before(holder)))
        else:
            accepted = by_n[next_n] = _Accepted(draft, next_n, places)
            results.append(accepted)
            next_n += 1
    grown = yield from _stamp(list(by_n.values()), last_lane_event + 1, last_loose + 1)
    loose = sum(one.lane_id < 0 for one in grown)
    last = last_lane_event + len(grown) - loose
    span = Span(last_lane_event + 1, last, last_loose + 1, last_loose + loose)
    return PublishReport(list(_reported(results)), grown, span)


def _claim_names(draft: Draft, n: int) -> PublishFlow[int | Refused | None]:
    """Take the draft's names for row *n*; else the row that has them, or a refusal when its content differs."""
    tenant = draft.event.tenant
    taken: list[str] = []
    for name in draft.names:
        claim = {"tenant": tenant, "name": name, "digest": draft.digest, "event_n": n, "at": draft.event.created_at}
        if (yield Statement(_CLAIM_NAME, claim)):
            taken.append(name)
            continue
        ((digest, holder),) = yield Statement(_WHO_HAS_NAME, {"tenant": tenant, "name": name})
        for mine in taken:
            yield Statement(_FREE_NAME, {"tenant": tenant, "name": mine})
        if digest != draft.digest:
            return Refused(
                "idempotency_conflict", "this idempotency key or id was used for an event with other content"
            )
        return int(holder)
    return None


def _published_before(n: int) -> PublishFlow[Published]:
    rows = yield Statement(_EVENT, {"n": n})
    if not rows:  # the event was pruned; its answer was kept with its name
        ((kept,),) = yield Statement(_ANSWER, {"n": n})
        rows = (msgspec.json.decode(kept),)
    ((event_id, type_, key, created_at, stamps),) = rows
    places = tuple(Stamp(endpoint, seq) for endpoint, _, seq in msgspec.json.decode(stamps))
    return Published(event_id, type_, key, created_at, places, repeated=True)


def _stamp(accepted: Sequence[_Accepted], next_lane_event: int, next_loose: int) -> PublishFlow[list[Grown]]:
    """Give every accepted event its places: each lane's counter moves once, by as many as it takes."""
    many: dict[Place, int] = {}
    tenants: dict[Place, str] = {}
    for one in accepted:
        for place in one.places:
            if place.key is not None:
                many[place] = many.get(place, 0) + 1
                tenants[place] = one.draft.event.tenant
    # In sorted order, so that two publishers never wait for each other crosswise.
    lanes = sorted(many)
    tails = yield Many(_GROW, [(tenants[lane], *lane, many[lane]) for lane in lanes])
    heads = {lane: [lane_id, tail - many[lane] + 1] for lane, (lane_id, tail) in zip(lanes, tails, strict=True)}
    grown: list[Grown] = []
    events: list[Row] = []
    lane_events: list[Row] = []
    loose: list[Row] = []
    for one in accepted:
        event, n = one.draft.event, one.n
        tenant = event.tenant
        for place in one.places:
            if place.key is None:
                lane_id, seq = -next_loose, 1
                one.stamps.append((place.endpoint_id, lane_id, None))
                loose.append((next_loose, tenant, place.endpoint_id, place.pid, n))
                next_loose += 1
            else:
                head = heads[place]
                lane_id, seq = head
                head[1] += 1
                one.stamps.append((place.endpoint_id, lane_id, seq))
                lane_events.append((next_lane_event, tenant, lane_id, seq, n))
                next_lane_event += 1
            grown.append(Grown(lane_id, place.pid, place.endpoint_id, place.key, seq, event))
        stamps = _encode(one.stamps)
        events.append(
            (n, tenant, event.id, event.type, event.key, event.data, event.created_at, event.replay_of, stamps)
        )
    yield Many(_ADD_EVENTS, events)
    yield Many(_ADD_LANE_EVENTS, lane_events)
    yield Many(_ADD_LOOSE, loose)
    return grown


def _reported(results: Sequence[Published | Refused | _Accepted]) -> Generator[Published | Refused]:
    first: set[int] = set()
    for result in results:
        if isinstance(result, _Accepted):
            event = result.draft.event
            stamps = tuple(Stamp(endpoint, seq) for endpoint, _, seq in result.stamps)
            yield Published(event.id, event.type, event.key, event.created_at, stamps, repeated=result.n in first)
            first.add(result.n)
        else:
            yield result


def singly(flow: PublishFlow[T]) -> Flow[T]:
    """The same flow for a connection that takes one statement at a time: a caller's own."""
    try:
        wanted = next(flow)
        while True:
            if isinstance(wanted, Many):
                rows: list[Sequence[Any]] = []
                for row in wanted.rows:
                    params = dict(zip(wanted.insert.columns, row, strict=True))
                    rows.extend((yield Statement(wanted.insert.single, params)))
                wanted = flow.send(rows)
            else:
                wanted = flow.send((yield wanted))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
