"""Whose lanes are these? Leases, partitions and epochs, and what an owner reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hooklane.model.clock import START, Instant
from hooklane.model.event import Event
from hooklane.model.lane import Grown, LaneId, LaneRow, LaneState
from hooklane.store.memory.outbox.health import turned_since
from hooklane.store.memory.outbox.tables import Part, Tables
from hooklane.store.outbox import Lease, Load, News, Roster, Taken


class Mark(NamedTuple):
    """Up to where an owner has read the logs."""

    growth: int
    recoveries: int
    changes: int
    turns: int


def join(tables: Tables, worker: str, lease_ms: int) -> Lease:
    """A name that comes back owns nothing: what it held under its old lease is let go, under a new epoch."""
    for part in tables.parts:
        if part.owner == worker:
            part.owner, part.epoch = None, part.epoch + 1
    return _extend(tables, worker, tables.clock(), lease_ms)


def renew(tables: Tables, worker: str, lease_ms: int) -> Lease | None:
    now = tables.clock()
    return _extend(tables, worker, now, lease_ms) if is_alive(tables, worker, now) else None


def _extend(tables: Tables, worker: str, now: Instant, lease_ms: int) -> Lease:
    until = tables.workers[worker] = Instant(now + lease_ms)
    return Lease(now, until)


def is_alive(tables: Tables, worker: str | None, now: Instant) -> bool:
    return worker is not None and now < tables.workers.get(worker, START)


def roster(tables: Tables) -> Roster:
    now = tables.clock()
    owners = Counter(part.owner for part in tables.parts)
    owned = {worker: owners[worker] for worker in tables.workers if is_alive(tables, worker, now)}
    return Roster(owned, len(tables.parts) - sum(owned.values()), now)


def acquire(tables: Tables, worker: str, most: int) -> Sequence[Taken]:
    now = tables.clock()
    if not is_alive(tables, worker, now):
        return []
    free = [
        (part.owner is not None, pid) for pid, part in enumerate(tables.parts) if not is_alive(tables, part.owner, now)
    ]
    taken: list[Taken] = []
    for unclean, pid in sorted(free)[:most]:  # those that were given back first
        part = tables.parts[pid]
        part.owner, part.epoch = worker, part.epoch + 1
        taken.append(Taken(pid, part.epoch, unclean))
    return sorted(taken, key=lambda one: one.pid)


def release(tables: Tables, worker: str, pids: Iterable[int]) -> None:
    for pid in pids:
        part = tables.parts[pid]
        if part.owner == worker:
            part.owner = None


def leave(tables: Tables, worker: str) -> None:
    release(tables, worker, range(len(tables.parts)))
    tables.workers.pop(worker, None)


def expire(tables: Tables, workers: Iterable[str]) -> None:
    for worker in workers:
        tables.workers[worker] = START


def is_owner(part: Part, worker: str, epoch: int | None) -> bool:
    return part.owner == worker and part.epoch == epoch


def load(tables: Tables, worker: str, epochs: Mapping[int, int]) -> Load:
    lanes = owed(tables, worker, epochs)
    health = list(tables.health.values())
    return Load(lanes, list(tables.endpoints.values()), mark_of(tables), tables.clock(), health)


def owed(tables: Tables, worker: str, epochs: Mapping[int, int]) -> Mapping[int, Sequence[LaneRow]]:
    mine = [pid for pid, epoch in epochs.items() if is_owner(tables.parts[pid], worker, epoch)]
    return {pid: [row for lane in tables.owed([pid]) if not is_over(row := tables.row_of(lane))] for pid in mine}


def mark_of(tables: Tables) -> Mark:
    return Mark(len(tables.growth), len(tables.recoveries), len(tables.changes), len(tables.turns))


def poll(tables: Tables, pids: Iterable[int], mark: Mark) -> News:
    wanted = set(pids)
    grown = []
    for lane_id, seq in tables.growth[mark.growth :]:
        lane = tables.lanes[lane_id]
        if lane.pid in wanted:
            grown.append(Grown(lane_id, lane.pid, lane.endpoint_id, lane.key, seq))
    recovered = [one for one in tables.recoveries[mark.recoveries :] if tables.lanes[one].pid in wanted]
    changed = dict.fromkeys(tables.changes[mark.changes :])
    endpoints = [tables.endpoints[one] for one in changed if one in tables.endpoints]
    turned = turned_since(tables, mark.turns)
    return News(grown, recovered, endpoints, mark_of(tables), tables.clock(), turned)


def reload(tables: Tables, lane_ids: Iterable[LaneId]) -> Sequence[LaneRow]:
    rows = [tables.row_of(lane) for one in lane_ids if (lane := tables.lanes.get(one)) is not None]
    return [row for row in rows if row.id > 0 or (row.head <= row.tail and not is_over(row))]


def is_over(row: LaneRow) -> bool:
    """A loose delivery that is dead is not owed any more."""
    return row.state is LaneState.BLOCKED and row.id < 0


def fetch(tables: Tables, wants: Iterable[tuple[LaneId, int, int]]) -> Sequence[tuple[LaneId, int, Event]]:
    found: list[tuple[LaneId, int, Event]] = []
    for lane_id, seq, many in wants:
        lane = tables.lanes.get(lane_id)
        if lane is not None:
            found.extend((lane_id, seq + n, event) for n, event in enumerate(lane.events[seq - 1 : seq - 1 + many]))
    return found
