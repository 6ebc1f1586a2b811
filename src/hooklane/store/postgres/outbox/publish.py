"""How does an event get its place? One flow for the server's group commit and for a caller's own transaction."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import Grown, Place
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.codec import decode_endpoint
from hooklane.store.endpoint_cache import EndpointCache, of_tenant
from hooklane.store.outbox import Draft, Placer, Published, PublishReport, Refused, Stamp
from hooklane.store.postgres.commits import WAIT_FOR_STANDBY
from hooklane.store.postgres.outbox.statements import SQL

Name = tuple[str, str]
"""Of a tenant, what may not be used twice."""


@dataclass(slots=True)
class Accepted:
    """A draft on its way in: the number of its row and its places, which get their seq together with others'."""

    draft: Draft
    n: int
    places: Sequence[Place]
    stamps: list[tuple[str, int, int | None]] = field(default_factory=list)
    """(endpoint, lane, seq) each; a loose delivery has a negative lane and no seq."""


def publish(
    drafts: Sequence[Draft], placer: Placer, cache: EndpointCache | None = None, *, again: bool = False
) -> Flow[PublishReport]:
    """Stamp and store *drafts* in order; one that is refused leaves no trace and stops no other.

    With *again* an earlier try may have been committed: drafts whose own id is stored are reported, not stored twice.
    """
    tenants = list({draft.event.tenant for draft in drafts})
    ((there, revs, numbers),) = yield Statement(SQL["begin_publish"], {"tenants": tenants, "many": len(drafts)})
    endpoints = yield from _read_endpoints(dict(zip(there, revs, strict=True)), cache or EndpointCache())
    waiting: list[Accepted] = []
    results: list[Refused | Accepted] = []
    for draft, n in zip(drafts, numbers, strict=True):
        try:
            places = placer(draft.event, draft.asked, of_tenant(endpoints, draft))
        except InvalidEvent as error:
            results.append(Refused(error.code, str(error)))
            continue
        waiting.append(Accepted(draft, n, places))
        results.append(waiting[-1])
    holders: dict[int, int | Refused] = (yield from _stored_before(waiting)) if again else {}
    fresh = [one for one in waiting if one.n not in holders]
    holders |= yield from _claim_names(fresh)
    accepted = [one for one in fresh if one.n not in holders]
    grown = yield from _stamp(accepted)
    before = yield from _published_before(holders.values(), {one.n for one in accepted})
    first = set(holders.values())
    earlier = before | {one.n: _answer(one, repeated=True) for one in accepted if first and one.n in first}
    return PublishReport([_reported(result, holders, earlier) for result in results], grown)


def _read_endpoints(revs: Mapping[str, int], cache: EndpointCache) -> Flow[Mapping[str, Sequence[Endpoint]]]:
    """Read inside the publishing transaction: an endpoint whose creation was answered must not be missed.

    Each tenant's revision is read first, so what is kept under it can only be newer.
    """
    found = {tenant: known for tenant, rev in revs.items() if (known := cache.of(tenant, rev)) is not None}
    if unknown := [tenant for tenant in revs if tenant not in found]:
        read: dict[str, list[Endpoint]] = {tenant: [] for tenant in unknown}
        for tenant, doc in (yield Statement(SQL["endpoints_of_tenants"], {"tenants": unknown})):
            read[tenant].append(decode_endpoint(doc))
        for tenant, endpoints in read.items():
            found[tenant] = cache.keep(tenant, revs[tenant], endpoints)
    return found


# --- names ---


def _claim_names(waiting: Sequence[Accepted]) -> Flow[dict[int, int | Refused]]:
    """Take the drafts' names. By the number of each draft that may not go on: who came first, or a refusal."""
    claims: dict[Name, Accepted] = {}
    for one in waiting:
        for name in _names(one):
            claims.setdefault(name, one)
    if not claims:
        return {}
    taken = {(tenant, name) for tenant, name in (yield Statement(SQL["claim_names"], _claim_rows(claims)))}
    owners: dict[Name, tuple[bytes, int]] = {}
    if len(taken) < len(claims):
        rows = yield Statement(SQL["holders_of_names"], _name_rows(name for name in claims if name not in taken))
        owners = {(tenant, name): (bytes(digest), holder) for tenant, name, digest, holder in rows}
    blocked: dict[int, int | Refused] = {}
    for one in waiting:
        owner = next((owners[name] for name in _names(one) if name in owners), None)
        if owner is None:
            owners.update(dict.fromkeys(_names(one), (one.draft.digest, one.n)))
        else:
            blocked[one.n] = _same(*owner, one.draft.digest)
    # A draft that may not go on leaves its other names free, unless one behind it wants them.
    if spare := {name: one for name, one in claims.items() if name in taken and one.n in blocked}:
        yield Statement(SQL["free_names"], {**_name_rows(spare), "ns": [one.n for one in spare.values()]})
        heirs = {name: one for one in waiting if one.n not in blocked for name in _names(one) if name in spare}
        if heirs:
            yield Statement(SQL["claim_names"], _claim_rows(heirs))
    return blocked


def _same(digest: bytes, holder: int, other: bytes) -> int | Refused:
    if digest == other:
        return holder
    return Refused("idempotency_conflict", "this idempotency key or id was used for an event with other content")


def _names(one: Accepted) -> Iterable[Name]:
    return ((one.draft.event.tenant, name) for name in one.draft.names)


def _name_rows(names: Iterable[Name]) -> dict[str, Any]:
    tenants, texts = zip(*names, strict=True)
    return {"tenants": list(tenants), "names": list(texts)}


def _claim_rows(claims: Mapping[Name, Accepted]) -> dict[str, Any]:
    owners = claims.values()
    return {
        **_name_rows(claims),
        "digests": [one.draft.digest for one in owners],
        "ns": [one.n for one in owners],
        "ats": [one.draft.event.created_at for one in owners],
    }


def _stored_before(waiting: Sequence[Accepted]) -> Flow[dict[int, int | Refused]]:
    events = [one.draft.event for one in waiting]
    params = {"tenants": [event.tenant for event in events], "ids": [event.id for event in events]}
    rows = yield Statement(SQL["events_by_own_id"], params)
    stored = {(tenant, event_id): n for n, tenant, event_id in rows}
    return {one.n: stored[key] for one in waiting if (key := (one.draft.event.tenant, one.draft.event.id)) in stored}


# --- places ---


def _stamp(accepted: Sequence[Accepted]) -> Flow[list[Grown]]:
    """Give every accepted event its places: behind the last of its lanes, which are held."""
    if not accepted:
        return []
    heads = yield from _hold_lanes(accepted)
    loose_numbers = yield from _loose_numbers(accepted)
    grown: list[Grown] = []
    in_lanes: list[tuple[int, int, int, int, str]] = []
    loosely: list[tuple[int, str, str, int, int]] = []
    for one in accepted:
        event = one.draft.event
        for place in one.places:
            if place.key is None:
                n = next(loose_numbers)
                one.stamps.append((place.endpoint_id, -n, None))
                loosely.append((n, event.tenant, place.endpoint_id, place.pid, one.n))
                grown.append(Grown(-n, place.pid, place.endpoint_id, None, 1, event))
            else:
                head = heads[place.endpoint_id, place.key]
                lane_id, seq = head
                head[1] += 1
                one.stamps.append((place.endpoint_id, lane_id, seq))
                in_lanes.append((lane_id, seq, one.n, place.pid, event.tenant))
                grown.append(Grown(lane_id, place.pid, place.endpoint_id, place.key, seq, event))
    yield Statement(SQL["store_events"], _rows_to_store(accepted, in_lanes, loosely))
    if traced := [one for one in accepted if one.draft.event.trace is not None]:
        params = {"ns": [one.n for one in traced], "traces": [one.draft.event.trace for one in traced]}
        yield Statement(SQL["note_traces"], params)
    return grown


def _hold_lanes(accepted: Sequence[Accepted]) -> Flow[dict[tuple[str, str], list[int]]]:
    """For each lane its id and the first seq that is ours."""
    where: dict[tuple[str, str], tuple[str, int]] = {}
    for one in accepted:
        for place in one.places:
            if place.key is not None:
                where[place.endpoint_id, place.key] = one.draft.event.tenant, place.pid
    if not where:
        return {}
    lanes = list(where)
    params = {
        "tenants": [where[lane][0] for lane in lanes],
        "endpoints": [endpoint for endpoint, _ in lanes],
        "keys": [key for _, key in lanes],
        "pids": [where[lane][1] for lane in lanes],
        "hints": [0] * len(lanes),
    }
    ((ids, tails),) = yield Statement(SQL["hold_lanes"], params)
    return {lane: [lane_id, tail + 1] for lane, lane_id, tail in zip(lanes, ids, tails, strict=True)}


def _loose_numbers(accepted: Sequence[Accepted]) -> Flow[Generator[int]]:
    many = sum(place.key is None for one in accepted for place in one.places)
    rows = (yield Statement(SQL["loose_numbers"], {"many": many})) if many else ()
    return (int(n) for (n,) in rows)


def _rows_to_store(
    accepted: Sequence[Accepted],
    in_lanes: Sequence[tuple[int, int, int, int, str]],
    loosely: Sequence[tuple[int, str, str, int, int]],
) -> dict[str, Any]:
    events = [one.draft.event for one in accepted]
    lanes, loose = list(zip(*in_lanes, strict=True)), list(zip(*loosely, strict=True))
    lanes, loose = lanes or [()] * 5, loose or [()] * 5
    return {
        "many": len(in_lanes),
        "ns": [one.n for one in accepted],
        "tenants": [event.tenant for event in events],
        "ids": [event.id for event in events],
        "types": [event.type for event in events],
        "keys": [event.key for event in events],
        "datas": [event.data for event in events],
        "ats": [event.created_at for event in events],
        "replays": [event.replay_of for event in events],
        "stamps": [msgspec.json.encode(one.stamps) for one in accepted],
        **dict(zip(("lane_ids", "seqs", "lane_ns", "lane_pids", "lane_tenants"), map(list, lanes), strict=True)),
        **dict(
            zip(
                ("loose_ns", "loose_tenants", "loose_endpoints", "loose_pids", "loose_events"),
                map(list, loose),
                strict=True,
            )
        ),
    }


# --- what is answered ---


def _published_before(holders: Iterable[int | Refused], fresh: set[int]) -> Flow[dict[int, Published]]:
    """The answers that were given before, as they were given."""
    ns = {holder for holder in holders if isinstance(holder, int)} - fresh
    if not ns:
        return {}
    rows = list((yield Statement(SQL["published_events"], {"ns": sorted(ns)})))
    if gone := ns - {row[0] for row in rows}:  # pruned: their answers were kept with their names
        kept = yield Statement(SQL["kept_answers"], {"ns": sorted(gone)})
        rows += [(n, *msgspec.json.decode(answer)) for n, answer in kept]
    # Also for a caller that writes nothing else: what is said to be stored must be on the standby after the commit.
    yield WAIT_FOR_STANDBY
    return {
        n: Published(event_id, type_, key, created_at, _stamps(msgspec.json.decode(stamps)), repeated=True)
        for n, event_id, type_, key, created_at, stamps in rows
    }


def _stamps(stamps: Iterable[Sequence[Any]]) -> tuple[Stamp, ...]:
    return tuple([Stamp(endpoint, seq) for endpoint, _, seq in stamps])


def _reported(
    result: Refused | Accepted, holders: Mapping[int, int | Refused], earlier: Mapping[int, Published]
) -> Published | Refused:
    if isinstance(result, Refused):
        return result
    holder = holders.get(result.n)
    if holder is None:
        return _answer(result, repeated=False)
    return holder if isinstance(holder, Refused) else earlier[holder]


def _answer(one: Accepted, *, repeated: bool) -> Published:
    event = one.draft.event
    return Published(event.id, event.type, event.key, event.created_at, _stamps(one.stamps), repeated)
