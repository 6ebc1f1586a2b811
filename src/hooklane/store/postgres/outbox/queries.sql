-- The statements of `store/sql/outbox` that are PostgreSQL's own. A list arrives as an array; so do the columns of a `Batch`.

-- fragment: now
hooklane.now_ms()

-- fragment: for_update
FOR UPDATE

-- fragment: greatest
greatest

-- fragment: fits
LIKE

-- The planner finds the order of numbers by itself.
-- fragment: by_number

-- fragment: lane_names
hooklane.lane_name

-- fragment: lane_ends
hooklane.lane_tail

-- fragment: lanes_in_state
hooklane.lane WHERE state =

-- A head comes from the acks that were not folded yet or from the lane, whichever is further on; what the lane says of
-- an older head (attempts, time, state) does not hold for a newer one.
-- fragment: lane_columns
t.lane_id, t.pid, t.endpoint_id, t.key, greatest(l.head, a.head, 1) AS head, t.tail,
    CASE WHEN a.head > coalesce(l.head, 1) THEN 'active' ELSE coalesce(l.state, 'active') END AS state,
    CASE WHEN a.head > coalesce(l.head, 1) THEN 0 ELSE coalesce(l.attempts, 0) END AS attempts,
    CASE WHEN a.head > coalesce(l.head, 1) THEN 0 ELSE coalesce(l.next_at, 0) END AS next_at,
    coalesce(l.rev, 0) AS rev, greatest(l.acked, a.head - 1, 0) AS acked

-- fragment: lanes
FROM hooklane.lane_tail t LEFT JOIN hooklane.lane l USING (lane_id)
LEFT JOIN (SELECT lane_id, max(head) AS head, max(at) AS at FROM hooklane.ack

-- Between `lanes` and this stands which acks are read.
-- fragment: and_acks
GROUP BY lane_id) a USING (lane_id)

-- fragment: every_lane
SELECT t.tenant, {lane_columns} {lanes} {and_acks}

-- fragment: places
unnest(:lane_id::bigint[], :seq::bigint[]) AS w (lane_id, seq)

-- fragment: is_paused
(convert_from(p.doc, 'UTF8')::json ->> 'state' IN ('paused', 'disabled')
    OR coalesce((convert_from(p.doc, 'UTF8')::json ->> 'suspended')::boolean, false))

-- fragment: endpoint_state
convert_from(e.doc, 'UTF8')::json ->> 'state'

-- Nor is it finished while a transaction runs that may have seen the endpoint alive: such a one may still publish to it.
-- The time of grace covers those that this role is not shown.
-- fragment: is_finished
{endpoint_state} IN ('draining', 'cancelling')
  AND e.changed_at < hooklane.now_ms() - :grace_ms::bigint
  AND NOT EXISTS (SELECT 1 FROM pg_stat_activity s WHERE s.datname = current_database()
                  AND extract(epoch FROM s.xact_start) * 1000 <= e.changed_at)
  AND NOT EXISTS (SELECT 1 FROM hooklane.dead_letter d
                  WHERE d.tenant = e.tenant AND d.state = 'open' AND d.endpoint_id = e.id)
  AND NOT EXISTS (SELECT 1 FROM hooklane.loose o WHERE o.endpoint_id = e.id AND o.state IN ('queued', 'retrying'))
  AND NOT EXISTS (SELECT 1 FROM hooklane.redelivery r
                  WHERE r.endpoint_id = e.id AND r.state IN ('active', 'retrying') AND r.head <= r.tail)
  AND NOT EXISTS (SELECT 1 FROM hooklane.lane_tail t LEFT JOIN hooklane.lane l USING (lane_id)
                  WHERE t.endpoint_id = e.id AND coalesce(l.head, 1) <= t.tail)
  AND NOT EXISTS (SELECT 1 FROM hooklane.ack k JOIN hooklane.lane_name t USING (lane_id) WHERE t.endpoint_id = e.id)

-- fragment: and_still
AND {is_finished}


-- === audit ===

-- name: audit_append
-- Lines are only ever appended.
INSERT INTO hooklane.audit (n, tenant, at, actor, action, subject, note, seal)
SELECT * FROM unnest(:n::bigint[], :tenant::text[], :at::bigint[], :actor::text[], :action::text[], :subject::text[],
    :note::text[], :seal::bytea[])


-- === endpoints ===

-- name: write_endpoint
-- Create or replace.
INSERT INTO hooklane.endpoint (id, tenant, doc, rev) VALUES (:id, :tenant, :doc, :rev)
ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, rev = excluded.rev, changed_at = excluded.changed_at


-- === health ===

-- name: next_health_rev
-- Nothing to do here: polls find a note by the number of its transaction.

-- name: note_health
-- A turn is written if it is the next one. The row is judged again under its lock: of two processes that write the same
-- turn, the second finds it written.
INSERT INTO hooklane.health AS h (endpoint_id, tenant, turn, state, until, probes, by, xid)
SELECT e.id, e.tenant, w.turn, w.state, w.until, w.probes, w.by, pg_current_xact_id()
FROM unnest(:endpoint_id::text[], :turn::bigint[], :state::text[], :until::bigint[], :probes::integer[], :by::text[])
    AS w (endpoint_id, turn, state, until, probes, by)
JOIN hooklane.endpoint e ON e.id = w.endpoint_id
WHERE w.turn = 1 OR EXISTS (SELECT 1 FROM hooklane.health x WHERE x.endpoint_id = w.endpoint_id)
ORDER BY w.endpoint_id
ON CONFLICT (endpoint_id) DO UPDATE SET turn = excluded.turn, state = excluded.state, until = excluded.until,
    probes = excluded.probes, by = excluded.by, xid = excluded.xid
WHERE h.turn = excluded.turn - 1


-- === leases ===

-- name: clock
-- The first session that finds the clock set back moves it, and with it all that waits; the others find it moved. No
-- renewal waits for another's: a worker that is frozen in the middle of its own must not cost the others their leases.
SELECT value, hooklane.now_ms() FROM hooklane.counter WHERE name = 'clock' FOR UPDATE SKIP LOCKED

-- name: expire
-- These workers are certainly gone: their leases need not be waited for. A renewal of theirs that the database is still
-- about waits for the row, and finds the lease expired. In one order, so that two who expire the same cannot deadlock.
UPDATE hooklane.worker SET lease_until = 0
WHERE id IN (SELECT id FROM hooklane.worker WHERE id = ANY(:workers::text[]) ORDER BY id FOR UPDATE)

-- name: roster
-- Partitions by live worker, and how many belong to none.
SELECT w.id, count(p.pid), hooklane.now_ms()
FROM (SELECT id FROM hooklane.worker WHERE lease_until > hooklane.now_ms()) w
LEFT JOIN hooklane.part p ON p.owner = w.id GROUP BY w.id
UNION ALL
SELECT NULL, count(*), hooklane.now_ms() FROM hooklane.part WHERE owner IS NULL
    OR owner NOT IN (SELECT id FROM hooklane.worker WHERE lease_until > hooklane.now_ms())

-- name: worker_is_alive
-- A worker whose own lease has expired takes nothing.
SELECT id FROM hooklane.worker WHERE id = :worker AND lease_until > hooklane.now_ms() FOR SHARE

-- name: expired_workers
-- The row of the old owner is locked and its expiry judged under the lock: a renewal that is under way is either waited
-- out by being passed over, or finds the lease taken. Nothing here waits, so two who acquire cannot block each other.
SELECT id FROM hooklane.worker WHERE lease_until <= hooklane.now_ms() AND id <> :worker ORDER BY id
FOR UPDATE SKIP LOCKED

-- name: free_partitions
-- FOR UPDATE against the fence's FOR SHARE: a commit of the old owner that is under way ends first.
SELECT p.pid, p.owner IS NOT NULL FROM hooklane.part p
WHERE p.owner IS NULL OR p.owner = ANY(:dead::text[])
   OR NOT EXISTS (SELECT 1 FROM hooklane.worker w WHERE w.id = p.owner)
ORDER BY p.owner IS NOT NULL, p.pid LIMIT :most::bigint FOR UPDATE OF p SKIP LOCKED


-- === event reads ===

-- fragment: fitting_delivery
    SELECT 1 FROM (
        SELECT s.value ->> 0 AS endpoint_id, (s.value ->> 1)::bigint AS lane_id, (s.value ->> 2)::bigint AS seq
        FROM json_array_elements(convert_from(e.stamps, 'UTF8')::json) s
    ) p
    WHERE (:endpoint::text IS NULL OR p.endpoint_id = :endpoint) AND (:state::text IS NULL OR :state = CASE
        WHEN p.lane_id < 0
        THEN coalesce((SELECT l.state FROM hooklane.loose l WHERE l.n = -p.lane_id), 'delivered')
        ELSE coalesce(
            (SELECT CASE WHEN k.upto >= p.seq THEN k.kind END FROM hooklane.skipped k
             WHERE k.lane_id = p.lane_id AND k.seq <= p.seq ORDER BY k.seq DESC LIMIT 1),
            CASE WHEN (SELECT max(a.head) FROM hooklane.ack a WHERE a.lane_id = p.lane_id) > p.seq THEN 'delivered' END,
            CASE WHEN (SELECT max(a.head) FROM hooklane.ack a WHERE a.lane_id = p.lane_id)
                      > (SELECT l.head FROM hooklane.lane l WHERE l.lane_id = p.lane_id) THEN 'queued' END,
            (SELECT CASE WHEN p.seq < l.head THEN 'delivered' WHEN p.seq > l.head OR l.state = 'active' THEN 'queued'
                         WHEN l.state = 'blocked' THEN 'dead' ELSE 'retrying' END
             FROM hooklane.lane l WHERE l.lane_id = p.lane_id),
            'queued')
        END)

-- name: orders
-- How the endpoints order their deliveries.
SELECT DISTINCT coalesce(convert_from(doc, 'UTF8')::json ->> 'order', 'key') FROM hooklane.endpoint
WHERE tenant = :tenant AND (:endpoint::text IS NULL OR id = :endpoint)

-- name: fitting_deliveries_in_lanes
-- As `fitting_deliveries`, of the events that stand in some lanes.
{fitting_events} AND e.n = ANY(ARRAY(SELECT event_n FROM hooklane.lane_event
    WHERE lane_id = ANY(:lanes::bigint[]) AND event_n < :below::bigint AND event_n >= :floor::bigint))
AND EXISTS (
{fitting_delivery}
) ORDER BY e.n DESC LIMIT :limit::bigint

-- name: deliveries_in_lanes
-- What is said of the head of a lane, of what was passed over, and of the dead letter.
WITH wanted AS (SELECT * FROM {places}),
lanes AS (
    SELECT {lane_columns}, CASE WHEN a.head > coalesce(l.head, 1) THEN NULL ELSE l.reason END AS reason
    {lanes} WHERE lane_id = ANY(:lane_id::bigint[]) {and_acks}
    WHERE t.lane_id = ANY(:lane_id::bigint[])
)
SELECT w.lane_id, w.seq, n.key, n.head, n.state, n.attempts, n.next_at, n.reason, s.kind, d.id
FROM wanted w JOIN lanes n USING (lane_id)
LEFT JOIN hooklane.skipped s ON s.lane_id = w.lane_id AND w.seq BETWEEN s.seq AND s.upto
LEFT JOIN hooklane.dead_letter d ON d.lane_id = w.lane_id AND d.seq = w.seq AND d.state = 'open'

-- name: attempts
-- The log of deliveries.
SELECT a.lane_id, a.seq, a.started_at, a.attempt, a.took_ms, a.outcome, a.status, a.failure, a.said, a.detail
FROM hooklane.attempt a JOIN {places} USING (lane_id, seq) ORDER BY a.started_at, a.attempt


-- === lane reads ===

-- fragment: lane_rows
SELECT {lane_columns}, CASE WHEN a.head > coalesce(l.head, 1) THEN NULL ELSE l.reason END AS reason,
    coalesce(CASE WHEN a.head > coalesce(l.head, 1) THEN a.at END, l.since) AS since,
    coalesce({is_paused}, false) AS paused
{lanes}

-- fragment: in_lane_window
lane_id < :below::bigint AND lane_id >= :floor::bigint

-- fragment: lanes_in_window
{lane_rows} WHERE {in_lane_window} {and_acks} LEFT JOIN hooklane.endpoint p ON p.id = t.endpoint_id
    WHERE t.lane_id < :below::bigint AND t.lane_id >= :floor::bigint AND t.tenant = :tenant
      AND (:endpoint::text IS NULL OR t.endpoint_id = :endpoint)
      AND (:text::text IS NULL OR strpos(lower(t.key), lower(:text)) > 0)

-- name: lane
-- One lane with the event and the dead letter at its head.
{lane_view} FROM ({lane_rank} FROM ({lane_rows}
    WHERE lane_id IN (SELECT lane_id FROM hooklane.lane_name WHERE endpoint_id = :endpoint AND key = :key) {and_acks}
    LEFT JOIN hooklane.endpoint p ON p.id = t.endpoint_id
    WHERE t.tenant = :tenant AND t.endpoint_id = :endpoint AND t.key = :key) r) v {at_head}

-- name: lanes_blocked
-- As `lanes_of_rank`, of blocked lanes. The state is written out: only then is the index for lanes that are not well used.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_in_window}
    AND t.lane_id IN (SELECT lane_id FROM hooklane.lane WHERE state = 'blocked' AND {in_lane_window})) r) x {of_rank}

-- name: lanes_retrying
-- The same for lanes that retry.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_in_window}
    AND t.lane_id IN (SELECT lane_id FROM hooklane.lane WHERE state = 'retrying' AND {in_lane_window})) r) x {of_rank}


-- === recovery ===

-- name: replay_heads
-- A dead head is tried again from its first attempt.
UPDATE hooklane.lane l SET state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
FROM {places} WHERE l.lane_id = w.lane_id AND l.state = 'blocked' AND l.head = w.seq RETURNING w.lane_id, w.seq

-- name: replay_loose
-- The same for a delivery without order.
UPDATE hooklane.loose SET state = 'queued', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
FROM {places} WHERE n = -w.lane_id AND state = 'dead' RETURNING w.lane_id, w.seq

-- name: skip_heads
-- A dead head is given up, and its lane goes on.
UPDATE hooklane.lane l SET head = head + 1, state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1,
    since = :now
FROM {places} WHERE l.lane_id = w.lane_id AND l.state = 'blocked' AND l.head = w.seq RETURNING w.lane_id, w.seq

-- name: skip_loose
-- The same for a delivery without order.
UPDATE hooklane.loose SET state = 'skipped', rev = rev + 1, since = :now
FROM {places} WHERE n = -w.lane_id AND state = 'dead' RETURNING w.lane_id, w.seq

-- name: add_skipped
-- What a lane passed over is on record.
INSERT INTO hooklane.skipped (lane_id, seq, upto, tenant, kind, note, actor, at)
SELECT w.lane_id, w.seq, w.seq, :tenant, 'skipped', :note, :actor, :now FROM {places}

-- name: close_letters
-- A letter is closed by what was done about it.
UPDATE hooklane.dead_letter SET state = :state, note = CASE :note::text WHEN '' THEN note ELSE :note END
WHERE id = ANY(:id::text[])

-- name: wake
-- Told to the owner by a row that is polled: a notification could be missed.
INSERT INTO hooklane.recovered (tenant, lane_id, pid)
SELECT :tenant, w.lane_id, w.pid FROM unnest(:lane_id::bigint[], :pid::integer[]) AS w (lane_id, pid)


-- === redeliveries ===

-- name: redelivered_events
-- What redelivery lanes send next, with the place that each event had at first.
SELECT w.lane_id, m.pos, {event}, m.lane_id, m.key, m.seq
FROM unnest(:lane_id::bigint[], :n::bigint[], :seq::bigint[], :many::bigint[]) AS w (lane_id, n, seq, many)
CROSS JOIN LATERAL (
    SELECT * FROM hooklane.member x WHERE x.redelivery = w.n AND x.pos >= w.seq ORDER BY x.pos LIMIT w.many
) m JOIN hooklane.event e ON e.tenant = m.tenant AND e.id = m.event_id


-- === plans and jobs ===

-- name: add_members
-- The frozen set of a plan; a page that is added twice is there once.
INSERT INTO hooklane.member (plan_id, tenant, n, event_id, type, endpoint_id, lane_id, pid, key, seq, place, state,
    version, letter, reason, waiting)
SELECT :plan, :tenant, a.* FROM unnest(:n::bigint[], :event_id::text[], :type::text[], :endpoint_id::text[],
    :lane_id::bigint[], :pid::integer[], :key::text[], :seq::bigint[], :place::bigint[], :state::text[],
    :version::text[], :letter::text[], :reason::text[], :waiting::bigint[]) AS a
ON CONFLICT (plan_id, n) DO NOTHING

-- name: grow_redeliveries
-- Lines of events that are sent again are made or grow; one that has stopped does not come back.
INSERT INTO hooklane.redelivery AS r (tenant, plan_id, line, endpoint_id, pid, tail)
SELECT :tenant, :plan, a.* FROM unnest(:line::text[], :endpoint_id::text[], :pid::integer[], :many::bigint[]) AS a
ON CONFLICT (plan_id, line) DO UPDATE SET tail = r.tail + excluded.tail WHERE r.state IN ('active', 'retrying')
RETURNING line, n, tail, pid

-- name: place_members
-- Where in its line each member is sent again.
UPDATE hooklane.member m SET redelivery = a.redelivery, pos = a.pos
FROM unnest(:n::bigint[], :redelivery::bigint[], :pos::bigint[]) AS a (n, redelivery, pos)
WHERE m.plan_id = :plan AND m.n = a.n

-- name: job_outcomes
-- What became of released members. A lane that has passed the event delivered it, unless it is on record as given up;
-- a loose row that is gone is done.
WITH out AS (SELECT * FROM hooklane.member WHERE plan_id = :plan AND progress = 'released')
SELECT * FROM (
    SELECT m.n, CASE WHEN s.kind IS NOT NULL THEN s.kind WHEN greatest(l.head, a.head, 1) > m.seq THEN 'delivered'
        WHEN l.state = 'blocked' AND l.head = m.seq THEN 'failed' END AS came, l.reason
    FROM out m LEFT JOIN hooklane.lane l USING (lane_id)
    LEFT JOIN (SELECT lane_id, max(head) AS head FROM hooklane.ack GROUP BY lane_id) a USING (lane_id)
    LEFT JOIN hooklane.skipped s ON s.lane_id = m.lane_id AND m.seq BETWEEN s.seq AND s.upto
    WHERE m.state = 'dead' AND m.lane_id > 0
    UNION ALL
    SELECT m.n, CASE coalesce(l.state, 'delivered') WHEN 'dead' THEN 'failed' WHEN 'queued' THEN NULL
        WHEN 'retrying' THEN NULL ELSE coalesce(l.state, 'delivered') END, l.reason
    FROM out m LEFT JOIN hooklane.loose l ON l.n = -m.lane_id WHERE m.state = 'dead' AND m.lane_id < 0
    UNION ALL
    SELECT m.n, CASE WHEN r.head > m.pos THEN 'delivered' WHEN r.state = 'cancelled' THEN 'cancelled'
        WHEN r.state = 'blocked' THEN CASE WHEN r.head = m.pos THEN 'failed' ELSE 'held' END END, r.reason
    FROM out m JOIN hooklane.redelivery r ON r.n = m.redelivery
) o WHERE came IS NOT NULL ORDER BY n

-- name: mark_members
-- How far each member has come; what is done, and what was released unless that is asked for, stays as it is.
UPDATE hooklane.member m SET progress = a.progress, result = a.result
FROM unnest(:n::bigint[], :progress::text[], :result::text[]) AS a (n, progress, result)
WHERE m.plan_id = :plan AND m.n = a.n AND (m.progress = 'planned' OR (:released::boolean AND m.progress = 'released'))
RETURNING m.n

-- name: skipped_members
-- Those of the named members that are not done and whose letter is skipped still; the letters are locked.
SELECT m.n FROM hooklane.member m JOIN hooklane.dead_letter d ON d.id = m.letter
WHERE m.plan_id = :plan AND m.n = ANY(:ns::bigint[]) AND m.progress IN ('planned', 'released') AND d.state = 'skipped'
ORDER BY d.id FOR UPDATE OF d


-- === selection ===

-- name: select_events_in_lanes
-- As `select_events`, of the events that stand in some lanes.
SELECT {to_select} FROM hooklane.event e
WHERE e.n = ANY(ARRAY(SELECT event_n FROM hooklane.lane_event
        WHERE lane_id = ANY(:lanes::bigint[]) AND event_n > :above::bigint AND event_n <= :upto::bigint))
  AND e.tenant = :tenant AND (:key::text IS NULL OR e.key = :key)
  AND (:type::text IS NULL OR e.type LIKE :type)
  AND (:after::bigint IS NULL OR e.created_at >= :after) AND (:before::bigint IS NULL OR e.created_at < :before)
ORDER BY e.n LIMIT :limit::bigint


-- === retention ===

-- name: prune_lock
-- One process at a time is enough: no row where another is at it. The number reads "hookprun".
SELECT 1 WHERE pg_try_advisory_xact_lock(x'686F6F6B7072756E'::bigint)

-- name: heads_of_lanes
-- How far lanes have come. A head that is too old, since its acks were folded meanwhile, only keeps its events longer.
SELECT t.lane_id, greatest(l.head, a.head, 1) FROM hooklane.lane_name t LEFT JOIN hooklane.lane l USING (lane_id)
LEFT JOIN (SELECT lane_id, max(head) AS head FROM hooklane.ack WHERE lane_id = ANY(:lanes::bigint[]) GROUP BY lane_id) a
    USING (lane_id)
WHERE t.lane_id = ANY(:lanes::bigint[])

-- name: recent_attempts
-- Deliveries with a try that is not old: what waited long does not go the moment it lands.
SELECT DISTINCT a.lane_id, a.seq FROM hooklane.attempt a JOIN {places} USING (lane_id, seq)
WHERE a.started_at >= :before

-- name: sent_again
-- Events that a job is sending again.
SELECT m.tenant, m.event_id FROM hooklane.member m JOIN unnest(:tenant::text[], :id::text[]) AS w (tenant, event_id)
    USING (tenant, event_id) WHERE m.progress = 'released' AND m.redelivery IS NOT NULL

-- name: held_lanes
-- Lanes whose last event would go, and which another transaction holds; the others are ours from now on. To wait for one
-- while we hold others would be to wait crosswise for a transaction that comes to those next.
WITH last AS MATERIALIZED (
    SELECT w.lane_id FROM {places} WHERE w.lane_id > 0 GROUP BY w.lane_id
    HAVING NOT EXISTS (SELECT 1 FROM hooklane.lane_event e WHERE e.lane_id = w.lane_id AND e.seq > max(w.seq))
), free AS MATERIALIZED (
    SELECT n.lane_id FROM hooklane.lane_name n JOIN last USING (lane_id) FOR NO KEY UPDATE OF n SKIP LOCKED
)
SELECT n.lane_id FROM hooklane.lane_name n JOIN last USING (lane_id) EXCEPT SELECT lane_id FROM free

-- name: keep_answers
-- A name keeps the answer that it gave when its event goes.
UPDATE hooklane.idempotency i SET answer = w.answer
FROM unnest(:at::bigint[], :n::bigint[], :answer::bytea[]) AS w (at, n, answer)
WHERE i.created_at = w.at AND i.event_n = w.n

-- name: drop_attempts
-- The log of deliveries; how many lines went.
DELETE FROM hooklane.attempt a USING {places} WHERE a.lane_id = w.lane_id AND a.seq = w.seq RETURNING 1

-- name: drop_letters
-- A closed letter goes with its event.
DELETE FROM hooklane.dead_letter d USING {places}
WHERE d.lane_id = w.lane_id AND d.seq = w.seq AND d.state <> 'open' RETURNING 1

-- name: drop_places
-- Where the last event of a lane goes, its seq is kept: the next one stands behind it.
WITH gone AS (
    DELETE FROM hooklane.lane_event e USING {places} WHERE e.lane_id = w.lane_id AND e.seq = w.seq
    RETURNING e.lane_id, e.seq
), emptied AS (
    SELECT lane_id, max(seq) AS seq FROM gone g GROUP BY lane_id
    HAVING NOT EXISTS (SELECT 1 FROM hooklane.lane_event e WHERE e.lane_id = g.lane_id AND e.seq > max(g.seq))
)
UPDATE hooklane.lane_name n SET tail_min = e.seq FROM emptied e WHERE n.lane_id = e.lane_id AND n.tail_min < e.seq

-- name: drop_loose
-- Deliveries without order; the ledger goes on counting them.
DELETE FROM hooklane.loose WHERE n = ANY(:n::bigint[]) RETURNING tenant, endpoint_id, state

-- name: add_past
-- What pruned rows add to the ledger: it must add up after them as before.
INSERT INTO hooklane.past AS p (tenant, endpoint_id, kind, state, many)
SELECT * FROM unnest(:tenant::text[], :endpoint_id::text[], :kind::text[], :state::text[], :many::bigint[])
ON CONFLICT (tenant, endpoint_id, kind, state) DO UPDATE SET many = p.many + excluded.many

-- name: drop_names
-- Names whose event is gone.
DELETE FROM hooklane.idempotency i USING unnest(:tenant::text[], :name::text[]) AS w (tenant, name)
WHERE i.tenant = w.tenant AND i.name = w.name

-- name: old_plan
-- A plan that was never run, a job that ended long ago, or members of a plan that was never finished.
SELECT p.id FROM (
    SELECT id, state, ended_at FROM hooklane.job WHERE id < :bound
    UNION ALL
    SELECT DISTINCT m.plan_id, 'planned', NULL::bigint FROM hooklane.member m
    WHERE m.plan_id < :bound AND NOT EXISTS (SELECT 1 FROM hooklane.job j WHERE j.id = m.plan_id)
) p WHERE p.state <> 'running' AND coalesce(p.ended_at, 0) < :before ORDER BY p.id LIMIT 1

-- name: drop_wakeups
-- Wake-ups that every owner has long polled.
DELETE FROM hooklane.recovered WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM hooklane.recovered WHERE at < :before LIMIT :limit::bigint)) RETURNING 1


-- === counts and ledger ===

-- name: ledger_of_loose
-- Deliveries without order by their own state; those that were delivered left only their number.
SELECT state, count(*) FROM hooklane.loose WHERE (:tenant::text IS NULL OR tenant = :tenant) AND {of_endpoint} GROUP BY state
UNION ALL SELECT state, many FROM hooklane.past WHERE kind = 'loose' AND (:tenant::text IS NULL OR tenant = :tenant) AND {of_endpoint}
UNION ALL SELECT 'delivered', coalesce(sum(many), 0)::bigint FROM hooklane.loose_delivered
WHERE (:tenant::text IS NULL OR tenant = :tenant) AND {of_endpoint}

-- name: lane_counts
-- How many lanes are in each state.
SELECT CASE WHEN head > tail THEN 'idle' WHEN state = 'blocked' THEN 'blocked' WHEN {is_paused} THEN 'paused'
    ELSE state END, count(*)
FROM ({every_lane} WHERE :tenant::text IS NULL OR t.tenant = :tenant) r
LEFT JOIN hooklane.endpoint p ON p.id = r.endpoint_id GROUP BY 1

-- name: size_bytes
-- Our tables with their indexes and what stands beside them.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'hooklane' AND c.relkind = 'r'

-- name: check_lanes
-- What the counters of each endpoint promise.
SELECT tenant, endpoint_id, sum(tail)::bigint, sum(head - 1)::bigint, count(*) FILTER (WHERE head > tail + 1)
FROM ({every_lane}) r GROUP BY 1, 2

-- name: check_loose
-- Deliveries without order that were accepted.
SELECT tenant, endpoint_id, count(*) FROM hooklane.loose GROUP BY 1, 2
UNION ALL SELECT tenant, endpoint_id, many FROM hooklane.loose_delivered
UNION ALL SELECT tenant, endpoint_id, many FROM hooklane.past WHERE kind = 'loose'

-- name: check_loose_by_state
-- The same by state, and only where the event is there.
SELECT l.tenant, l.endpoint_id, l.state, count(*) FROM hooklane.loose l JOIN hooklane.event v ON v.n = l.event_n
GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, 'delivered', many FROM hooklane.loose_delivered
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane.past WHERE kind = 'loose'
