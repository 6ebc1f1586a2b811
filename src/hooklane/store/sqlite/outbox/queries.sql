-- The statements of `store/sql/outbox` that are SQLite's own. A list arrives as JSON; a statement of a `Batch` is run row by row.

-- There is one writer, so nothing has to be held.
-- fragment: for_update

-- fragment: greatest
max

-- fragment: fits
GLOB

-- fragment: lane_names
hooklane_lane_tail

-- fragment: lane_ends
hooklane_lane_end

-- fragment: lanes_in_state
hooklane_lane INDEXED BY hooklane_lane_needing_attention WHERE state <> 'active' AND state =

-- fragment: now
CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)

-- A plus before a column: not by its index, which would be read to its end. The order of numbers is followed instead.
-- fragment: by_number
+

-- What is read more than once of a row is found out more than once, such as where a lane ends, unless the rows are asked
-- for with a limit.
-- fragment: looked_at_once
LIMIT -1

-- fragment: every_lane
SELECT t.tenant, t.lane_id, t.endpoint_id, t.key, t.tail, coalesce(l.head, 1) AS head, coalesce(l.state, 'active') AS state
FROM hooklane_lane_end t LEFT JOIN hooklane_lane l USING (lane_id)

-- fragment: live_workers
SELECT id FROM hooklane_worker WHERE lease_until > {now}

-- fragment: is_paused
(json_extract(CAST(p.doc AS TEXT), '$.state') IN ('paused', 'disabled')
    OR coalesce(json_extract(CAST(p.doc AS TEXT), '$.suspended'), 0))

-- fragment: endpoint_state
json_extract(CAST(e.doc AS TEXT), '$.state')

-- Where a dead letter is open, a person must act first: it is found at once, and the lanes need not be looked through.
-- fragment: is_finished
{endpoint_state} IN ('draining', 'cancelling')
AND NOT EXISTS (SELECT 1 FROM hooklane_dead_letter d
    WHERE d.tenant = e.tenant AND d.state = 'open' AND d.endpoint_id = e.id)
AND NOT EXISTS (SELECT 1 FROM hooklane_loose l WHERE l.endpoint_id = e.id AND l.state IN ('queued', 'retrying'))
AND NOT EXISTS (SELECT 1 FROM hooklane_redelivery r
    WHERE r.endpoint_id = e.id AND r.state IN ('active', 'retrying') AND r.head <= r.tail)
AND NOT EXISTS (SELECT 1 FROM hooklane_lane_end t LEFT JOIN hooklane_lane l USING (lane_id)
    WHERE t.endpoint_id = e.id AND coalesce(l.head, 1) <= t.tail)

-- Nothing can have come since it was found: what was published before the deletion was seen with it.
-- fragment: and_still


-- === audit ===

-- name: audit_append
-- Lines are only ever appended.
INSERT INTO hooklane_audit (n, tenant, at, actor, action, subject, note, seal)
VALUES (:n, :tenant, :at, :actor, :action, :subject, :note, :seal)


-- === endpoints ===

-- name: write_endpoint
-- Create or replace.
INSERT INTO hooklane_endpoint (id, tenant, doc, rev) VALUES (:id, :tenant, :doc, :rev)
ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, rev = excluded.rev


-- === health ===

-- name: next_health_rev
-- Each note gets a new revision, by which polls find it.
UPDATE hooklane_counter SET value = value + 1 WHERE name = 'health'

-- name: note_health
-- A turn is written if it is the next one: of two processes that write the same turn, the second finds it written.
INSERT INTO hooklane_health (endpoint_id, tenant, turn, state, until, probes, by, rev)
SELECT e.id, e.tenant, :turn, :state, :until, :probes, :by,
    (SELECT value FROM hooklane_counter WHERE name = 'health')
FROM hooklane_endpoint e WHERE e.id = :endpoint_id
    AND :turn = 1 + coalesce((SELECT turn FROM hooklane_health WHERE endpoint_id = :endpoint_id), 0)
ON CONFLICT (endpoint_id) DO UPDATE SET turn = excluded.turn, state = excluded.state, until = excluded.until,
    probes = excluded.probes, by = excluded.by, rev = excluded.rev


-- === leases ===

-- name: clock
-- What the clock showed when it was last looked at, and what it shows now.
SELECT value, {now} FROM hooklane_counter WHERE name = 'clock'

-- name: expire
-- These workers are certainly gone: their leases need not be waited for.
UPDATE hooklane_worker SET lease_until = 0 WHERE id IN (SELECT value FROM json_each(:workers))

-- name: expire_all
-- The process that holds the file's delivery lock knows that every earlier worker is gone.
UPDATE hooklane_worker SET lease_until = 0

-- name: roster
-- Partitions by live worker, and how many belong to none.
SELECT w.id, count(p.pid), {now} FROM ({live_workers}) w LEFT JOIN hooklane_part p ON p.owner = w.id GROUP BY w.id
UNION ALL
SELECT NULL, count(*), {now} FROM hooklane_part WHERE owner IS NULL OR owner NOT IN ({live_workers})

-- name: worker_is_alive
-- A worker whose own lease has expired takes nothing.
{live_workers} AND id = :worker

-- name: expired_workers
-- The workers whose partitions may be taken.
SELECT id FROM hooklane_worker WHERE lease_until <= {now} AND id <> :worker ORDER BY id

-- name: free_partitions
-- Partitions without a living owner, those that were given back first.
SELECT p.pid, p.owner IS NOT NULL FROM hooklane_part p
WHERE p.owner IS NULL OR p.owner IN (SELECT value FROM json_each(:dead))
   OR NOT EXISTS (SELECT 1 FROM hooklane_worker w WHERE w.id = p.owner)
ORDER BY p.owner IS NOT NULL, p.pid LIMIT :most


-- === event reads ===

-- fragment: fitting_delivery
    SELECT 1 FROM (
        SELECT json_extract(value, '$[0]') AS endpoint_id, json_extract(value, '$[1]') AS lane_id,
               json_extract(value, '$[2]') AS seq
        FROM json_each(CAST(e.stamps AS TEXT))
    ) s
    WHERE (:endpoint IS NULL OR s.endpoint_id = :endpoint) AND (:state IS NULL OR :state = CASE
        WHEN s.lane_id < 0 THEN (SELECT l.state FROM hooklane_loose l WHERE l.n = -s.lane_id)
        ELSE coalesce(
            (SELECT CASE WHEN p.upto >= s.seq THEN p.kind END FROM hooklane_skipped p
             WHERE p.lane_id = s.lane_id AND p.seq <= s.seq ORDER BY p.seq DESC LIMIT 1),
            (SELECT CASE WHEN s.seq < l.head THEN 'delivered' WHEN s.seq > l.head OR l.state = 'active' THEN 'queued'
                         WHEN l.state = 'blocked' THEN 'dead' ELSE 'retrying' END
             FROM hooklane_lane l WHERE l.lane_id = s.lane_id),
            'queued')
        END)

-- name: orders
-- How the endpoints order their deliveries.
SELECT DISTINCT coalesce(json_extract(CAST(doc AS TEXT), '$.order'), 'key') FROM hooklane_endpoint
WHERE tenant = :tenant AND (:endpoint IS NULL OR id = :endpoint)

-- name: fitting_deliveries_in_lanes
-- As `fitting_deliveries`, of the events that stand in some lanes.
{fitting_events} AND e.n IN (SELECT event_n FROM hooklane_lane_event
    WHERE lane_id IN (SELECT value FROM json_each(:lanes)) AND event_n < :below AND event_n >= :floor)
AND EXISTS (
{fitting_delivery}
) ORDER BY e.n DESC LIMIT :limit

-- name: deliveries_in_lanes
-- What is said of the head of a lane, of what was passed over, and of the dead letter.
SELECT t.lane_id, :seq, t.key, coalesce(l.head, 1), coalesce(l.state, 'active'), coalesce(l.attempts, 0), l.next_at,
    l.reason, s.kind, d.id
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
LEFT JOIN hooklane_skipped s ON s.lane_id = t.lane_id AND :seq BETWEEN s.seq AND s.upto
LEFT JOIN hooklane_dead_letter d ON d.lane_id = t.lane_id AND d.seq = :seq AND d.state = 'open'
WHERE t.lane_id = :lane_id

-- name: attempts
-- The log of one delivery; attempts stand by the age of their event.
SELECT lane_id, seq, started_at, attempt, took_ms, outcome, status, failure, said, detail FROM hooklane_attempt
WHERE event_at = :event_at AND lane_id = :lane_id AND seq = :seq ORDER BY started_at, attempt


-- === lane reads ===

-- fragment: lane_rows
SELECT t.lane_id, t.endpoint_id, t.key, coalesce(l.head, 1) AS head, t.tail, coalesce(l.state, 'active') AS state,
    coalesce(l.attempts, 0) AS attempts, l.next_at, l.since, l.reason,
    {is_paused} AS paused
FROM hooklane_lane_end t LEFT JOIN hooklane_lane l USING (lane_id)
LEFT JOIN hooklane_endpoint p ON p.id = t.endpoint_id

-- fragment: lanes_in_window
{lane_rows}
    WHERE t.lane_id < :below AND t.lane_id >= :floor AND t.tenant = :tenant
      AND (:endpoint IS NULL OR t.endpoint_id = :endpoint)
      AND (:text IS NULL OR instr(lower(t.key), lower(:text)) > 0)

-- name: lane
-- One lane with the event and the dead letter at its head.
{lane_view} FROM ({lane_rank} FROM ({lane_rows}
    WHERE t.tenant = :tenant AND t.endpoint_id = :endpoint AND t.key = :key)) v {at_head}

-- name: lanes_blocked
-- As `lanes_of_rank`, of blocked lanes. The state is written out: only then is the index for lanes that are not well used.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_in_window}
    AND t.lane_id IN (SELECT lane_id FROM {lanes_in_state} 'blocked' AND lane_id < :below AND lane_id >= :floor)
)) {of_rank}

-- name: lanes_retrying
-- The same for lanes that retry.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_in_window}
    AND t.lane_id IN (SELECT lane_id FROM {lanes_in_state} 'retrying' AND lane_id < :below AND lane_id >= :floor)
)) {of_rank}


-- === recovery ===

-- name: replay_heads
-- A dead head is tried again from its first attempt.
UPDATE hooklane_lane SET state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
WHERE lane_id = :lane_id AND state = 'blocked' AND head = :seq RETURNING lane_id, :seq

-- name: replay_loose
-- The same for a delivery without order.
UPDATE hooklane_loose SET state = 'queued', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
WHERE n = -:lane_id AND state = 'dead' RETURNING -n, :seq

-- name: skip_heads
-- A dead head is given up, and its lane goes on.
UPDATE hooklane_lane SET head = head + 1, state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1,
    since = :now
WHERE lane_id = :lane_id AND state = 'blocked' AND head = :seq RETURNING lane_id, :seq

-- name: skip_loose
-- The same for a delivery without order.
UPDATE hooklane_loose SET state = 'skipped', rev = rev + 1, since = :now WHERE n = -:lane_id AND state = 'dead'
RETURNING -n, :seq

-- name: add_skipped
-- What a lane passed over is on record.
INSERT INTO hooklane_skipped (lane_id, seq, upto, tenant, kind, note, actor, at)
VALUES (:lane_id, :seq, :seq, :tenant, 'skipped', :note, :actor, :now)

-- name: close_letters
-- A letter is closed by what was done about it.
UPDATE hooklane_dead_letter SET state = :state, note = CASE :note WHEN '' THEN note ELSE :note END WHERE id = :id

-- name: wake
-- Told to the owner by a row that is polled: a notification could be missed.
INSERT INTO hooklane_recovered (tenant, lane_id, at) VALUES (:tenant, :lane_id, :now)


-- === redeliveries ===

-- name: redelivered_events
-- What a redelivery lane sends next, with the place that the event had at first.
SELECT :lane_id, m.pos, {event}, m.lane_id, m.key, m.seq
FROM hooklane_member m JOIN hooklane_event e ON e.tenant = m.tenant AND e.id = m.event_id
WHERE m.redelivery = :n AND m.pos >= :seq ORDER BY m.pos LIMIT :many


-- === plans and jobs ===

-- name: add_members
-- The frozen set of a plan; a page that is added twice is there once.
INSERT INTO hooklane_member (plan_id, tenant, n, event_id, type, endpoint_id, lane_id, pid, key, seq, place, state,
    version, letter, reason, waiting)
VALUES (:plan, :tenant, :n, :event_id, :type, :endpoint_id, :lane_id, :pid, :key, :seq, :place, :state, :version,
    :letter, :reason, :waiting)
ON CONFLICT (plan_id, n) DO NOTHING

-- name: grow_redeliveries
-- A line of events that are sent again is made or grows; one that has stopped does not come back.
INSERT INTO hooklane_redelivery (tenant, plan_id, line, endpoint_id, pid, tail)
VALUES (:tenant, :plan, :line, :endpoint_id, :pid, :many)
ON CONFLICT (plan_id, line) DO UPDATE SET tail = tail + excluded.tail WHERE state IN ('active', 'retrying')
RETURNING line, n, tail, pid

-- name: place_members
-- Where in its line each member is sent again.
UPDATE hooklane_member SET redelivery = :redelivery, pos = :pos WHERE plan_id = :plan AND n = :n

-- name: job_outcomes
-- What became of released members. A lane that has passed the event delivered it, unless it is on record as given up.
SELECT m.n, CASE WHEN s.kind IS NOT NULL THEN s.kind WHEN l.head > m.seq THEN 'delivered'
    WHEN l.state = 'blocked' AND l.head = m.seq THEN 'failed' END AS came, l.reason
FROM hooklane_member m JOIN hooklane_lane l ON l.lane_id = m.lane_id
LEFT JOIN hooklane_skipped s ON s.lane_id = m.lane_id AND m.seq BETWEEN s.seq AND s.upto
WHERE m.plan_id = :plan AND m.progress = 'released' AND m.state = 'dead' AND m.lane_id > 0 AND came IS NOT NULL
UNION ALL
SELECT m.n, CASE coalesce(l.state, 'delivered') WHEN 'dead' THEN 'failed' WHEN 'queued' THEN NULL
    WHEN 'retrying' THEN NULL ELSE coalesce(l.state, 'delivered') END AS came, l.reason
FROM hooklane_member m LEFT JOIN hooklane_loose l ON l.n = -m.lane_id
WHERE m.plan_id = :plan AND m.progress = 'released' AND m.state = 'dead' AND m.lane_id < 0 AND came IS NOT NULL
UNION ALL
SELECT m.n, CASE WHEN r.head > m.pos THEN 'delivered' WHEN r.state = 'cancelled' THEN 'cancelled'
    WHEN r.state = 'blocked' THEN CASE WHEN r.head = m.pos THEN 'failed' ELSE 'held' END END AS came, r.reason
FROM hooklane_member m JOIN hooklane_redelivery r ON r.n = m.redelivery
WHERE m.plan_id = :plan AND m.progress = 'released' AND came IS NOT NULL
ORDER BY 1

-- name: mark_members
-- How far each member has come; what is done, and what was released unless that is asked for, stays as it is.
UPDATE hooklane_member SET progress = :progress, result = :result
WHERE plan_id = :plan AND n = :n AND (progress = 'planned' OR (:released AND progress = 'released')) RETURNING n

-- name: skipped_members
-- Those of the named members that are not done and whose letter is skipped still.
SELECT m.n FROM hooklane_member m JOIN hooklane_dead_letter d ON d.id = m.letter
WHERE m.plan_id = :plan AND m.n IN (SELECT value FROM json_each(:ns)) AND m.progress IN ('planned', 'released')
  AND d.state = 'skipped'


-- === selection ===

-- name: select_events_in_lanes
-- As `select_events`, of the events that stand in some lanes.
SELECT {to_select} FROM hooklane_event e
WHERE n IN (SELECT event_n FROM hooklane_lane_event
            WHERE lane_id IN (SELECT value FROM json_each(:lanes)) AND event_n > :above AND event_n <= :upto)
  AND +tenant = :tenant AND (:key IS NULL OR key = :key) AND (:type IS NULL OR type GLOB :type)
  AND (:after IS NULL OR created_at >= :after) AND (:before IS NULL OR created_at < :before)
ORDER BY n LIMIT :limit


-- === retention ===

-- name: prune_lock
-- One process at a time: the writer is one anyway.
SELECT 1

-- name: heads_of_lanes
-- How far lanes have come.
SELECT lane_id, head FROM hooklane_lane WHERE lane_id IN (SELECT value FROM json_each(:lanes))

-- name: recent_attempts
-- Deliveries with a try that is not old: what waited long does not go the moment it lands.
SELECT :lane_id, :seq FROM hooklane_attempt
WHERE event_at = :event_at AND lane_id = :lane_id AND seq = :seq AND started_at >= :before LIMIT 1

-- name: sent_again
-- Events that a job is sending again.
SELECT tenant, event_id FROM hooklane_member
WHERE tenant = :tenant AND event_id = :id AND progress = 'released' AND redelivery IS NOT NULL LIMIT 1

-- name: held_lanes
-- Nothing to do here: there is one writer, so no other transaction holds a lane.

-- name: keep_answers
-- A name keeps the answer that it gave when its event goes.
UPDATE hooklane_idempotency SET answer = :answer WHERE created_at = :at AND event_n = :n AND answer IS NULL

-- name: drop_attempts
-- The log of one delivery.
DELETE FROM hooklane_attempt WHERE event_at = :event_at AND lane_id = :lane_id AND seq = :seq RETURNING 1

-- name: drop_letters
-- A closed letter goes with its event.
DELETE FROM hooklane_dead_letter WHERE lane_id = :lane_id AND seq = :seq AND state <> 'open' RETURNING 1

-- name: drop_places
-- The place of the event in its lane; the lane ends where it did (a trigger sees to it).
DELETE FROM hooklane_lane_event WHERE lane_id = :lane_id AND seq = :seq

-- name: drop_loose
-- Deliveries without order; the ledger goes on counting them.
DELETE FROM hooklane_loose WHERE n = :n RETURNING tenant, endpoint_id, state

-- name: add_past
-- What pruned rows add to the ledger: it must add up after them as before.
INSERT INTO hooklane_past (tenant, endpoint_id, kind, state, many) VALUES (:tenant, :endpoint_id, :kind, :state, :many)
ON CONFLICT (tenant, endpoint_id, kind, state) DO UPDATE SET many = many + excluded.many

-- name: drop_names
-- Names whose event is gone.
DELETE FROM hooklane_idempotency WHERE tenant = :tenant AND name = :name

-- name: old_plan
-- A plan that was never run, a job that ended long ago, or members of a plan that was never finished.
WITH RECURSIVE plan (id) AS (
    SELECT min(plan_id) FROM hooklane_member
    UNION ALL SELECT (SELECT min(plan_id) FROM hooklane_member WHERE plan_id > plan.id) FROM plan WHERE plan.id < :bound
)
SELECT id FROM hooklane_job WHERE id < :bound AND state <> 'running' AND coalesce(ended_at, 0) < :before
UNION ALL
SELECT id FROM plan WHERE id < :bound AND NOT EXISTS (SELECT 1 FROM hooklane_job j WHERE j.id = plan.id)
ORDER BY 1 LIMIT 1

-- name: drop_wakeups
-- Wake-ups that every owner has long polled.
DELETE FROM hooklane_recovered WHERE n IN (SELECT n FROM hooklane_recovered ORDER BY n LIMIT :limit) AND at < :before
RETURNING 1


-- === counts and ledger ===

-- name: ledger_of_loose
-- Deliveries without order by their own state.
SELECT state, count(*) FROM hooklane_loose WHERE (:tenant IS NULL OR tenant = :tenant)
AND (:endpoint IS NULL OR endpoint_id = :endpoint) GROUP BY state
UNION ALL SELECT state, many FROM hooklane_past
WHERE kind = 'loose' AND (:tenant IS NULL OR tenant = :tenant) AND (:endpoint IS NULL OR endpoint_id = :endpoint)

-- name: lane_counts
-- How many lanes are in each state.
SELECT CASE WHEN head > tail THEN 'idle' WHEN state = 'blocked' THEN 'blocked' WHEN paused THEN 'paused' ELSE state END,
    count(*)
FROM ({lane_rows} WHERE t.tenant = coalesce(:tenant, t.tenant) {looked_at_once}) GROUP BY 1

-- name: size_bytes
-- The pages of the file.
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()

-- name: check_lanes
-- What the counters of each endpoint promise.
SELECT tenant, endpoint_id, sum(tail), sum(head - 1), sum(head > tail + 1) FROM ({every_lane} {looked_at_once}) GROUP BY 1, 2

-- name: check_loose
-- Deliveries without order that were accepted.
SELECT tenant, endpoint_id, count(*) FROM hooklane_loose GROUP BY 1, 2
UNION ALL SELECT tenant, endpoint_id, many FROM hooklane_past WHERE kind = 'loose'

-- name: check_loose_by_state
-- The same by state, and only where the event is there.
SELECT l.tenant, l.endpoint_id, l.state, count(*) FROM hooklane_loose l JOIN hooklane_event v ON v.n = l.event_n
GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane_past WHERE kind = 'loose'
