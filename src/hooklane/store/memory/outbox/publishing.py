"""How does an event get in? Names first, then fan-out, then the next seq of each lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.lane import Grown, Place
from hooklane.model.tenant import TenantState
from hooklane.store.memory.outbox.tables import Lane, Tables
from hooklane.store.outbox import Draft, Holder, NotAll, Published, PublishReport, Refused, Stamp, all_or_nothing
from hooklane.store.tenants import UNKNOWN_TENANT


def publish(tables: Tables, drafts: Sequence[Draft]) -> PublishReport:
    results: list[Published | Refused] = []
    grown: list[Grown] = []
    for draft in drafts:
        result = _known(tables, draft)
        if result is None:
            result = _enter(tables, draft, grown)
        results.append(result)
    return PublishReport(results, grown)


def publish_all(tables: Tables, drafts: Sequence[Draft]) -> PublishReport:
    report = publish(tables, drafts)
    try:
        return all_or_nothing(report)
    except NotAll as refused:
        _take_back(tables, drafts, report)
        return refused.report


def _take_back(tables: Tables, drafts: Sequence[Draft], report: PublishReport) -> None:
    """Undo a publish, last things first; no reader has seen it, because nothing has waited since."""
    for grown in reversed(report.grown):
        lane = tables.lanes[grown.lane_id]
        lane.events.pop()
        tables.growth.pop()
        if not lane.events:
            tables.remove_lane(lane)
    for draft, result in zip(drafts, report.results, strict=True):
        if isinstance(result, Published) and not result.repeated:
            where = (draft.event.tenant, draft.event.id)
            tables.events.pop(where, None)
            tables.places.pop(where, None)
            for name in draft.names:
                tables.names.pop((draft.event.tenant, name), None)


def _known(tables: Tables, draft: Draft) -> Published | Refused | None:
    """What an earlier publish under one of the draft's names came to.

    A name that it has beside those of that event is the event's from now on.
    """
    tenant = draft.event.tenant
    found = [_holder(tables, tenant, name) for name in draft.names]
    if draft.former is not None and found[0] is None:
        former = _holder(tables, tenant, draft.former)
        found[0] = former if former is not None and former.digest == draft.digest else None
    if draft.has_own_id and found[by_id := draft.names.index(f"id:{draft.event.id}")] is None:
        found[by_id] = _holder_of_id(tables, draft)
    taken = draft.repeats(found)
    if not isinstance(taken, Holder):
        return taken
    for name in draft.names:
        tables.names.setdefault((tenant, name), (draft.digest, taken.n))
    published: Published = taken.n
    return replace(published, repeated=True)


def _holder(tables: Tables, tenant: str, name: str) -> Holder | None:
    known = tables.names.get((tenant, name))
    return None if known is None else Holder(known[0], known[1], known[1].event_id, known[1].created_at)


def _holder_of_id(tables: Tables, draft: Draft) -> Holder | None:
    """The event that we gave the draft's own id to, if there is one."""
    where = (draft.event.tenant, draft.event.id)
    event = tables.events.get(where)
    if event is None:
        return None
    lanes = [(tables.lanes[lane_id], seq) for lane_id, seq in tables.places.get(where, ())]
    stamps = tuple(Stamp(lane.endpoint_id, None if lane.key is None else seq) for lane, seq in lanes)
    is_same = draft.is_same(event.type, event.key, event.data, [stamp.endpoint_id for stamp in stamps])
    published = Published(event.id, event.type, event.key, event.created_at, stamps)
    return Holder(draft.digest if is_same else b"", published, event.id, event.created_at)


def _enter(tables: Tables, draft: Draft, grown: list[Grown]) -> Published | Refused:
    event = draft.event
    tenant = tables.tenants.get(event.tenant)
    if tenant is None or not tenant.is_there:
        return Refused(UNKNOWN_TENANT, f"there is no tenant {event.tenant[:80]!r}")
    endpoints = [endpoint for endpoint in tables.endpoints.values() if endpoint.tenant == event.tenant]
    try:
        places = tables.options.placer(event, draft.asked, endpoints)
    except InvalidEvent as error:
        return Refused(error.code, str(error))
    tables.events[event.tenant, event.id] = event
    stamps = tuple(_stamp(tables, event, place, grown) for place in places)
    published = Published(event.id, event.type, event.key, event.created_at, stamps)
    for name in draft.names:
        tables.names[event.tenant, name] = (draft.digest, published)
    return published


def _stamp(tables: Tables, event: Event, place: Place, grown: list[Grown]) -> Stamp:
    lane = _lane_of(tables, event, place)
    lane.events.append(event)
    seq = lane.tail
    tables.growth.append((lane.id, seq))
    tables.places.setdefault((event.tenant, event.id), []).append((lane.id, seq))
    grown.append(Grown(lane.id, lane.pid, lane.endpoint_id, lane.key, seq, event))
    return Stamp(place.endpoint_id, None if place.key is None else seq)


def _lane_of(tables: Tables, event: Event, place: Place) -> Lane:
    if place.key is None:
        return tables.add_lane(Lane(-len(tables.growth) - 1, place.pid, event.tenant, place.endpoint_id, None))
    lane_id = tables.lane_ids.get((place.endpoint_id, place.key))
    if lane_id is not None:
        return tables.lanes[lane_id]
    lane_id = tables.lane_ids[place.endpoint_id, place.key] = len(tables.lane_ids) + 1
    return tables.add_lane(Lane(lane_id, place.pid, event.tenant, place.endpoint_id, place.key))


def save_endpoint(tables: Tables, endpoint: Endpoint, expect: Endpoint | None) -> bool:
    if tables.endpoints.get(endpoint.id) != expect:
        return False
    if expect is not None and expect.state.to(endpoint.state) is not endpoint.state:
        return False
    tenant = tables.tenants.get(endpoint.tenant)
    if tenant is None or not (tenant.is_there or expect is not None):
        return False
    tables.endpoints[endpoint.id] = replace(endpoint, suspended=tenant.state is TenantState.SUSPENDED)
    tables.changes.append(endpoint.id)
    return True
