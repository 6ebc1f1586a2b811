-- What PostgreSQL needs every few seconds: acks are folded into their lanes, and summed up.

-- name: fold_lock
-- One process at a time is enough: no row where another is at it. The number reads "hookfold".
SELECT 1 WHERE pg_try_advisory_xact_lock(x'686F6F6B666F6C64'::bigint)

-- name: fold_acks
-- What is removed is what is folded, in one statement: an ack that commits meanwhile stays for the next time. A lane is
-- touched only where an ack is ahead of it, and only then do attempts and state of the old head go. The last delivered
-- seq moves by itself: a failure of the next head may have moved the head already.
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

-- name: sum_loose_delivered
-- Deliveries without order that are done leave only their number: many small ones become one.
WITH taken AS (DELETE FROM hooklane.loose_delivered RETURNING tenant, endpoint_id, many)
INSERT INTO hooklane.loose_delivered (tenant, endpoint_id, many)
SELECT tenant, endpoint_id, sum(many) FROM taken GROUP BY tenant, endpoint_id

-- name: vacuum_acks
-- A role that does not own the table is warned, and nothing is vacuumed; nor is a table that another session vacuums
-- already. The file keeps its size, since to shorten it would lock all others out.
VACUUM (SKIP_LOCKED, TRUNCATE false) hooklane.ack
