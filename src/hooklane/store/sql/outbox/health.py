"""The breakers of the endpoints, turn by turn: the process that writes the next turn first decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState, Health
from hooklane.store.dashboard import BreakerTurn
from hooklane.store.sql.outbox.steps import Batch, Flow, sql

TURNS_KEPT = 500
"""Of each endpoint: what its breaker did lately, for people."""


def note_health(turns: Sequence[Health]) -> Flow[list[Health]]:
    yield sql("next_health_rev")
    columns = ("endpoint_id", "turn", "state", "until", "probes", "by")
    yield Batch("note_health", [{name: getattr(turn, name) for name in columns} for turn in turns])
    noted = [{"endpoint_id": turn.endpoint_id, "turn": turn.turn, "by": turn.by} for turn in turns]
    yield Batch("note_breaker_turns", noted)
    old = [{"endpoint_id": turn.endpoint_id, "turn": turn.turn} for turn in turns]
    yield Batch("drop_breaker_turns", old, {"kept": TURNS_KEPT})
    rows = yield sql("health_of_endpoints", ids=[turn.endpoint_id for turn in turns])
    return [health_of(row) for row in rows]


def read_health(tenant: str | None = None) -> Flow[Mapping[str, Health]]:
    rows = yield sql("health", tenant=tenant)
    return {row[0]: health_of(row) for row in rows}


def health_of(row: Sequence[Any]) -> Health:
    endpoint_id, turn, state, until, probes, by = row
    return Health(endpoint_id, turn, BreakerState(state), Instant(until), probes, by)


def breaker_turns(tenant: str, endpoint_id: str | None, since: Instant, limit: int) -> Flow[list[BreakerTurn]]:
    rows = yield sql("breaker_turns", tenant=tenant, endpoint=endpoint_id, since=since, limit=limit)
    return [_turn_of(row) for row in rows]


def breaker_turns_of(tenant: str, ids: Sequence[str], since: Instant, limit: int) -> Flow[list[BreakerTurn]]:
    rows = yield sql("breaker_turns_of", tenant=tenant, ids=list(ids), since=since, limit=limit)
    return [_turn_of(row) for row in rows]


def _turn_of(row: Sequence[Any]) -> BreakerTurn:
    endpoint_id, turn, state, until, at, by = row
    return BreakerTurn(endpoint_id, turn, BreakerState(state), until, at, by)
