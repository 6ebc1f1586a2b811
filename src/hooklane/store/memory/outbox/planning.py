"""Which deliveries does a plan mean, and how far is its job?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hooklane.model.audit import Act
from hooklane.model.endpoint import EndpointState
from hooklane.model.event import Event
from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import DeliveryState, LaneId, LaneState
from hooklane.model.plan import JobMember, Member, Op, Progress
from hooklane.model.redelivery import Redelivery, redelivery_lane
from hooklane.store.memory.outbox import recovering
from hooklane.store.memory.outbox.reading import delivery, matches
from hooklane.store.memory.outbox.tables import Ending, Lane, Tables, acked_before
from hooklane.store.recovery import CarriedOut, Mark, Wanted

_DELETED = (EndpointState.DRAINING, EndpointState.CANCELLING)


def selected(tables: Tables, tenant: str, wanted: Wanted) -> Iterator[Member]:
    if wanted.ids:
        for one in wanted.ids:
            yield from _by_id(tables, tenant, one, wanted.endpoint_id)
    elif wanted.state is DeliveryState.DELIVERED:
        for event in list(tables.events.values()):
            if event.tenant == tenant and _fits(wanted, event, event.created_at):
                for member in _members(tables, event, wanted.endpoint_id):
                    if member.state is wanted.state:
                        yield member
    else:
        ending = Ending.DEAD if wanted.state is DeliveryState.DEAD else Ending.SKIPPED
        for dead_row in list(tables.dead_letters.values()):
            lane = tables.lanes[dead_row.lane_id]
            event = lane.events[dead_row.seq - 1]
            if (
                dead_row.ending is ending
                and lane.tenant == tenant
                and wanted.endpoint_id in (None, lane.endpoint_id)
                and _fits(wanted, event, dead_row.died_at, lane.key)
                and matches(wanted.reason, dead_row.reason, one_char=True)
            ):
                yield _member(tables, event, lane, dead_row.seq)


def _fits(wanted: Wanted, event: Event, at: int, lane_key: str | None = None) -> bool:
    return (
        (wanted.key is None or wanted.key in (event.key, lane_key))
        and matches(wanted.type, event.type)
        and (wanted.after is None or at >= wanted.after)
        and (wanted.before is None or at < wanted.before)
    )


def _by_id(tables: Tables, tenant: str, one: str, endpoint_id: str | None) -> Iterable[Member]:
    dead_row = tables.dead_letters.get(one)
    if dead_row is not None and tables.lanes[dead_row.lane_id].tenant == tenant:
        lane = tables.lanes[dead_row.lane_id]
        return [_member(tables, lane.events[dead_row.seq - 1], lane, dead_row.seq)]
    event = tables.events.get((tenant, one))
    return [] if event is None else _members(tables, event, endpoint_id)


def _members(tables: Tables, event: Event, endpoint_id: str | None) -> Iterator[Member]:
    for lane_id, seq in tables.places.get((event.tenant, event.id), ()):
        lane = tables.lanes[lane_id]
        if endpoint_id in (None, lane.endpoint_id):
            yield _member(tables, event, lane, seq)


def _member(tables: Tables, event: Event, lane: Lane, seq: int) -> Member:
    one = delivery(tables, lane, seq)
    letter, version = None, ""
    if one.state in (DeliveryState.DEAD, DeliveryState.SKIPPED):
        letter = dead_letter_id(event.id, event.created_at, lane.endpoint_id)
        version = str(tables.dead_letters[letter].died_at) if letter in tables.dead_letters else ""
    return Member(
        event_id=event.id,
        type=event.type,
        endpoint_id=lane.endpoint_id,
        lane_id=lane.id,
        pid=lane.pid,
        key=event.key if lane.key is None else lane.key,
        seq=None if lane.key is None else seq,
        place=-lane.id if lane.key is None else seq,
        state=one.state,
        version=version,
        dead_letter_id=letter,
        reason=tables.dead_letters[letter].reason if letter in tables.dead_letters else one.reason,
        waiting=lane.tail - seq if one.state is DeliveryState.DEAD else 0,
    )


def changed(tables: Tables, plan_id: str) -> list[int]:
    tenant = next((job.tenant for job in tables.jobs.values() if job.id == plan_id), "")
    return [n for n, one in tables.members.get(plan_id, {}).items() if not _is_as_seen(tables, tenant, one.member)]


def _is_as_seen(tables: Tables, tenant: str, member: Member) -> bool:
    if member.state is DeliveryState.DELIVERED:
        return (tenant, member.event_id) in tables.events
    dead_row = tables.dead_letters.get(member.dead_letter_id or "")
    ending = Ending.DEAD if member.state is DeliveryState.DEAD else Ending.SKIPPED
    if dead_row is None or dead_row.ending is not ending:
        return False
    return member.state is DeliveryState.SKIPPED or str(dead_row.died_at) == member.version


def carry_out(tables: Tables, plan_id: str, op: Op, numbers: Sequence[int], act: Act) -> CarriedOut:
    refused: list[tuple[int, str]] = []
    lanes: dict[LaneId, None] = {}
    members = tables.members[plan_id]
    for n in numbers:
        one = members.get(n)
        if one is None or one.progress is not Progress.PLANNED:
            continue  # done before: the reply to that was lost
        if one.member.state is DeliveryState.DELIVERED:
            why = _send_again(tables, plan_id, one, act, lanes)
        else:
            why = _recover(tables, op, one.member, act, lanes)
        if why is not None:
            refused.append((n, why))
            members[n] = replace(one, progress=Progress.REFUSED, result=why)
        else:
            members[n] = replace(one, progress=Progress.SKIPPED if op is Op.SKIP else Progress.RELEASED)
    return CarriedOut(refused, list(lanes))


def _recover(tables: Tables, op: Op, member: Member, act: Act, lanes: dict[LaneId, None]) -> str | None:
    letter = member.dead_letter_id or ""
    if op is Op.SKIP:
        done = recovering.skip(tables, act.tenant, letter, act.note, act.actor, act.at)
    else:
        done = recovering.replay_unrecorded(tables, act.tenant, letter)
    if done is None:
        return "it is not a dead letter any more"
    lanes[done.lane_id] = None
    return None


def _send_again(tables: Tables, plan_id: str, one: JobMember, act: Act, lanes: dict[LaneId, None]) -> str | None:
    member = one.member
    endpoint = tables.endpoints.get(member.endpoint_id)
    if endpoint is None or endpoint.state in _DELETED:
        return "its endpoint is deleted"
    event = tables.events.get((act.tenant, member.event_id))
    if event is None:
        return "it is not kept any more"
    lane = _line_of(tables, plan_id, act.tenant, member)
    if tables.row_of(lane).state is LaneState.BLOCKED:
        return "an earlier event of its key failed"
    was = tables.lanes[member.lane_id]
    lane.events.append(
        Redelivery(
            event.id,
            event.type,
            event.key,
            event.data,
            event.created_at,
            event.tenant,
            event.replay_of,
            lane_id=was.id,
            lane_key=was.key,
            seq=member.seq,
            prev_seq=0 if member.seq is None else acked_before(was, member.seq),
        )
    )
    tables.sent_again[plan_id, one.n] = (lane.id, lane.tail)
    tables.growth.append((lane.id, lane.tail))
    lanes[lane.id] = None
    return None


def _line_of(tables: Tables, plan_id: str, tenant: str, member: Member) -> Lane:
    lane_id = tables.redeliveries.get((plan_id, member.line))
    if lane_id is not None:
        return tables.lanes[lane_id]
    lane_id = tables.redeliveries[plan_id, member.line] = redelivery_lane(len(tables.redeliveries) + 1)
    return tables.add_lane(Lane(lane_id, member.pid, tenant, member.endpoint_id, None))


def sweep(tables: Tables, plan_id: str) -> list[Mark]:
    marks = []
    members = tables.members.get(plan_id, {})
    for n, one in members.items():
        if one.progress is Progress.RELEASED:
            mark = _outcome(tables, plan_id, one)
            if mark is not None:
                marks.append(mark)
                members[n] = replace(one, progress=mark.progress, result=mark.result)
    return marks


def _outcome(tables: Tables, plan_id: str, one: JobMember) -> Mark | None:
    again = tables.sent_again.get((plan_id, one.n))
    lane_id, seq = again or (one.member.lane_id, one.member.seq or 1)
    lane = tables.lanes[lane_id]
    row = tables.row_of(lane)
    if seq in lane.skipped:
        return Mark(one.n, Progress.SKIPPED)
    if seq in lane.cancelled:
        return Mark(one.n, Progress.CANCELLED)
    if row.head > seq:
        return Mark(one.n, Progress.DELIVERED)
    if row.state is LaneState.BLOCKED:
        return Mark(one.n, Progress.FAILED, lane.reason or "") if row.head == seq else Mark(one.n, Progress.HELD)
    return None


def mark(tables: Tables, plan_id: str, marks: Sequence[Mark]) -> None:
    members = tables.members[plan_id]
    for one in marks:
        found = members[one.n]
        members[one.n] = replace(found, progress=one.progress, result=one.result)
        dead_row = tables.dead_letters.get(found.member.dead_letter_id or "")
        if one.progress is Progress.PUBLISHED and dead_row is not None and dead_row.ending is Ending.SKIPPED:
            dead_row.ending = Ending.REPLAYED
