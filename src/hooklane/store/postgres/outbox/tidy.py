"""What must be done every few seconds? Acks are folded into their lanes; what nobody needs any more is removed."""

from __future__ import annotations

from hooklane.store.caller.flow import Flow, Statement

FOLD_MAX = 50_000
FIRST = "(0,0)"
"""Where a table begins."""
PRUNE_MAX = 5_000
RECOVERED_MS = 3_600_000
TOMBSTONE_MS = 24 * 3_600_000

_FOLD_LOCK = 0x686F6F6B_666F6C64  # "hookfold"
_TRY_LOCK = Statement("SELECT pg_try_advisory_xact_lock(:lock::bigint)", {"lock": _FOLD_LOCK})
# What is removed is what is folded, in one statement: an ack that commits meanwhile stays for the next time. A lane is
# touched only where an ack is ahead of it, and only then do attempts and state of the old head go. The last delivered
# seq moves by itself: a failure of the next head may have moved the head already.
_FOLD = """
WITH taken AS (
    DELETE FROM hooklane.ack
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM hooklane.ack WHERE ctid >= :start::text::tid LIMIT :most::bigint))
    RETURNING ctid, lane_id, head, tenant, at
), best AS (
    SELECT lane_id, max(head) AS head, max(tenant) AS tenant, max(at) AS at FROM taken GROUP BY lane_id ORDER BY lane_id
), folded AS (
    INSERT INTO hooklane.lane AS l (lane_id, tenant, head, acked, since)
    SELECT lane_id, tenant, head, head - 1, at FROM best
    ON CONFLICT (lane_id) DO UPDATE SET
        head = greatest(l.head, excluded.head),
        acked = greatest(l.acked, excluded.acked),
        state = CASE WHEN l.head < excluded.head THEN 'active' ELSE l.state END,
        attempts = CASE WHEN l.head < excluded.head THEN 0 ELSE l.attempts END,
        next_at = CASE WHEN l.head < excluded.head THEN 0 ELSE l.next_at END,
        reason = CASE WHEN l.head < excluded.head THEN NULL ELSE l.reason END,
        since = CASE WHEN l.head < excluded.head THEN excluded.since ELSE l.since END,
        starts = CASE WHEN l.head < excluded.head THEN 0 ELSE l.starts END
    WHERE l.head < excluded.head OR l.acked < excluded.acked
    RETURNING 1
)
SELECT (SELECT count(*) FROM taken), (SELECT count(*) FROM folded), (SELECT max(ctid)::text FROM taken)
"""
_SUM_LOOSE = """
WITH taken AS (DELETE FROM hooklane.loose_delivered RETURNING tenant, endpoint_id, many)
INSERT INTO hooklane.loose_delivered (tenant, endpoint_id, many)
SELECT tenant, endpoint_id, sum(many) FROM taken GROUP BY tenant, endpoint_id
"""
_PRUNE_RECOVERED = "DELETE FROM hooklane.recovered WHERE at < hooklane.now_ms() - :ms::bigint"
_PRUNE_WORKERS = """
DELETE FROM hooklane.worker w WHERE lease_until < hooklane.now_ms() - :ms::bigint
    AND NOT EXISTS (SELECT 1 FROM hooklane.part p WHERE p.owner = w.id)
"""
# A name lives as long as its event, and for the promised time at least.
_PRUNE_NAMES = """
DELETE FROM hooklane.idempotency WHERE (tenant, name) IN (
    SELECT i.tenant, i.name FROM hooklane.idempotency i
    WHERE i.created_at < hooklane.now_ms() - :ms::bigint
      AND NOT EXISTS (SELECT 1 FROM hooklane.event e WHERE e.n = i.event_n)
    ORDER BY i.created_at LIMIT :most::bigint)
"""
# Address and secrets go when nothing is owed, and when no transaction runs that may have seen the endpoint alive: such
# a one may still publish to it. The day of grace covers those that this role is not shown.
_PRUNE_ENDPOINTS = """
DELETE FROM hooklane.endpoint e
WHERE convert_from(e.doc, 'UTF8')::json ->> 'state' IN ('draining', 'cancelling')
  AND e.changed_at < hooklane.now_ms() - :ms::bigint
  AND NOT EXISTS (SELECT 1 FROM pg_stat_activity s WHERE s.datname = current_database()
                  AND extract(epoch FROM s.xact_start) * 1000 <= e.changed_at)
  AND NOT EXISTS (SELECT 1 FROM hooklane.lane_tail t LEFT JOIN hooklane.lane l USING (lane_id)
                  WHERE t.endpoint_id = e.id AND coalesce(l.head, 1) <= t.tail)
  AND NOT EXISTS (SELECT 1 FROM hooklane.ack k JOIN hooklane.lane_tail t USING (lane_id) WHERE t.endpoint_id = e.id)
  AND NOT EXISTS (SELECT 1 FROM hooklane.loose o
                  WHERE o.endpoint_id = e.id AND o.state IN ('queued', 'retrying', 'dead'))
  AND NOT EXISTS (SELECT 1 FROM hooklane.redelivery r
                  WHERE r.endpoint_id = e.id AND r.state IN ('active', 'retrying') AND r.head <= r.tail)
RETURNING e.id
"""
# Loose dead letters are in no owner's hands, so nobody else would cancel them.
_CANCEL_DEAD = """
WITH gone AS (
    UPDATE hooklane.loose o SET state = 'cancelled', rev = o.rev + 1 FROM hooklane.endpoint e
    WHERE e.id = o.endpoint_id AND o.state = 'dead'
      AND convert_from(e.doc, 'UTF8')::json ->> 'state' = 'cancelling' RETURNING o.n
)
UPDATE hooklane.dead_letter d SET state = 'cancelled', closed_at = hooklane.now_ms()
FROM gone WHERE d.lane_id = -gone.n AND d.state = 'open' RETURNING d.id
"""


def fold(most: int = FOLD_MAX, start: str = FIRST) -> Flow[tuple[int, str]]:
    """Fold up to *most* acks that stand from *start* on; how many, and where the last one stood.

    0 also when another process is at it: one is enough.
    """
    ((is_ours,),) = yield _TRY_LOCK
    if not is_ours:
        return 0, start
    ((taken, _, last),) = yield Statement(_FOLD, {"most": most, "start": start})
    return int(taken), last or start


def prune(idempotency_ms: int) -> Flow[None]:
    """Remove what nobody needs, in small batches."""
    ((is_ours,),) = yield _TRY_LOCK
    if not is_ours:
        return
    yield Statement(_SUM_LOOSE)
    yield Statement(_PRUNE_RECOVERED, {"ms": RECOVERED_MS})
    yield Statement(_PRUNE_WORKERS, {"ms": RECOVERED_MS})
    yield Statement(_PRUNE_NAMES, {"ms": idempotency_ms, "most": PRUNE_MAX})
    yield Statement(_CANCEL_DEAD)
    yield Statement(_PRUNE_ENDPOINTS, {"ms": TOMBSTONE_MS})
