"""Do the books add up? Every delivery counted from the rows, and compared with what the counters promise."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence

from hooklane.model.lane import DeliveryState
from hooklane.store.recovery import LedgerLine

_Books = tuple[str, str]
"""A tenant and an endpoint."""

_LANES = """
SELECT tenant, endpoint_id, sum(tail), sum(coalesce(head, 1) - 1), sum(coalesce(head, 1) > tail + 1)
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id, tenant) GROUP BY 1, 2
"""
# Counted from the events themselves, not from the counters: what was lost would be missing here.
_OWED = """
SELECT t.tenant, t.endpoint_id, CASE WHEN e.seq > coalesce(l.head, 1) THEN 'queued'
    ELSE CASE coalesce(l.state, 'active') WHEN 'blocked' THEN 'dead' WHEN 'retrying' THEN 'retrying' ELSE 'queued' END
    END, count(*)
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
JOIN hooklane_lane_event e ON e.lane_id = t.lane_id AND e.seq >= coalesce(l.head, 1) AND e.seq <= t.tail
JOIN hooklane_event v ON v.n = e.event_n
WHERE coalesce(l.head, 1) <= t.tail GROUP BY 1, 2, 3
"""
_PASSED_OVER = """
SELECT s.tenant, t.endpoint_id, s.kind, sum(s.upto - s.seq + 1)
FROM hooklane_skipped s JOIN hooklane_lane_tail t USING (lane_id) GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane_past WHERE kind = 'lane'
"""
_LOOSE = """
SELECT tenant, endpoint_id, count(*) FROM hooklane_loose GROUP BY 1, 2
UNION ALL SELECT tenant, endpoint_id, many FROM hooklane_past WHERE kind = 'loose'
"""
_LOOSE_BY_STATE = """
SELECT l.tenant, l.endpoint_id, l.state, count(*) FROM hooklane_loose l JOIN hooklane_event v ON v.n = l.event_n
GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane_past WHERE kind = 'loose'
"""
_BLOCKED_WITHOUT_LETTER = """
SELECT t.tenant, t.endpoint_id, t.key, l.head FROM hooklane_lane l JOIN hooklane_lane_tail t USING (lane_id)
WHERE l.state = 'blocked' AND NOT EXISTS
    (SELECT 1 FROM hooklane_dead_letter d WHERE d.lane_id = l.lane_id AND d.seq = l.head AND d.state = 'open')
"""
_LETTER_WITHOUT_DEAD = """
SELECT d.tenant, d.endpoint_id, d.id FROM hooklane_dead_letter d
LEFT JOIN hooklane_lane l ON l.lane_id = d.lane_id AND l.state = 'blocked' AND l.head = d.seq
LEFT JOIN hooklane_loose o ON o.n = -d.lane_id AND o.state = 'dead'
WHERE d.state = 'open' AND l.lane_id IS NULL AND o.n IS NULL
"""


def check_ledger(conn: sqlite3.Connection) -> Sequence[LedgerLine]:
    conn.execute("BEGIN")  # one snapshot for all of it
    try:
        return _check(conn)
    finally:
        conn.execute("COMMIT")


def _check(conn: sqlite3.Connection) -> list[LedgerLine]:
    accepted: Counter[_Books] = Counter()
    counts: dict[_Books, Counter[DeliveryState]] = defaultdict(lambda: Counter(dict.fromkeys(DeliveryState, 0)))
    faults: dict[_Books, list[str]] = defaultdict(list)
    for tenant, endpoint_id, tails, passed, ahead in conn.execute(_LANES):
        books = (tenant, endpoint_id)
        accepted[books] += tails
        counts[books][DeliveryState.DELIVERED] += passed
        if ahead:
            faults[books].append(f"{ahead} lanes have a head beyond their tail")
    for tenant, endpoint_id, kind, many in conn.execute(_PASSED_OVER):
        books = (tenant, endpoint_id)
        counts[books][DeliveryState(kind)] += many
        counts[books][DeliveryState.DELIVERED] -= many
    for books, found in counts.items():
        if found[DeliveryState.DELIVERED] < 0:
            faults[books].append(f"{-found[DeliveryState.DELIVERED]} more were passed over than were reached")
    for tenant, endpoint_id, many in conn.execute(_LOOSE):
        accepted[tenant, endpoint_id] += many
    for query in (_OWED, _LOOSE_BY_STATE):
        for tenant, endpoint_id, state, many in conn.execute(query):
            counts[tenant, endpoint_id][DeliveryState(state)] += many
    for tenant, endpoint_id, key, head in conn.execute(_BLOCKED_WITHOUT_LETTER):
        faults[tenant, endpoint_id].append(f"#{head} of {key} is dead and has no dead letter")
    for tenant, endpoint_id, letter in conn.execute(_LETTER_WITHOUT_DEAD):
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
