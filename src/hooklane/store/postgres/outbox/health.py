"""How do the endpoints do? Turn by turn: whoever writes the next one first decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState, Health
from hooklane.store.caller.flow import Flow, Statement

COLUMNS = "endpoint_id, turn, state, until, probes, by"
# The row is judged again under its lock: of two who write the same turn, the second finds it written.
_NOTE = """
INSERT INTO hooklane.health AS h (endpoint_id, tenant, turn, state, until, probes, by, xid)
SELECT e.id, e.tenant, w.turn, w.state, w.until, w.probes, w.by, pg_current_xact_id()
FROM unnest(:ids::text[], :turns::bigint[], :states::text[], :untils::bigint[], :probes::integer[], :bys::text[])
    AS w (endpoint_id, turn, state, until, probes, by)
JOIN hooklane.endpoint e ON e.id = w.endpoint_id
WHERE w.turn = 1 OR EXISTS (SELECT 1 FROM hooklane.health x WHERE x.endpoint_id = w.endpoint_id)
ORDER BY w.endpoint_id
ON CONFLICT (endpoint_id) DO UPDATE SET turn = excluded.turn, state = excluded.state, until = excluded.until,
    probes = excluded.probes, by = excluded.by, xid = excluded.xid
WHERE h.turn = excluded.turn - 1
RETURNING 1
"""
_FOUND = f"SELECT {COLUMNS} FROM hooklane.health WHERE endpoint_id = ANY(:ids::text[])"
_ALL = f"SELECT {COLUMNS} FROM hooklane.health WHERE tenant = coalesce(:tenant::text, tenant)"


def note_health(turns: Sequence[Health]) -> Flow[list[Health]]:
    ids = [turn.endpoint_id for turn in turns]
    yield Statement(
        _NOTE,
        {
            "ids": ids,
            "turns": [turn.turn for turn in turns],
            "states": [str(turn.state) for turn in turns],
            "untils": [turn.until for turn in turns],
            "probes": [turn.probes for turn in turns],
            "bys": [turn.by for turn in turns],
        },
    )
    return [health_of(row) for row in (yield Statement(_FOUND, {"ids": ids}))]


def read_health(tenant: str | None) -> Flow[Mapping[str, Health]]:
    rows = yield Statement(_ALL, {"tenant": tenant})
    return {row[0]: health_of(row) for row in rows}


def health_of(row: Sequence[Any]) -> Health:
    endpoint_id, turn, state, until, probes, by = row
    return Health(endpoint_id, turn, BreakerState(state), Instant(until), probes, by)
