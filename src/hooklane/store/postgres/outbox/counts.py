"""How many of each? The ledger, the lanes by state, and the oldest that waits."""

from __future__ import annotations

from collections.abc import Mapping

from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.postgres.outbox.lanes import LANE_COLUMNS, LANES

_SIZE = Statement(
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'hooklane' AND c.relkind = 'r'"
)
_MINE = ":tenant::text IS NULL OR t.tenant = :tenant"
_HERE = ":endpoint::text IS NULL OR {}endpoint_id = :endpoint"
_ROWS = f"SELECT {LANE_COLUMNS} {LANES.format(acks='')}"
_LANES = f"""
SELECT coalesce(sum(tail), 0)::bigint, coalesce(sum(head - 1), 0)::bigint,
    count(*) FILTER (WHERE state = 'retrying' AND head <= tail), count(*) FILTER (WHERE state = 'blocked')
FROM ({_ROWS} WHERE t.tenant = :tenant AND ({_HERE.format("t.")})) r
"""
_PASSED = f"""
SELECT s.kind, sum(s.upto - s.seq + 1)::bigint FROM hooklane.skipped s JOIN hooklane.lane_tail t USING (lane_id)
WHERE s.tenant = :tenant AND ({_HERE.format("t.")}) GROUP BY s.kind
UNION ALL SELECT state, many FROM hooklane.past WHERE kind = 'lane' AND tenant = :tenant AND ({_HERE.format("")})
"""
_LOOSE = f"""
SELECT state, count(*) FROM hooklane.loose WHERE tenant = :tenant AND ({_HERE.format("")}) GROUP BY state
UNION ALL SELECT state, many FROM hooklane.past WHERE kind = 'loose' AND tenant = :tenant AND ({_HERE.format("")})
UNION ALL SELECT 'delivered', coalesce(sum(many), 0)::bigint FROM hooklane.loose_delivered
WHERE tenant = :tenant AND ({_HERE.format("")})
"""
_BY_STATE = f"""
SELECT CASE WHEN head > tail THEN 'idle' WHEN state = 'blocked' THEN 'blocked'
    WHEN convert_from(p.doc, 'UTF8')::json ->> 'state' IN ('paused', 'disabled') THEN 'paused' ELSE state END, count(*)
FROM ({_ROWS} WHERE {_MINE}) r LEFT JOIN hooklane.endpoint p ON p.id = r.endpoint_id GROUP BY 1
"""
_OLDEST = f"""
SELECT min(at) FROM (
    SELECT min(e.created_at) AS at FROM ({_ROWS} WHERE {_MINE}) r
    JOIN hooklane.lane_event le ON le.lane_id = r.lane_id AND le.seq = r.head
    JOIN hooklane.event e ON e.n = le.event_n
    UNION ALL
    SELECT min(e.created_at) FROM hooklane.loose t JOIN hooklane.event e ON e.n = t.event_n
    WHERE t.state IN ('queued', 'retrying') AND ({_MINE})
) o
"""


def ledger(tenant: str, endpoint_id: str | None) -> Flow[Mapping[DeliveryState | str, int]]:
    """Each delivery counted once, by where it stands; run it on one snapshot."""
    counts: dict[DeliveryState | str, int] = dict.fromkeys(DeliveryState, 0)
    params = {"tenant": tenant, "endpoint": endpoint_id}
    ((accepted, passed, retrying, dead),) = yield Statement(_LANES, params)
    given_up = 0
    for kind, many in (yield Statement(_PASSED, params)):
        counts[DeliveryState(kind)] += many
        given_up += many
    counts[DeliveryState.DELIVERED] += passed - given_up
    counts[DeliveryState.RETRYING] += retrying
    counts[DeliveryState.DEAD] += dead
    counts[DeliveryState.QUEUED] += accepted - passed - retrying - dead
    for state, many in (yield Statement(_LOOSE, params)):
        counts[DeliveryState(state)] += many
        accepted += many
    counts["accepted"] = accepted
    return counts


def lane_counts(tenant: str | None) -> Flow[Mapping[LaneState, int]]:
    counts = dict.fromkeys(LaneState, 0)
    for state, many in (yield Statement(_BY_STATE, {"tenant": tenant})):
        counts[LaneState(state)] = many
    return counts


def oldest_pending_at(tenant: str | None) -> Flow[Instant | None]:
    ((at,),) = yield Statement(_OLDEST, {"tenant": tenant})
    return None if at is None else Instant(at)


def size_bytes() -> Flow[int]:
    """Our tables with their indexes and what stands beside them."""
    ((size,),) = yield _SIZE
    return int(size)
