"""Does the database still hold what a process had sent or published? Where not, that is on record, and lanes jump."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hooklane.model.clock import Instant
from hooklane.model.ids import dead_letter_id
from hooklane.model.lost import (
    ACTOR,
    REUSED,
    Decide,
    KnownPlace,
    LostLane,
    Mend,
    by_lane,
    is_lost_id,
    lost_event,
    lost_in,
    reused_in,
    reused_note,
    sent_by_seq,
)
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.steps import Batch, Flow, sql


def unheld(places: Sequence[KnownPlace], now: Instant) -> Flow[list[KnownPlace]]:
    """Those that may be lost, as a look shows that holds nothing; of a lane all that is known."""
    # Of a tenant that was deleted nothing is there, and nothing is lost.
    there = {id for (id,) in (yield sql("tenants_there", tenants=sorted({one.tenant for one in places})))}
    places = [one for one in places if one.tenant in there]
    rows = yield Batch("unheld_places", [_row(one, now) for one in places if one.key is not None])
    lanes = {(endpoint, key) for endpoint, key in rows}
    rows = yield Batch("unheld_events", [_row(one, now) for one in places if one.key is None])
    loose = {(endpoint, None, event_id) for endpoint, event_id in rows}
    return [
        one
        for one in places
        if (one.endpoint_id, one.key) in lanes or (one.endpoint_id, one.key, one.event_id) in loose
    ]


def _row(place: KnownPlace, now: Instant) -> dict[str, object]:
    named = f'"{place.event_id}"'
    return {**place._asdict(), "lost_id": lost_event(place, now).id, "named": named}


def account_for(places: Sequence[KnownPlace], decide: Decide, now: Instant) -> Flow[list[LostLane]]:
    """Look again at *places*, lane by lane, while none can publish there, and mend what is lost."""
    found: list[LostLane | None] = []
    lanes = by_lane(places)
    # In the order in which publishers hold them.
    for lane in sorted(lanes, key=lambda lane: (lane[0].encode(), lane[1].encode())):
        one = yield from _mend_lane(lanes[lane], decide, now)
        found += [one]
    for endpoint_id in dict.fromkeys(place.endpoint_id for place in places if place.key is None):
        loose = [one for one in places if one.key is None and one.endpoint_id == endpoint_id]
        one = yield from _tell(loose, now)
        found += [one]
    told = [one for one in found if one is not None]
    if told:
        yield from audit.append_all([one.act(now) for one in told])
    return told


def _tell(places: Sequence[KnownPlace], now: Instant) -> Flow[LostLane | None]:
    """What is lost and has no place to be filled: a delivery without order, or one whose endpoint is lost as well."""
    rows = yield Batch("unheld_events", [_row(one, now) for one in places])
    lost = {event_id for _, event_id in rows}
    gone = [one for one in places if one.event_id in lost]
    for place in gone:
        yield from _add_event(place, [place.event_id], [], now)
    one = places[0]
    return LostLane(one.tenant, one.endpoint_id, one.key, tuple((p.seq, p.event_id) for p in gone)) if gone else None


def _mend_lane(places: Sequence[KnownPlace], decide: Decide, now: Instant) -> Flow[LostLane | None]:
    one, sent = places[0], sent_by_seq(places)
    where = {"endpoint": one.endpoint_id, "key": one.key}
    rows = yield sql("hold_lost_lane", **where)
    is_new = not rows
    if is_new:
        if not (yield sql("known_endpoint", endpoint=one.endpoint_id)):
            return (yield from _tell(places, now))
        yield sql("make_lost_lane", tenant=one.tenant, pid=one.pid, **where)
        rows = yield sql("hold_lost_lane", **where)
    ((lane_id, pid),) = rows
    mend, stored = None, {}
    for is_fenced in (False, True):  # acks may come until their owner is fenced
        ((head, tail),) = [(1, 0)] if is_new else (yield sql("ends_of_lane", lane=lane_id))
        rows = yield sql("ids_in_lane", lane=lane_id, first=min(sent), actor=ACTOR)
        stored = {seq: [event_id, *_on_record(event_id, data, note)] for seq, event_id, data, note in rows}
        mend = decide(sent, stored, head, tail)
        if mend is None:
            return None
        if not is_fenced:
            yield sql("fence_partition", pid=pid)
    assert mend is not None
    if mend.lost:
        yield from _move_up(lane_id, mend)
        for seq, ids in mend.lost.items():
            place = one._replace(seq=seq)
            n = yield from _add_event(place, ids, [(place.endpoint_id, lane_id, seq)], now)
            yield sql("add_lost_place", lane=lane_id, seq=seq, n=n, pid=pid, tenant=one.tenant)
        yield sql("set_lost_tail", lane=lane_id, tail=mend.tail)
    for seq, ids in mend.unnamed.items():
        event = lost_event(one._replace(seq=seq), now, [*stored[seq][1:], *ids])
        yield sql("name_lost", tenant=one.tenant, id=event.id, data=event.data)
    for seq, ids in mend.reused.items():
        yield from _note_reused(lane_id, one, seq, reused_note(ids), now)
    moved = len(mend.moves)
    return LostLane(one.tenant, one.endpoint_id, one.key, mend.all_lost, mend.all_reused, mend.tail + 1, moved)


def _on_record(event_id: str, data: bytes, note: str | None) -> list[str]:
    """The events that are known to have been lost in a place."""
    return lost_in(bytes(data)) if is_lost_id(event_id) else reused_in(note or "")


def _move_up(lane_id: int, mend: Mend) -> Flow[None]:
    new = dict(mend.moves)
    moved = []
    for seq, n, stamps in (yield sql("events_from", lane=lane_id, first=mend.first)):
        if seq in new:
            told = [
                (endpoint, lane, new[seq] if lane == lane_id else at)
                for endpoint, lane, at in msgspec.json.decode(stamps)
            ]
            moved.append({"n": n, "stamps": msgspec.json.encode(told)})
    yield Batch("restamp", moved)
    moves = [{"seq": old, "to_seq": new} for old, new in mend.moves]
    # Out of the way first, below zero: two places must not be one on the way.
    yield Batch("lift_places", moves, {"lane": lane_id})
    yield sql("lower_places", lane=lane_id)
    # Only a head can have been tried.
    for name in ("move_letters", "move_attempts"):
        yield Batch(name, moves[:1], {"lane": lane_id})
    yield sql("forget_head", lane=lane_id, first=mend.first)


def _add_event(place: KnownPlace, lost: Sequence[str], stamps: Sequence[object], now: Instant) -> Flow[int]:
    event = lost_event(place, now, lost)
    fields = {"id": event.id, "type": event.type, "key": event.key, "data": event.data}
    told = msgspec.json.encode(stamps)
    ((n,),) = yield sql("add_lost_event", tenant=event.tenant, at=now, stamps=told, **fields)
    return int(n)


def _note_reused(lane_id: int, one: KnownPlace, seq: int, note: str, now: Instant) -> Flow[None]:
    ((event_id, created_at),) = yield sql("event_at", lane=lane_id, seq=seq)
    letter = dead_letter_id(event_id, created_at, one.endpoint_id)
    common = {"tenant": one.tenant, "note": note, "actor": ACTOR, "now": now}
    yield Batch("add_skipped", [{"lane_id": lane_id, "seq": seq}], common)
    where = {"tenant": one.tenant, "endpoint": one.endpoint_id, "lane": lane_id, "seq": seq}
    yield sql("add_reused_letter", id=letter, reason=REUSED, note=note, at=now, **where)
