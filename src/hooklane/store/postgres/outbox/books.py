"""Do the books add up? Every delivery counted from the rows, and compared with what the counters promise."""

from __future__ import annotations

from collections import Counter, defaultdict

from hooklane.model.lane import DeliveryState
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.postgres.outbox.lanes import LANE_COLUMNS, LANES
from hooklane.store.recovery import LedgerLine

_Books = tuple[str, str]
"""A tenant and an endpoint."""

_ROWS = f"SELECT t.tenant, {LANE_COLUMNS} {LANES.format(acks='')}"
_LANES = f"""
SELECT tenant, endpoint_id, sum(tail)::bigint, sum(head - 1)::bigint, count(*) FILTER (WHERE head > tail + 1)
FROM ({_ROWS}) r GROUP BY 1, 2
"""
# Counted from the events themselves, not from the counters: what was lost would be missing here.
_OWED = f"""
SELECT r.tenant, r.endpoint_id, CASE WHEN e.seq > r.head THEN 'queued' WHEN r.state = 'blocked' THEN 'dead'
    WHEN r.state = 'retrying' THEN 'retrying' ELSE 'queued' END, count(*)
FROM ({_ROWS}) r JOIN hooklane.lane_event e ON e.lane_id = r.lane_id AND e.seq BETWEEN r.head AND r.tail
JOIN hooklane.event v ON v.n = e.event_n
WHERE r.head <= r.tail GROUP BY 1, 2, 3
"""
_PASSED_OVER = """
SELECT s.tenant, t.endpoint_id, s.kind, sum(s.upto - s.seq + 1)::bigint
FROM hooklane.skipped s JOIN hooklane.lane_tail t USING (lane_id) GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane.past WHERE kind = 'lane'
"""
_LOOSE = """
SELECT tenant, endpoint_id, sum(many)::bigint FROM (
    SELECT tenant, endpoint_id, count(*) AS many FROM hooklane.loose GROUP BY 1, 2
    UNION ALL SELECT tenant, endpoint_id, many FROM hooklane.loose_delivered
    UNION ALL SELECT tenant, endpoint_id, many FROM hooklane.past WHERE kind = 'loose'
) o GROUP BY 1, 2
"""
_LOOSE_BY_STATE = """
SELECT l.tenant, l.endpoint_id, l.state, count(*) FROM hooklane.loose l JOIN hooklane.event v ON v.n = l.event_n
GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, 'delivered', sum(many)::bigint FROM hooklane.loose_delivered GROUP BY 1, 2
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane.past WHERE kind = 'loose'
"""
_BLOCKED_WITHOUT_LETTER = f"""
SELECT r.tenant, r.endpoint_id, r.key, r.head FROM ({_ROWS} WHERE l.state = 'blocked') r
WHERE r.state = 'blocked' AND NOT EXISTS
    (SELECT 1 FROM hooklane.dead_letter d WHERE d.lane_id = r.lane_id AND d.seq = r.head AND d.state = 'open')
"""
_LETTER_WITHOUT_DEAD = """
SELECT d.tenant, d.endpoint_id, d.id FROM hooklane.dead_letter d
LEFT JOIN hooklane.lane l ON l.lane_id = d.lane_id AND l.state = 'blocked' AND l.head = d.seq
LEFT JOIN hooklane.loose o ON o.n = -d.lane_id AND o.state = 'dead'
WHERE d.state = 'open' AND l.lane_id IS NULL AND o.n IS NULL
"""


def check_ledger() -> Flow[list[LedgerLine]]:
    """Run it on one snapshot."""
    accepted: Counter[_Books] = Counter()
    counts: dict[_Books, Counter[DeliveryState]] = defaultdict(lambda: Counter(dict.fromkeys(DeliveryState, 0)))
    faults: dict[_Books, list[str]] = defaultdict(list)
    for tenant, endpoint_id, tails, passed, ahead in (yield Statement(_LANES)):
        books = (tenant, endpoint_id)
        accepted[books] += tails
        counts[books][DeliveryState.DELIVERED] += passed
        if ahead:
            faults[books].append(f"{ahead} lanes have a head beyond their tail")
    for tenant, endpoint_id, kind, many in (yield Statement(_PASSED_OVER)):
        books = (tenant, endpoint_id)
        counts[books][DeliveryState(kind)] += many
        counts[books][DeliveryState.DELIVERED] -= many
    for books, found in counts.items():
        if found[DeliveryState.DELIVERED] < 0:
            faults[books].append(f"{-found[DeliveryState.DELIVERED]} more were passed over than were reached")
    for tenant, endpoint_id, many in (yield Statement(_LOOSE)):
        accepted[tenant, endpoint_id] += many
    for query in (_OWED, _LOOSE_BY_STATE):
        for tenant, endpoint_id, state, many in (yield Statement(query)):
            counts[tenant, endpoint_id][DeliveryState(state)] += many
    for tenant, endpoint_id, key, head in (yield Statement(_BLOCKED_WITHOUT_LETTER)):
        faults[tenant, endpoint_id].append(f"#{head} of {key} is dead and has no dead letter")
    for tenant, endpoint_id, letter in (yield Statement(_LETTER_WITHOUT_DEAD)):
        faults[tenant, endpoint_id].append(f"{letter} is a dead letter of nothing dead")
    return [
        LedgerLine(
            tenant=tenant,
            endpoint_id=endpoint_id,
            accepted=accepted[tenant, endpoint_id],
            counts=dict(counts[tenant, endpoint_id]),
            faults=tuple(faults[tenant, endpoint_id][:20]),
        )
        for tenant, endpoint_id in sorted(set(accepted) | set(counts))
    ]
