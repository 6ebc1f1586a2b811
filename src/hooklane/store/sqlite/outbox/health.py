"""How do the endpoints do? Turn by turn: whoever writes the next one first decides it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState, Health

_COLUMNS = "endpoint_id, turn, state, until, probes, by"
_NOTE = """
INSERT INTO hooklane_health (endpoint_id, tenant, turn, state, until, probes, by, rev)
SELECT e.id, e.tenant, :turn, :state, :until, :probes, :by, :rev FROM hooklane_endpoint e WHERE e.id = :endpoint_id
    AND :turn = 1 + coalesce((SELECT turn FROM hooklane_health WHERE endpoint_id = :endpoint_id), 0)
ON CONFLICT (endpoint_id) DO UPDATE SET turn = excluded.turn, state = excluded.state, until = excluded.until,
    probes = excluded.probes, by = excluded.by, rev = excluded.rev
"""


def note_health(conn: sqlite3.Connection, turns: Sequence[Health]) -> Sequence[Health]:
    (rev,) = conn.execute(
        "UPDATE hooklane_counter SET value = value + 1 WHERE name = 'health' RETURNING value"
    ).fetchone()
    found: list[Health] = []
    for turn in turns:
        params = {
            "endpoint_id": turn.endpoint_id,
            "turn": turn.turn,
            "state": turn.state,
            "until": turn.until,
            "probes": turn.probes,
            "by": turn.by,
            "rev": rev,
        }
        conn.execute(_NOTE, params)
        found += _read(conn, "endpoint_id = ?", turn.endpoint_id)
    return found


def turned_since(conn: sqlite3.Connection, rev: int) -> list[Health]:
    return _read(conn, "rev > ?", rev)


def health(conn: sqlite3.Connection, tenant: str | None) -> Mapping[str, Health]:
    return {one.endpoint_id: one for one in _read(conn, "tenant = coalesce(?, tenant)", tenant)}


def _read(conn: sqlite3.Connection, where: str, value: object) -> list[Health]:
    rows = conn.execute(f"SELECT {_COLUMNS} FROM hooklane_health WHERE {where}", (value,)).fetchall()
    return [
        Health(id_, turn, BreakerState(state), Instant(until), probes, by)
        for id_, turn, state, until, probes, by in rows
    ]
