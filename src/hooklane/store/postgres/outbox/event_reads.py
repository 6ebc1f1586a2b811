"""What became of an event? Its deliveries follow from where the heads of its lanes stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hooklane.model.event import Event
from hooklane.model.ids import attempt_id
from hooklane.model.lane import LaneId
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.codec import decode_detail
from hooklane.store.cursors import number_of
from hooklane.store.postgres.outbox.lanes import LANE_COLUMNS, LANES
from hooklane.store.reads import AttemptRow, Delivery, EventFilter, Page
from hooklane.store.shown import delivery_of, state_at

_EVENT = "e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of"
_ONE = f"SELECT {_EVENT} FROM hooklane.event e WHERE e.tenant = :tenant AND e.id = :id"
_NEWEST = f"""
SELECT {_EVENT}, e.n FROM hooklane.event e
WHERE e.tenant = :tenant AND (:below::bigint IS NULL OR e.n < :below)
  AND (:type::text IS NULL OR e.type LIKE :type) AND (:key::text IS NULL OR e.key = :key)
  AND (:after::bigint IS NULL OR e.created_at >= :after) AND (:before::bigint IS NULL OR e.created_at < :before)
ORDER BY e.n DESC LIMIT :limit::bigint
"""
_STAMPS = "SELECT id, stamps FROM hooklane.event WHERE tenant = :tenant AND id = ANY(:ids::text[])"
_IN_LANES = f"""
WITH wanted AS (SELECT * FROM unnest(:lanes::bigint[], :seqs::bigint[]) AS w (lane_id, seq)),
lanes AS (
    SELECT {LANE_COLUMNS}, l.reason {LANES.format(acks="WHERE lane_id = ANY(:lanes::bigint[])")}
    WHERE t.lane_id = ANY(:lanes::bigint[])
)
SELECT w.lane_id, w.seq, n.key, n.head, n.state, n.attempts, n.next_at, n.reason, s.kind, d.id
FROM wanted w JOIN lanes n USING (lane_id)
LEFT JOIN hooklane.skipped s ON s.lane_id = w.lane_id AND w.seq BETWEEN s.seq AND s.upto
LEFT JOIN hooklane.dead_letter d ON d.lane_id = w.lane_id AND d.seq = w.seq AND d.state = 'open'
"""
_LOOSELY = """
SELECT -l.n, 1, NULL, 0, l.state, l.attempts, l.next_at, l.reason, NULL, d.id FROM hooklane.loose l
LEFT JOIN hooklane.dead_letter d ON d.lane_id = -l.n AND d.state = 'open' WHERE l.n = ANY(:ns::bigint[])
"""
_ATTEMPTS = """
SELECT a.lane_id, a.seq, a.started_at, a.attempt, a.took_ms, a.outcome, a.status, a.failure, a.said, a.detail
FROM hooklane.attempt a JOIN unnest(:lanes::bigint[], :seqs::bigint[]) AS w (lane_id, seq) USING (lane_id, seq)
ORDER BY a.started_at, a.attempt
"""

Stamped = tuple[str, str, LaneId, int | None]
"""Event, endpoint, lane, seq."""


def event(tenant: str, event_id: str) -> Flow[Event | None]:
    rows = yield Statement(_ONE, {"tenant": tenant, "id": event_id})
    return Event(*rows[0]) if rows else None


def events(tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Flow[Page[Event]]:
    """Newest first. A filter by delivery state looks at each event's deliveries, page by page."""
    found: list[Event] = []
    below = number_of(cursor)
    while True:
        filters = {
            "tenant": tenant,
            "below": below,
            "type": None if wanted.type is None else like(wanted.type),
            "key": wanted.key,
            "after": wanted.after,
            "before": wanted.before,
            "limit": limit + 1,
        }
        rows = yield Statement(_NEWEST, filters)
        shown = rows[:limit]
        states: Mapping[str, Sequence[Delivery]] = {}
        if wanted.endpoint_id or wanted.state:
            states = yield from deliveries(tenant, [row[0] for row in shown])
        for index, row in enumerate(shown):
            below = row[7]
            if _is_wanted(states.get(row[0], ()), wanted):
                found.append(Event(*row[:7]))
                if len(found) == limit:
                    return Page(found, str(below) if index + 1 < len(rows) else None)
        if len(rows) <= limit:
            return Page(found, None)


def like(pattern: str) -> str:
    """A type filter such as `order.*` as a pattern of SQL, where only the star means anything."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%")


def _is_wanted(there: Iterable[Delivery], wanted: EventFilter) -> bool:
    if wanted.endpoint_id is None and wanted.state is None:
        return True
    return any(
        (wanted.endpoint_id is None or one.endpoint_id == wanted.endpoint_id)
        and (wanted.state is None or one.state is wanted.state)
        for one in there
    )


def deliveries(tenant: str, event_ids: Sequence[str]) -> Flow[Mapping[str, Sequence[Delivery]]]:
    rows = yield Statement(_STAMPS, {"tenant": tenant, "ids": list(event_ids)})
    stamps = {event_id: msgspec.json.decode(stamps) for event_id, stamps in rows}
    flat = [(event_id, *stamp) for event_id, some in stamps.items() for stamp in some]
    found: dict[str, list[Delivery]] = {event_id: [] for event_id in event_ids if event_id in stamps}
    for one in (yield from deliveries_at(flat)):
        found[one.event_id].append(one)
    return found


def deliveries_at(stamped: Sequence[Stamped]) -> Flow[list[Delivery]]:
    """How each of these stands now, in the given order."""
    known: dict[tuple[LaneId, int], Sequence[Any]] = {}
    if ordered := [(lane_id, seq) for _, _, lane_id, seq in stamped if seq is not None]:
        lanes, seqs = (list(column) for column in zip(*ordered, strict=True))
        known |= {(row[0], row[1]): row for row in (yield Statement(_IN_LANES, {"lanes": lanes, "seqs": seqs}))}
    if loose := [-lane_id for _, _, lane_id, seq in stamped if seq is None]:
        known |= {(row[0], 1): row for row in (yield Statement(_LOOSELY, {"ns": loose}))}
    return [_delivery(one, known.get((one[2], one[3] or 1))) for one in stamped]


def _delivery(stamped: Stamped, row: Sequence[Any] | None) -> Delivery:
    event_id, endpoint_id, lane_id, seq = stamped
    if row is None:  # a loose delivery that is done leaves no row
        state, key, attempts, next_at, reason, letter = "delivered", None, 0, None, None, None
    else:
        _, _, key, head, state, attempts, next_at, reason, kind, letter = row
        if seq is not None:
            state = state_at(seq, head, state, kind)
            if seq != head:
                attempts, next_at, reason = 0, None, None
    return delivery_of(event_id, endpoint_id, lane_id, seq, (key, state, attempts, next_at, reason, letter))


def attempts(tenant: str, event_id: str) -> Flow[list[AttemptRow]]:
    rows = yield Statement(_STAMPS, {"tenant": tenant, "ids": [event_id]})
    stamps = msgspec.json.decode(rows[0][1]) if rows else []
    if not stamps:
        return []
    at = {(lane_id, seq or 1): (endpoint_id, seq) for endpoint_id, lane_id, seq in stamps}
    lanes, seqs = (list(column) for column in zip(*at, strict=True))
    tried = yield Statement(_ATTEMPTS, {"lanes": lanes, "seqs": seqs})
    return [_attempt(event_id, *at[row[0], row[1]], row) for row in tried]


def _attempt(event_id: str, endpoint_id: str, seq: int | None, row: Sequence[Any]) -> AttemptRow:
    lane_id, _, started_at, attempt, took_ms, outcome, status, failure, said, detail = row
    return AttemptRow(
        id=attempt_id(lane_id, seq or 1, attempt, started_at),
        event_id=event_id,
        endpoint_id=endpoint_id,
        seq=seq,
        attempt=attempt,
        started_at=started_at,
        took_ms=took_ms,
        outcome=outcome,
        status=status,
        failure=failure,
        detail=decode_detail(detail, said),
    )
