"""Who owns what? Leases by the database's clock, and partitions whose epoch grows with each change of owner."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hooklane.model.clock import Instant
from hooklane.store.outbox import Lease, Roster, Taken

NOW = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


def store_now(conn: sqlite3.Connection) -> Instant:
    return Instant(conn.execute(f"SELECT {NOW}").fetchone()[0])


def join(conn: sqlite3.Connection, worker: str, lease_ms: int) -> Lease:
    now = store_now(conn)
    conn.execute(
        "INSERT INTO hooklane_worker (id, lease_until) VALUES (?, ?)"
        " ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until",
        (worker, now + lease_ms),
    )
    return Lease(now, Instant(now + lease_ms))


def renew(conn: sqlite3.Connection, worker: str, lease_ms: int) -> Lease | None:
    now = store_now(conn)
    renewed = conn.execute(
        "UPDATE hooklane_worker SET lease_until = ? WHERE id = ? AND lease_until > ?", (now + lease_ms, worker, now)
    ).rowcount
    return Lease(now, Instant(now + lease_ms)) if renewed else None


def expire_all(conn: sqlite3.Connection) -> None:
    """Whoever holds the file's delivery lock knows that every earlier worker is gone."""
    conn.execute("UPDATE hooklane_worker SET lease_until = 0")


def roster(conn: sqlite3.Connection) -> Roster:
    now = store_now(conn)
    live = [row[0] for row in conn.execute("SELECT id FROM hooklane_worker WHERE lease_until > ?", (now,))]
    owned = dict(conn.execute("SELECT coalesce(owner, ''), count(*) FROM hooklane_part GROUP BY owner").fetchall())
    counts = {worker: owned.get(worker, 0) for worker in live}
    return Roster(counts, sum(owned.values()) - sum(counts.values()), now)


def acquire(conn: sqlite3.Connection, worker: str, most: int) -> list[Taken]:
    rows = conn.execute(
        f"""
        SELECT pid, epoch, owner IS NOT NULL FROM hooklane_part
        WHERE EXISTS (SELECT 1 FROM hooklane_worker WHERE id = ? AND lease_until > {NOW})
          AND (owner IS NULL OR owner NOT IN (SELECT id FROM hooklane_worker WHERE lease_until > {NOW}))
        ORDER BY owner IS NOT NULL, pid LIMIT ?
        """,
        (worker, most),
    ).fetchall()
    conn.executemany(
        "UPDATE hooklane_part SET owner = ?, epoch = epoch + 1 WHERE pid = ?", [(worker, pid) for pid, _, _ in rows]
    )
    return [Taken(pid, epoch + 1, bool(unclean)) for pid, epoch, unclean in rows]


def release(conn: sqlite3.Connection, worker: str, pids: Sequence[int]) -> None:
    conn.executemany(
        "UPDATE hooklane_part SET owner = NULL WHERE pid = ? AND owner = ?", [(pid, worker) for pid in pids]
    )


def leave(conn: sqlite3.Connection, worker: str) -> None:
    conn.execute("UPDATE hooklane_part SET owner = NULL WHERE owner = ?", (worker,))
    conn.execute("DELETE FROM hooklane_worker WHERE id = ?", (worker,))
