-- What publishing runs on PostgreSQL where one statement cannot say it all, and in a caller's own transaction.

-- name: begin_publish
-- Which of these tenants are there, with the revision of the endpoints of each, read before them; and numbers for the
-- events.
SELECT coalesce(array_agg(id), '{}'), coalesce(array_agg(endpoint_rev), '{}'),
    ARRAY(SELECT nextval('hooklane.event_n') FROM generate_series(1, :many::bigint))
FROM hooklane.tenant WHERE id = ANY(:tenants::text[]) AND state IN ('active', 'suspended')

-- name: endpoints_of_tenants
-- Where their events may go.
SELECT tenant, doc FROM hooklane.endpoint WHERE tenant = ANY(:tenants::text[]) ORDER BY id

-- name: all_endpoints
-- The endpoints of all tenants, for a worker.
SELECT doc FROM hooklane.endpoint ORDER BY id

-- name: claim_names
-- In sorted order, here and below, so that two publishers never wait for each other crosswise. It is the order of the
-- bytes, whatever the database thinks of letters: `publish_in_one` sorts before it asks.
INSERT INTO hooklane.idempotency (tenant, name, digest, event_n, created_at)
SELECT * FROM unnest(:tenants::text[], :names::text[], :digests::bytea[], :ns::bigint[], :ats::bigint[])
    AS d (tenant, name, digest, event_n, created_at)
ORDER BY d.tenant COLLATE "C", d.name COLLATE "C" ON CONFLICT DO NOTHING RETURNING tenant, name

-- name: holders_of_names
-- Which events have these names, and with which content.
SELECT i.tenant, i.name, i.digest, i.event_n, e.id, i.answer, i.created_at FROM hooklane.idempotency i
JOIN unnest(:tenants::text[], :names::text[]) AS d (tenant, name) USING (tenant, name)
LEFT JOIN hooklane.event e ON e.n = i.event_n AND e.tenant = i.tenant

-- name: free_names
-- A draft that does not come in by itself leaves its names free.
DELETE FROM hooklane.idempotency i USING unnest(:tenants::text[], :names::text[]) AS d (tenant, name)
WHERE i.tenant = d.tenant AND i.name = d.name AND i.event_n = ANY(:ns::bigint[]) RETURNING 1

-- name: published_events
-- What the first publishes under these names were answered.
SELECT e.tenant, e.n, e.id, e.type, e.key, e.created_at, e.stamps FROM hooklane.event e
JOIN unnest(:tenants::text[], :ns::bigint[]) AS d (tenant, n) USING (tenant, n)

-- name: kept_answers
-- The same where the events were pruned: their answers were kept with their names.
SELECT DISTINCT ON (i.tenant, i.event_n) i.tenant, i.event_n, i.answer FROM hooklane.idempotency i
JOIN unnest(:tenants::text[], :ns::bigint[]) AS d (tenant, event_n) USING (tenant, event_n) WHERE i.answer IS NOT NULL

-- name: unnamed_events
-- The events with these ids that were not published under them: we gave the id, to an earlier try or to another event.
SELECT e.tenant, e.id, e.n, e.type, e.key, e.data, e.stamps, e.created_at FROM hooklane.event e
JOIN unnest(:tenants::text[], :ids::text[]) AS d (tenant, id) USING (tenant, id)
WHERE NOT EXISTS (SELECT 1 FROM hooklane.idempotency i WHERE i.tenant = e.tenant AND i.name = 'id:' || e.id)

-- name: hold_lanes
-- Held until the transaction ends: seqs are gapless and in the order of the commits.
SELECT ids, tails FROM hooklane.hold_lanes(:tenants::text[], :endpoints::text[], :keys::text[], :pids::integer[],
    :hints::bigint[])

-- name: loose_numbers
-- Numbers for deliveries without order.
SELECT nextval('hooklane.loose_n') FROM generate_series(1, :many::bigint)

-- name: store_events
-- A place that is taken means that this transaction sees the past (it is not READ COMMITTED) and another one published
-- meanwhile; `ON CONFLICT` then fails as such transactions do, and applications know to begin anew. Anything else must
-- not be: then the division by zero undoes everything.
WITH stored AS (
    INSERT INTO hooklane.event (n, tenant, id, type, key, data, created_at, replay_of, stamps)
    SELECT * FROM unnest(:ns::bigint[], :tenants::text[], :ids::text[], :types::text[], :keys::text[],
        :datas::bytea[], :ats::bigint[], :replays::text[], :stamps::bytea[])
    RETURNING 1
), in_lanes AS (
    INSERT INTO hooklane.lane_event (lane_id, seq, event_n, pid, tenant)
    SELECT * FROM unnest(:lane_ids::bigint[], :seqs::bigint[], :lane_ns::bigint[], :lane_pids::integer[],
        :lane_tenants::text[])
    ON CONFLICT DO NOTHING RETURNING 1
), loosely AS (
    INSERT INTO hooklane.loose (n, tenant, endpoint_id, pid, event_n)
    SELECT * FROM unnest(:loose_ns::bigint[], :loose_tenants::text[], :loose_endpoints::text[], :loose_pids::integer[],
        :loose_events::bigint[])
    RETURNING 1
)
SELECT 1 / ((SELECT count(*) FROM in_lanes) = :many::bigint)::integer

-- name: lanes_held_elsewhere
-- Locked are those that are free; what exists and is not among them is held by another transaction.
SELECT t.endpoint_id, t.key FROM hooklane.lane_name t
JOIN unnest(:endpoints::text[], :keys::text[]) AS w (endpoint_id, key) USING (endpoint_id, key)
WHERE t.lane_id <> ALL(ARRAY(
    SELECT f.lane_id FROM hooklane.lane_name f
    JOIN unnest(:endpoints::text[], :keys::text[]) AS v (endpoint_id, key) USING (endpoint_id, key)
    ORDER BY f.lane_id FOR NO KEY UPDATE OF f SKIP LOCKED))

-- name: backend_pid
-- A pooler such as PgBouncer answers a connection with a process number of its own; the server behind it says another.
SELECT pg_backend_pid()

-- name: note_traces
-- The trace context of events that were published under one: as a rule none, and then this is not asked for.
UPDATE hooklane.event e SET trace = w.trace FROM unnest(:ns::bigint[], :traces::text[]) AS w (n, trace) WHERE e.n = w.n
