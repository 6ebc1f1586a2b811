"""Who owns what? Leases by the database's clock, and partitions whose epoch grows with each change of owner."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.clock import Instant
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.outbox import Lease, Roster, Taken

# A name that comes back owns nothing: what it held under its old lease is let go, under a new epoch.
_JOIN = """
INSERT INTO hooklane.worker AS w (id, lease_until) VALUES (:worker, hooklane.now_ms() + :lease_ms::bigint)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
RETURNING lease_until - :lease_ms::bigint, lease_until
"""
_LET_GO = "UPDATE hooklane.part SET owner = NULL, epoch = epoch + 1 WHERE owner = :worker RETURNING pid"
# Judged after any wait for the row: an expired lease is never renewed, however the two clocks stand.
_RENEW = """
UPDATE hooklane.worker SET lease_until = hooklane.now_ms() + :lease_ms::bigint
WHERE id = :worker AND lease_until > hooklane.now_ms()
RETURNING lease_until - :lease_ms::bigint, lease_until
"""
_ROSTER = """
SELECT w.id, count(p.pid), hooklane.now_ms()
FROM (SELECT id FROM hooklane.worker WHERE lease_until > hooklane.now_ms()) w
LEFT JOIN hooklane.part p ON p.owner = w.id GROUP BY w.id
UNION ALL
SELECT NULL, count(*), hooklane.now_ms() FROM hooklane.part WHERE owner IS NULL
    OR owner NOT IN (SELECT id FROM hooklane.worker WHERE lease_until > hooklane.now_ms())
"""
_ALIVE = """
SELECT id FROM hooklane.worker WHERE id = :worker AND lease_until > hooklane.now_ms() FOR SHARE
"""
# The row of the old owner is locked and its expiry judged under the lock: a renewal that is under way is either waited
# out by being passed over, or finds the lease taken. Nothing here waits, so two who acquire cannot block each other.
_LOCK_EXPIRED = """
SELECT id FROM hooklane.worker WHERE lease_until <= hooklane.now_ms() AND id <> :worker ORDER BY id
FOR UPDATE SKIP LOCKED
"""
# FOR UPDATE against the fence's FOR SHARE: a commit of the old owner that is under way ends first.
_FREE = """
SELECT p.pid, p.owner IS NOT NULL FROM hooklane.part p
WHERE p.owner IS NULL OR p.owner = ANY(:dead::text[])
   OR NOT EXISTS (SELECT 1 FROM hooklane.worker w WHERE w.id = p.owner)
ORDER BY p.owner IS NOT NULL, p.pid LIMIT :most::bigint FOR UPDATE OF p SKIP LOCKED
"""
_TAKE = """
UPDATE hooklane.part SET owner = :worker, epoch = epoch + 1 WHERE pid = ANY(:pids::integer[]) RETURNING pid, epoch
"""
_RELEASE = """
UPDATE hooklane.part SET owner = NULL WHERE owner = :worker AND pid = ANY(:pids::integer[]) RETURNING pid
"""
_LEAVE = "DELETE FROM hooklane.worker WHERE id = :worker RETURNING id"
_RELEASE_ALL = "UPDATE hooklane.part SET owner = NULL WHERE owner = :worker RETURNING pid"


def join(worker: str, lease_ms: int) -> Flow[Lease]:
    yield Statement(_LET_GO, {"worker": worker})
    ((now, until),) = yield Statement(_JOIN, {"worker": worker, "lease_ms": lease_ms})
    return Lease(Instant(now), Instant(until))


def renew(worker: str, lease_ms: int) -> Flow[Lease | None]:
    rows = yield Statement(_RENEW, {"worker": worker, "lease_ms": lease_ms})
    return Lease(Instant(rows[0][0]), Instant(rows[0][1])) if rows else None


def roster() -> Flow[Roster]:
    rows = yield Statement(_ROSTER)
    owned = {worker: many for worker, many, _ in rows if worker is not None}
    ((_, free, now),) = [row for row in rows if row[0] is None]
    return Roster(owned, free, Instant(now))


def acquire(worker: str, most: int) -> Flow[list[Taken]]:
    if not (yield Statement(_ALIVE, {"worker": worker})):
        return []  # our own lease has expired: what we took would be taken from us at once
    dead = [row[0] for row in (yield Statement(_LOCK_EXPIRED, {"worker": worker}))]
    free = {row[0]: bool(row[1]) for row in (yield Statement(_FREE, {"dead": dead, "most": most}))}
    if not free:
        return []
    taken = yield Statement(_TAKE, {"worker": worker, "pids": list(free)})
    return sorted((Taken(pid, epoch, free[pid]) for pid, epoch in taken), key=lambda one: one.pid)


def release(worker: str, pids: Sequence[int]) -> Flow[None]:
    yield Statement(_RELEASE, {"worker": worker, "pids": list(pids)})


def leave(worker: str) -> Flow[None]:
    yield Statement(_RELEASE_ALL, {"worker": worker})
    yield Statement(_LEAVE, {"worker": worker})
