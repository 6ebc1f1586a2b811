"""Who did what? Lines that are only ever appended, each sealed to the one before, in the commit of what was done."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from hooklane.model.audit import GENESIS, Act, AuditLine, Link, seal_of
from hooklane.store.cursors import number_of
from hooklane.store.reads import Page
from hooklane.store.recovery import AuditChain

_APPEND = """
INSERT INTO hooklane_audit (n, tenant, at, actor, action, subject, note, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_MOVE_HEAD = """
INSERT INTO hooklane_audit_chain (place, n, seal) VALUES ('head', ?, ?)
ON CONFLICT (place) DO UPDATE SET n = excluded.n, seal = excluded.seal
"""
_LINE = "n, tenant, at, actor, action, subject, note, seal"


def append(conn: sqlite3.Connection, act: Act) -> Link:
    return append_all(conn, [act])


def append_all(conn: sqlite3.Connection, acts: Iterable[Act]) -> Link:
    """Put acts on record; the last link of the chain."""
    last = _end(conn, "head") or _last_line(conn)
    rows = []
    for act in acts:
        last = Link(last.n + 1, seal_of(last.seal, last.n + 1, act))
        rows.append((last.n, act.tenant, act.at, act.actor, act.action, act.subject, act.note, last.seal))
    conn.executemany(_APPEND, rows)
    conn.execute(_MOVE_HEAD, (last.n, last.seal))
    return last


def audit(conn: sqlite3.Connection, tenant: str, cursor: str | None, limit: int) -> Page[AuditLine]:
    rows = conn.execute(
        f"SELECT {_LINE} FROM hooklane_audit WHERE tenant = ? AND n < coalesce(?, n + 1) ORDER BY n DESC LIMIT ?",
        (tenant, number_of(cursor), limit + 1),
    ).fetchall()
    return Page([_line(row) for row in rows[:limit]], str(rows[limit - 1][0]) if len(rows) > limit else None)


def audit_chain(conn: sqlite3.Connection, after: int, limit: int) -> AuditChain:
    conn.execute("BEGIN")  # one snapshot: a line that is being written belongs to all of it or to none
    try:
        anchor, head = _end(conn, "anchor"), _end(conn, "head")
        from_n = max(after, anchor.n if anchor else 0)
        rows = conn.execute(f"SELECT {_LINE} FROM hooklane_audit WHERE n > ? ORDER BY n LIMIT ?", (from_n, limit))
        return AuditChain([_line(row) for row in rows], anchor, head)
    finally:
        conn.execute("COMMIT")


def prune(conn: sqlite3.Connection, before: int, limit: int) -> int:
    """Remove the oldest lines, never one before its elder, and remember where the chain goes on."""
    rows = conn.execute("SELECT n, at, seal FROM hooklane_audit ORDER BY n LIMIT ?", (limit,)).fetchall()
    last: Link | None = None
    removed = 0
    for n, at, seal in rows:
        if at >= before:
            break
        last, removed = Link(n, seal), removed + 1
    if last is None:
        return 0
    conn.execute("DELETE FROM hooklane_audit WHERE n <= ?", (last.n,))
    if last.seal:  # lines from before the chain have none
        conn.execute("UPDATE hooklane_audit_chain SET n = ?, seal = ? WHERE place = 'anchor'", (last.n, last.seal))
    return removed


def _end(conn: sqlite3.Connection, place: str) -> Link | None:
    row = conn.execute("SELECT n, seal FROM hooklane_audit_chain WHERE place = ?", (place,)).fetchone()
    return Link(*row) if row and row[0] else None


def _last_line(conn: sqlite3.Connection) -> Link:
    """The end of the log itself, where nothing remembers it: there is no line yet, or that record was taken away."""
    row = conn.execute("SELECT n, seal FROM hooklane_audit ORDER BY n DESC LIMIT 1").fetchone()
    return Link(*row) if row else Link(0, GENESIS)


def _line(row: tuple[int, str, int, str, str, str, str, bytes]) -> AuditLine:
    n, tenant, at, actor, action, subject, note, seal = row
    act = Act(tenant=tenant, at=at, actor=actor, action=action, subject=subject, note=note)  # type: ignore[arg-type]
    return AuditLine(n, act, seal)
