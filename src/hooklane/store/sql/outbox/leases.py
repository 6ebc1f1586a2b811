"""Which worker owns what? Leases by the database's clock, partitions whose epoch grows with each change of owner."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.clock import Instant
from hooklane.model.jumps import set_back
from hooklane.store.outbox import Lease, Roster, Taken
from hooklane.store.sql.outbox.steps import Flow, sql

_WAITING = ("move_lanes", "move_loose", "move_redeliveries", "move_health", "move_workers")


def keep_clock() -> Flow[None]:
    """Note what time it is, for the next look: a clock that was set back since the last one moves what waits.

    Otherwise a retry would wait for the clock to catch up, for a day or for years, and so would a dead worker's lease.
    """
    for last, now in (yield sql("clock")):
        if by := set_back(last, Instant(now)):
            for name in _WAITING:
                yield sql(name, by=by, now=now)
        yield sql("keep_clock", now=now)


def join(worker: str, lease_ms: int) -> Flow[Lease]:
    yield from keep_clock()
    yield sql("let_go", worker=worker)
    ((now, until),) = yield sql("join", worker=worker, lease_ms=lease_ms)
    return Lease(Instant(now), Instant(until))


def renew(worker: str, lease_ms: int) -> Flow[Lease | None]:
    yield from keep_clock()
    rows = yield sql("renew", worker=worker, lease_ms=lease_ms)
    return Lease(Instant(rows[0][0]), Instant(rows[0][1])) if rows else None


def roster() -> Flow[Roster]:
    rows = yield sql("roster")
    owned = {worker: many for worker, many, _ in rows if worker is not None}
    ((_, free, now),) = [row for row in rows if row[0] is None]
    return Roster(owned, free, Instant(now))


def acquire(worker: str, most: int) -> Flow[Sequence[Taken]]:
    if not (yield sql("worker_is_alive", worker=worker)):
        return []  # our own lease has expired: what we took would be taken from us at once
    dead = [row[0] for row in (yield sql("expired_workers", worker=worker))]
    free = {row[0]: bool(row[1]) for row in (yield sql("free_partitions", dead=dead, most=most))}
    if not free:
        return []
    taken = yield sql("take_partitions", worker=worker, pids=list(free))
    return sorted((Taken(pid, epoch, free[pid]) for pid, epoch in taken), key=lambda one: one.pid)


def release(worker: str, pids: Sequence[int]) -> Flow[None]:
    yield sql("release", worker=worker, pids=list(pids))


def expire(workers: Sequence[str]) -> Flow[None]:
    yield sql("expire", workers=list(workers))


def leave(worker: str) -> Flow[None]:
    yield from keep_clock()
    yield sql("release_all", worker=worker)
    yield sql("leave", worker=worker)
