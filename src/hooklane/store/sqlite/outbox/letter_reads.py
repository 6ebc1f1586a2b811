"""Which events are dead, and what waits behind each?"""

from __future__ import annotations

import sqlite3

from hooklane.model.audit import Act
from hooklane.store.cursors import number_of
from hooklane.store.reads import DeadLetter, Page
from hooklane.store.shown import dead_letter_of
from hooklane.store.sqlite.outbox import audit

_LETTERS = """
SELECT d.id, e.id, e.type, d.endpoint_id, d.lane_id, t.key, d.seq, d.attempts, d.reason, d.died_at,
       coalesce(t.tail - d.seq, 0), d.note
FROM hooklane_dead_letter d JOIN hooklane_event e ON e.n = d.event_n LEFT JOIN hooklane_lane_tail t USING (lane_id)
WHERE d.tenant = :tenant AND d.state = 'open'
"""


def dead_letters(
    conn: sqlite3.Connection, tenant: str, endpoint_id: str | None, cursor: str | None, limit: int
) -> Page[DeadLetter]:
    """The oldest first: it has waited longest."""
    died_at, _, letter = (cursor or "0.").partition(".")
    rows = conn.execute(
        f"{_LETTERS} AND (:endpoint IS NULL OR d.endpoint_id = :endpoint) AND (d.died_at, d.id) > (:died_at, :letter)"
        " ORDER BY d.died_at, d.id LIMIT :limit",
        {
            "tenant": tenant,
            "endpoint": endpoint_id,
            "died_at": number_of(died_at),
            "letter": letter,
            "limit": limit + 1,
        },
    ).fetchall()
    found = [dead_letter_of(row) for row in rows[:limit]]
    return Page(found, f"{found[-1].died_at}.{found[-1].id}" if len(rows) > limit else None)


def dead_letter(conn: sqlite3.Connection, tenant: str, letter: str) -> DeadLetter | None:
    row = conn.execute(f"{_LETTERS} AND d.id = :id", {"tenant": tenant, "id": letter}).fetchone()
    return dead_letter_of(row) if row else None


def set_note(conn: sqlite3.Connection, tenant: str, letter: str, note: str, act: Act | None = None) -> bool:
    sql = "UPDATE hooklane_dead_letter SET note = ? WHERE tenant = ? AND id = ? AND state = 'open'"
    if not conn.execute(sql, (note, tenant, letter)).rowcount:
        return False
    if act is not None:
        audit.append(conn, act)
    return True
