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
from hooklane.store.outbox import (
    FORGOTTEN,
    UNKNOWN_ENDPOINT,
    Draft,
    Holder,
    Placer,
    Published,
    PublishReport,
    Refused,
    Stamp,
)
from hooklane.store.postgres.commits import WAIT_FOR_STANDBY
from hooklane.store.postgres.outbox.statements import SQL

Name = tuple[str, str]
"""Of a tenant, what may not be used twice."""
Numbered = tuple[str, int]
"""Of a tenant, an event by the number of its row."""


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

    With *again* an earlier try may have been committed: drafts whose id is stored are reported, not stored twice.
    """
    tenants = list({draft.event.tenant for draft in drafts})
    ((there, revs, numbers),) = yield Statement(SQL["begin_publish"], {"tenants": tenants, "many": len(drafts)})
    endpoints = yield from _read_endpoints(dict(zip(there, revs, strict=True)), cache or EndpointCache())
    waiting: list[Accepted] = []
    refused: dict[int, Refused] = {}
    everything: list[Accepted] = []
    for draft, n in zip(drafts, numbers, strict=True):
        one = Accepted(draft, n, ())
        everything.append(one)
        try:
            one.places = placer(draft.event, draft.asked, of_tenant(endpoints, draft))
            waiting.append(one)
        except InvalidEvent as error:
            refused[n] = Refused(error.code, str(error))
    stored = yield from _stored_before([one for one in everything if again or one.draft.has_own_id])
    holders: dict[int, int | Refused] = {
        one.n: stored[one.draft.event.tenant, one.draft.event.id].n
        for one in waiting
        if (one.draft.event.tenant, one.draft.event.id) in stored and not one.draft.has_own_id
    }
    fresh = [one for one in waiting if one.n not in holders]
    holders |= yield from _claim_names(fresh, stored)
    if refused:
        holders |= yield from _known_before(everything, refused, stored)
    accepted = [one for one in fresh if one.n not in holders]
    grown = yield from _stamp(accepted)
    earlier = (yield from _earlier(everything, holders, accepted)) if holders else {}
    return PublishReport([_reported(one, holders, earlier) for one in everything], grown)


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


def _claim_names(waiting: Sequence[Accepted], stored: Mapping[Name, Holder]) -> Flow[dict[int, int | Refused]]:
    """Take the drafts' names. By the number of each draft that may not go on: who came first, or a refusal.

    A name that a draft has beside those of the event that it repeats is that event's from now on.
    """
    wanted: dict[Name, Holder] = {}
    for one in waiting:
        for name in _names(one):
            wanted.setdefault(name, _taken_by(one))
    if not wanted:
        return {}
    claimed = {(tenant, name) for tenant, name in (yield Statement(SQL["claim_names"], _claim_rows(wanted)))}
    owners = yield from _owners(waiting, [name for name in wanted if name not in claimed], stored)
    blocked: dict[int, int | Refused] = {}
    for one in waiting:
        taken = one.draft.repeats([owners.get(name) for name in _names(one)])
        if isinstance(taken, Refused):
            blocked[one.n] = taken
            continue
        if taken is not None:
            blocked[one.n] = int(taken.n)
        for name in _names(one):
            owners.setdefault(name, taken or _taken_by(one))
    wrong = {name: wanted[name] for name in claimed if owners.get(name) is None or owners[name].n != wanted[name].n}
    if wrong:
        yield Statement(SQL["free_names"], {**_name_rows(wrong), "ns": [taken.n for taken in wrong.values()]})
    if heirs := {name: owners[name] for name in wrong if name in owners}:
        yield Statement(SQL["claim_names"], _claim_rows(heirs))
    return blocked


def _known_before(
    everything: Sequence[Accepted], refused: Mapping[int, Refused], stored: Mapping[Name, Holder]
) -> Flow[dict[int, int | Refused]]:
    """By the number of each draft that has no place: the event that it repeats, or why it is refused.

    What was accepted before stays so, though an endpoint that it named is deleted since.
    """
    asking = [one for one in everything if one.n in refused and refused[one.n].code == UNKNOWN_ENDPOINT]
    names = [name for one in asking for name in _names(one)]
    owners = (yield from _owners(asking, names, stored)) if names else {}
    found: dict[int, int | Refused] = dict(refused)
    for one in asking:
        taken = one.draft.repeats([owners.get(name) for name in _names(one)])
        if taken is None and not one.draft.has_own_id:
            taken = stored.get((one.draft.event.tenant, one.draft.event.id))  # an earlier try of its own
        if taken is not None:
            found[one.n] = taken if isinstance(taken, Refused) else int(taken.n)
    return found


def _owners(
    asking: Sequence[Accepted], names: Sequence[Name], stored: Mapping[Name, Holder]
) -> Flow[dict[Name, Holder]]:
    """Who has *names*, also by an id that we gave, or by what an older hooklane called a name."""
    former = {
        (one.draft.event.tenant, one.draft.former): (one.draft.event.tenant, one.draft.names[0])
        for one in asking
        if one.draft.former is not None
    }
    owners: dict[Name, Holder] = {}
    if names or former:
        rows = yield Statement(SQL["holders_of_names"], _name_rows({*names, *former}))
        for tenant, name, digest, n, event_id, answer, created_at in rows:
            kept = msgspec.json.decode(answer)[0] if event_id is None and answer is not None else None
            owners[tenant, name] = Holder(bytes(digest), n, event_id or kept, created_at)
    for one in asking:
        event, draft = one.draft.event, one.draft
        if draft.has_own_id and (by_id := stored.get((event.tenant, event.id))) is not None:
            owners.setdefault((event.tenant, f"id:{event.id}"), by_id)
        before = None if draft.former is None else owners.get((event.tenant, draft.former))
        if before is not None and before.digest == draft.digest:
            owners.setdefault((event.tenant, draft.names[0]), before)
    return owners


def _taken_by(one: Accepted) -> Holder:
    event = one.draft.event
    return Holder(one.draft.digest, one.n, event.id, event.created_at)


def _names(one: Accepted) -> Iterable[Name]:
    return ((one.draft.event.tenant, name) for name in one.draft.names)


def _name_rows(names: Iterable[Name]) -> dict[str, Any]:
    tenants, texts = zip(*names, strict=True)
    return {"tenants": list(tenants), "names": list(texts)}


def _claim_rows(claims: Mapping[Name, Holder]) -> dict[str, Any]:
    owners = claims.values()
    return {
        **_name_rows(claims),
        "digests": [one.digest for one in owners],
        "ns": [one.n for one in owners],
        "ats": [one.created_at for one in owners],
    }


def _stored_before(waiting: Sequence[Accepted]) -> Flow[dict[Name, Holder]]:
    """By tenant and id: the event that has the id of a draft already, without a name that would tell.

    An id that we gave to this draft can only have been stored by an earlier try of it. One that the caller chose may be
    one that we gave to any event, of which the content decides.
    """
    if not waiting:
        return {}
    drafts = {(one.draft.event.tenant, one.draft.event.id): one.draft for one in waiting}
    tenants, ids = zip(*drafts, strict=True)
    params = {"tenants": list(tenants), "ids": list(ids)}
    found: dict[Name, Holder] = {}
    for tenant, id_, n, type_, key, data, stamps, created_at in (yield Statement(SQL["unnamed_events"], params)):
        endpoints = [endpoint for endpoint, _, _ in msgspec.json.decode(stamps)]
        same = (one.draft for one in waiting if (one.draft.event.tenant, one.draft.event.id) == (tenant, id_))
        digests = [draft.digest for draft in same if draft.is_same(type_, key, bytes(data), endpoints)]
        found[tenant, id_] = Holder(digests[0] if digests else b"", n, id_, created_at)
    return found


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


def _earlier(
    waiting: Sequence[Accepted], holders: Mapping[int, int | Refused], accepted: Sequence[Accepted]
) -> Flow[dict[Numbered, Published]]:
    """The answers of the events that came first, in this commit or before it."""
    asked = {(one.draft.event.tenant, holder) for one in waiting if isinstance(holder := holders.get(one.n), int)}
    here = {(one.draft.event.tenant, one.n): one for one in accepted}
    before = yield from _published_before(asked - here.keys())
    return before | {first: _answer(here[first], repeated=True) for first in asked & here.keys()}


def _published_before(asked: set[Numbered]) -> Flow[dict[Numbered, Published]]:
    """The answers that were given before, as they were given: each to the tenant whose event it is, and to no other."""
    if not asked:
        return {}
    rows = list((yield Statement(SQL["published_events"], _number_rows(asked))))
    if gone := asked - {(row[0], row[1]) for row in rows}:  # pruned: their answers were kept with their names
        kept = yield Statement(SQL["kept_answers"], _number_rows(gone))
        rows += [(tenant, n, *msgspec.json.decode(answer)) for tenant, n, answer in kept]
    # Also for a caller that writes nothing else: what is said to be stored must be on the standby after the commit.
    yield WAIT_FOR_STANDBY
    return {
        (tenant, n): Published(event_id, type_, key, created_at, _stamps(msgspec.json.decode(stamps)), repeated=True)
        for tenant, n, event_id, type_, key, created_at, stamps in rows
    }


def _number_rows(numbered: Iterable[Numbered]) -> dict[str, Any]:
    tenants, ns = zip(*sorted(numbered), strict=True)
    return {"tenants": list(tenants), "ns": list(ns)}


def _stamps(stamps: Iterable[Sequence[Any]]) -> tuple[Stamp, ...]:
    return tuple([Stamp(endpoint, seq) for endpoint, _, seq in stamps])


def _reported(
    result: Accepted, holders: Mapping[int, int | Refused], earlier: Mapping[Numbered, Published]
) -> Published | Refused:
    holder = holders.get(result.n)
    if holder is None:
        return _answer(result, repeated=False)
    if isinstance(holder, Refused):
        return holder
    return earlier.get((result.draft.event.tenant, holder), FORGOTTEN)


def _answer(one: Accepted, *, repeated: bool) -> Published:
    event = one.draft.event
    return Published(event.id, event.type, event.key, event.created_at, _stamps(one.stamps), repeated)
