"""How do the endpoints do? Turn by turn: the process that writes the next one first decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hooklane.model.health import Health
from hooklane.store.memory.outbox.tables import Tables


def note_health(tables: Tables, turns: Sequence[Health]) -> Sequence[Health]:
    for turn in turns:
        before = tables.health.get(turn.endpoint_id)
        if turn.endpoint_id in tables.endpoints and turn.turn == (before.turn if before else 0) + 1:
            tables.health[turn.endpoint_id] = turn
            tables.turns.append(turn.endpoint_id)
    return [found for turn in turns if (found := tables.health.get(turn.endpoint_id)) is not None]


def turned_since(tables: Tables, position: int) -> Sequence[Health]:
    changed = dict.fromkeys(tables.turns[position:])
    return [tables.health[one] for one in changed if one in tables.health]


def health(tables: Tables, tenant: str | None = None) -> Mapping[str, Health]:
    return {one: found for one, found in tables.health.items() if tenant in (None, tables.endpoints[one].tenant)}
