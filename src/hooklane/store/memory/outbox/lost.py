"""Do the tables still hold what a process had sent or published? Where not, that is on record, and lanes jump."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.clock import Instant
from hooklane.model.ids import dead_letter_id
from hooklane.model.lost import (
    REUSED,
    Decide,
    KnownPlace,
    LostLane,
    Mend,
    by_lane,
    is_lost,
    lost_event,
    lost_in,
    reused_in,
    reused_note,
    sent_by_seq,
)
from hooklane.store.memory.outbox.settling import move_head
from hooklane.store.memory.outbox.tables import DeadRow, Ending, Lane, Tables


def account_for(tables: Tables, places: Sequence[KnownPlace], decide: Decide, now: Instant) -> list[LostLane]:
    # Of a tenant that was deleted nothing is there, and nothing is lost.
    there = {tenant.id for tenant in tables.tenants.values() if tenant.is_there}
    places = [place for place in places if place.tenant in there]
    found = []
    for (endpoint_id, key), known in by_lane(places).items():
        if (endpoint_id, key) in tables.lane_ids or endpoint_id in tables.endpoints:
            one = _mend_lane(tables, known, decide, now)
        else:
            one = _tell(tables, known, now)
        if one is not None:
            found.append(one)
    for endpoint_id in dict.fromkeys(place.endpoint_id for place in places if place.key is None):
        loose = [place for place in places if place.key is None and place.endpoint_id == endpoint_id]
        if (one := _tell(tables, loose, now)) is not None:
            found.append(one)
    for one in found:
        tables.told_lost.append(one.act(now))
    return found


def _tell(tables: Tables, places: Sequence[KnownPlace], now: Instant) -> LostLane | None:
    """What is lost and has no place to be filled: a delivery without order, or one whose endpoint is lost as well."""
    gone = []
    for place in places:
        event = lost_event(place, now, [place.event_id])
        if tables.events.keys().isdisjoint([(place.tenant, place.event_id), (place.tenant, event.id)]):
            tables.events[place.tenant, event.id] = event
            gone.append((place.seq, place.event_id))
    one = places[0]
    return LostLane(one.tenant, one.endpoint_id, one.key, tuple(gone)) if gone else None


def _mend_lane(tables: Tables, places: Sequence[KnownPlace], decide: Decide, now: Instant) -> LostLane | None:
    one, sent = places[0], sent_by_seq(places)
    assert one.key is not None
    lane_id = tables.lane_ids.get((one.endpoint_id, one.key))
    if lane_id is None:
        lane_id = tables.lane_ids[one.endpoint_id, one.key] = len(tables.lane_ids) + 1
        tables.add_lane(Lane(lane_id, one.pid, one.tenant, one.endpoint_id, one.key))
    lane, start = tables.lanes[lane_id], min(sent)
    stored: dict[int, list[str]] = {}
    for seq, event in enumerate(lane.events[start - 1 :], start):
        stored[seq] = [event.id, *(lost_in(event.data) if is_lost(event) else reused_in(lane.skipped.get(seq, "")))]
    mend = decide(sent, stored, tables.head_of(lane), lane.tail)
    if mend is None:
        return None
    part = tables.parts[lane.pid]
    part.owner, part.epoch = None, part.epoch + 1
    if mend.lost:
        _move_up(tables, lane, mend, one, now)
    for seq, ids in mend.unnamed.items():
        event = lost_event(one._replace(seq=seq), now, [*stored[seq][1:], *ids])
        lane.events[seq - 1] = tables.events[event.tenant, event.id] = event
    for seq, ids in mend.reused.items():
        event, note = lane.events[seq - 1], reused_note(ids)
        lane.skipped[seq] = note
        letter = dead_letter_id(event.id, event.created_at, lane.endpoint_id)
        tables.dead_letters[letter] = DeadRow(letter, lane.id, seq, 1, REUSED, now, note, Ending.SKIPPED)
    moved = len(mend.moves)
    return LostLane(one.tenant, one.endpoint_id, one.key, mend.all_lost, mend.all_reused, mend.tail + 1, moved)


def _move_up(tables: Tables, lane: Lane, mend: Mend, one: KnownPlace, now: Instant) -> None:
    moves = dict(mend.moves)
    lost = {seq: lost_event(one._replace(seq=seq), now, ids) for seq, ids in mend.lost.items()}
    placed = lost | {moves.get(seq, seq): event for seq, event in enumerate(lane.events[mend.first - 1 :], mend.first)}
    for old, new in reversed(mend.moves):
        event = lane.events[old - 1]
        stands = tables.places[event.tenant, event.id]
        stands[stands.index((lane.id, old))] = (lane.id, new)
    lane.events[mend.first - 1 :] = [placed[seq] for seq in sorted(placed)]
    assert lane.tail == mend.tail
    for seq, event in lost.items():
        tables.events[event.tenant, event.id] = event
        tables.places[event.tenant, event.id] = [(lane.id, seq)]
    tables.growth.append((lane.id, lane.tail))
    for row in tables.dead_letters.values():
        if row.lane_id == lane.id and row.seq in moves:
            row.seq = moves[row.seq]
            if row.ending is Ending.DEAD:
                row.ending = Ending.REPLAYED  # it is tried again, in its new place
    if lane.head == mend.first:
        move_head(lane, lane.head)
        lane.rev += 1
