"""Which deliveries does a plan mean? By filter or by id, each as it stands now."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Member
from hooklane.store.cursors import number_of
from hooklane.store.reads import Page
from hooklane.store.recovery import Wanted
from hooklane.store.sqlite.outbox.event_reads import delivery

_LETTERS = """
SELECT e.id, e.type, d.endpoint_id, d.lane_id, coalesce(t.pid, l.pid), coalesce(t.key, e.key), d.seq, d.died_at, d.id,
       d.reason, coalesce(t.tail - d.seq, 0)
FROM hooklane_dead_letter d JOIN hooklane_event e ON e.n = d.event_n
LEFT JOIN hooklane_lane_tail t ON t.lane_id = d.lane_id LEFT JOIN hooklane_loose l ON l.n = -d.lane_id
"""
_FILTER = """
WHERE d.tenant = :tenant AND (:endpoint IS NULL OR d.endpoint_id = :endpoint)
  AND (:key IS NULL OR e.key = :key OR t.key = :key) AND (:type IS NULL OR e.type GLOB :type)
  AND (:reason IS NULL OR d.reason GLOB :reason)
  AND (:after IS NULL OR d.died_at >= :after) AND (:before IS NULL OR d.died_at < :before)
  AND (d.died_at, d.id) > (:died_at, :letter)
"""
_EVENTS = """
SELECT n, id, type, key, created_at, stamps FROM hooklane_event
WHERE tenant = :tenant AND n > :above AND (:key IS NULL OR key = :key) AND (:type IS NULL OR type GLOB :type)
  AND (:after IS NULL OR created_at >= :after) AND (:before IS NULL OR created_at < :before)
ORDER BY n LIMIT :limit
"""
_EVENT = "SELECT n, id, type, key, created_at, stamps FROM hooklane_event WHERE tenant = ? AND id = ?"
_EVENT_OF_LETTER = """
SELECT e.n, e.id, e.type, e.key, e.created_at, e.stamps, d.endpoint_id FROM hooklane_dead_letter d
JOIN hooklane_event e ON e.n = d.event_n WHERE d.tenant = ? AND d.id = ?
"""


def select(conn: sqlite3.Connection, tenant: str, wanted: Wanted, cursor: str | None, limit: int) -> Page[Member]:
    if wanted.ids:
        return Page([member for one in wanted.ids for member in _by_id(conn, tenant, one, wanted.endpoint_id)], None)
    params = {
        "tenant": tenant,
        "endpoint": wanted.endpoint_id,
        "key": wanted.key,
        "type": _glob(wanted.type),
        "reason": _glob(wanted.reason, one_char=True),
        "after": wanted.after,
        "before": wanted.before,
    }
    if wanted.state is DeliveryState.DELIVERED:
        return _delivered(conn, tenant, wanted, params, cursor, limit)
    return _letters(conn, wanted.state, params, cursor, limit)


def _glob(pattern: str | None, *, one_char: bool = False) -> str | None:
    """Only `*` (and `?`) are ours: a bracket is a bracket."""
    if pattern is None:
        return None
    text = pattern.replace("[", "[[]")
    return text if one_char else text.replace("?", "[?]")


def _letters(
    conn: sqlite3.Connection, state: DeliveryState, params: dict[str, Any], cursor: str | None, limit: int
) -> Page[Member]:
    died_at, _, letter = (cursor or "0.").partition(".")
    # Written out, not bound: each state has an index of its own.
    is_open = "d.state = 'open'" if state is DeliveryState.DEAD else "d.state = 'skipped'"
    rows = conn.execute(
        f"{_LETTERS} {_FILTER} AND {is_open} ORDER BY d.died_at, d.id LIMIT :limit",
        {**params, "died_at": number_of(died_at), "letter": letter, "limit": limit + 1},
    ).fetchall()
    found = [_of_letter(row, state) for row in rows[:limit]]
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(found, f"{last[7]}.{last[8]}" if last else None)


def _of_letter(row: Sequence[Any], state: DeliveryState) -> Member:
    event_id, type_, endpoint_id, lane_id, pid, key, seq, died_at, letter, reason, waiting = row
    return Member(
        event_id=event_id,
        type=type_,
        endpoint_id=endpoint_id,
        lane_id=lane_id,
        pid=pid or 0,
        key=key,
        seq=seq if lane_id > 0 else None,
        place=seq if lane_id > 0 else -lane_id,
        state=state,
        version=str(died_at),
        dead_letter_id=letter,
        reason=reason,
        waiting=waiting,
    )


def _delivered(
    conn: sqlite3.Connection, tenant: str, wanted: Wanted, params: dict[str, Any], cursor: str | None, limit: int
) -> Page[Member]:
    rows = conn.execute(_EVENTS, {**params, "above": number_of(cursor) or 0, "limit": limit}).fetchall()
    found = [
        member
        for row in rows
        for member in _members(conn, tenant, row, wanted.endpoint_id)
        if member.state is wanted.state
    ]
    return Page(found, str(rows[-1][0]) if len(rows) == limit else None)


def _by_id(conn: sqlite3.Connection, tenant: str, one: str, endpoint_id: str | None) -> list[Member]:
    letter = conn.execute(_EVENT_OF_LETTER, (tenant, one)).fetchone()
    if letter is not None:
        return _members(conn, tenant, letter[:6], letter[6])
    row = conn.execute(_EVENT, (tenant, one)).fetchone()
    return [] if row is None else _members(conn, tenant, row, endpoint_id)


def _members(conn: sqlite3.Connection, tenant: str, row: Sequence[Any], endpoint_id: str | None) -> list[Member]:
    """The deliveries of one event, each as it stands now."""
    _, event_id, type_, key, created_at, stamps = row
    found = []
    for at, lane_id, seq in msgspec.json.decode(stamps):
        if endpoint_id not in (None, at):
            continue
        one = delivery(conn, event_id, at, lane_id, seq)
        letter, version = None, ""
        if one.state in (DeliveryState.DEAD, DeliveryState.SKIPPED):
            letter = dead_letter_id(event_id, created_at, at)
            died = conn.execute("SELECT died_at FROM hooklane_dead_letter WHERE id = ?", (letter,)).fetchone()
            version = str(died[0]) if died else ""
        table = "hooklane_lane_tail WHERE lane_id" if lane_id > 0 else "hooklane_loose WHERE n"
        (pid,) = conn.execute(f"SELECT pid FROM {table} = ?", (abs(lane_id),)).fetchone() or (0,)
        found.append(
            Member(
                event_id=event_id,
                type=type_,
                endpoint_id=at,
                lane_id=lane_id,
                pid=pid,
                key=one.key if lane_id > 0 else key,
                seq=seq,
                place=seq if lane_id > 0 else -lane_id,
                state=one.state,
                version=version,
                dead_letter_id=letter,
                reason=one.reason,
            )
        )
    return found
