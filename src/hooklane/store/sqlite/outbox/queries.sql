-- The statements of `store/sql/outbox` for SQLite. A list arrives as JSON; a statement of a `Batch` is run row by row.

-- fragment: now
CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)

-- fragment: live_workers
SELECT id FROM hooklane_worker WHERE lease_until > {now}

-- fragment: event
e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of, e.trace

-- fragment: is_held
(json_extract(CAST(p.doc AS TEXT), '$.state') IN ('paused', 'disabled')
    OR coalesce(json_extract(CAST(p.doc AS TEXT), '$.suspended'), 0))

-- fragment: is_deleted
json_extract(CAST(doc AS TEXT), '$.state') IN ('draining', 'cancelling')


-- === audit ===

-- name: audit_head
-- The end of the chain, to which the next line is sealed.
SELECT n, seal FROM hooklane_audit_chain WHERE place = 'head'

-- name: audit_last_line
-- The end of the log itself, where the chain does not remember it.
SELECT n, seal FROM hooklane_audit ORDER BY n DESC LIMIT 1

-- name: audit_append
-- Lines are only ever appended.
INSERT INTO hooklane_audit (n, tenant, at, actor, action, subject, note, seal)
VALUES (:n, :tenant, :at, :actor, :action, :subject, :note, :seal)

-- name: audit_move_head
-- The chain remembers its end, so that a line that was cut off is missed.
INSERT INTO hooklane_audit_chain (place, n, seal) VALUES ('head', :n, :seal)
ON CONFLICT (place) DO UPDATE SET n = excluded.n, seal = excluded.seal

-- name: audit_ends
-- Both ends of the chain as the store remembers them.
SELECT place, n, seal FROM hooklane_audit_chain

-- name: audit_lines
-- Lines of all tenants, the oldest first, for the check of the chain.
SELECT n, tenant, at, actor, action, subject, note, seal FROM hooklane_audit WHERE n > :after ORDER BY n LIMIT :limit

-- name: audit_oldest
-- What retention may look at: never a line before its elder.
SELECT n, at, seal FROM hooklane_audit ORDER BY n LIMIT :limit

-- name: audit_drop
-- The oldest lines go, up to one.
DELETE FROM hooklane_audit WHERE n <= :n

-- name: audit_move_anchor
-- Where the chain goes on after its oldest lines went.
UPDATE hooklane_audit_chain SET n = :n, seal = :seal WHERE place = 'anchor'


-- === endpoints ===

-- name: endpoint
-- One endpoint as a document.
SELECT doc FROM hooklane_endpoint WHERE id = :id

-- name: endpoints
-- The endpoints of a tenant, or all of them.
SELECT doc FROM hooklane_endpoint WHERE tenant = coalesce(:tenant, tenant)

-- name: next_endpoint_rev
-- Each write gets a new revision, by which polls find it.
UPDATE hooklane_counter SET value = value + :step WHERE name = 'endpoint' RETURNING value

-- name: write_endpoint
-- Create or replace.
INSERT INTO hooklane_endpoint (id, tenant, doc, rev) VALUES (:id, :tenant, :doc, :rev)
ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, rev = excluded.rev

-- name: any_deletion
-- Whether there is a deletion to finish: as a rule there is none, and nothing need be written.
SELECT 1 FROM hooklane_endpoint WHERE {is_deleted}
UNION ALL SELECT 1 FROM hooklane_tenant WHERE state IN ('draining', 'cancelling') LIMIT 1

-- name: cancel_dead_loose
-- Loose dead letters are in no owner's hands, so no worker would cancel them.
UPDATE hooklane_loose SET state = 'cancelled', rev = rev + 1 WHERE state = 'dead' AND endpoint_id IN
    (SELECT id FROM hooklane_endpoint WHERE json_extract(CAST(doc AS TEXT), '$.state') = 'cancelling')
RETURNING n

-- name: cancel_loose_letters
-- The dead letters of loose deliveries that were cancelled.
UPDATE hooklane_dead_letter SET state = 'cancelled'
WHERE lane_id IN (SELECT -value FROM json_each(:ns)) AND state = 'open'

-- name: forget_endpoints
-- Address and secrets go as soon as nothing is owed.
DELETE FROM hooklane_endpoint WHERE {is_deleted}
AND NOT EXISTS (SELECT 1 FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
    WHERE t.endpoint_id = hooklane_endpoint.id AND coalesce(l.head, 1) <= t.tail)
AND NOT EXISTS (SELECT 1 FROM hooklane_loose l
    WHERE l.endpoint_id = hooklane_endpoint.id AND l.state IN ('queued', 'retrying', 'dead'))
AND NOT EXISTS (SELECT 1 FROM hooklane_redelivery r
    WHERE r.endpoint_id = hooklane_endpoint.id AND r.state IN ('active', 'retrying') AND r.head <= r.tail)
RETURNING id


-- === health ===

-- fragment: health
SELECT endpoint_id, turn, state, until, probes, by FROM hooklane_health

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

-- name: health_of_endpoints
-- How these breakers stand now.
{health} WHERE endpoint_id IN (SELECT value FROM json_each(:ids))

-- name: health
-- The breakers of a tenant, or all of them.
{health} WHERE tenant = coalesce(:tenant, tenant)


-- === leases ===

-- name: clock
-- What the clock showed when it was last looked at, and what it shows now.
SELECT value, {now} FROM hooklane_counter WHERE name = 'clock'

-- name: keep_clock
-- For the next look.
UPDATE hooklane_counter SET value = :now WHERE name = 'clock'

-- name: move_lanes
-- A clock that was set back takes along what waits for it.
UPDATE hooklane_lane SET next_at = next_at - :by WHERE state = 'retrying' AND next_at > :now

-- name: move_loose
-- The same for deliveries without order.
UPDATE hooklane_loose SET next_at = next_at - :by WHERE state = 'retrying' AND next_at > :now

-- name: move_redeliveries
-- The same for redeliveries.
UPDATE hooklane_redelivery SET next_at = next_at - :by WHERE state = 'retrying' AND next_at > :now

-- name: move_health
-- The same for open breakers.
UPDATE hooklane_health SET until = until - :by WHERE until > :now

-- name: move_workers
-- The same for leases.
UPDATE hooklane_worker SET lease_until = lease_until - :by WHERE lease_until > :now

-- name: join
-- The lease begins by the database's clock.
INSERT INTO hooklane_worker (id, lease_until) VALUES (:worker, {now} + :lease_ms)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
RETURNING lease_until - :lease_ms, lease_until

-- name: let_go
-- A name that comes back owns nothing: what it held under its old lease is let go, under a new epoch.
UPDATE hooklane_part SET owner = NULL, epoch = epoch + 1 WHERE owner = :worker

-- name: renew
-- A lease that has expired is never renewed.
UPDATE hooklane_worker SET lease_until = {now} + :lease_ms WHERE id = :worker AND lease_until > {now}
RETURNING lease_until - :lease_ms, lease_until

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

-- name: take_partitions
-- Each change of owner bumps the epoch, which fences the writes of the last one.
UPDATE hooklane_part SET owner = :worker, epoch = epoch + 1 WHERE pid IN (SELECT value FROM json_each(:pids))
RETURNING pid, epoch

-- name: release
-- Given back by their owner, with nothing in flight.
UPDATE hooklane_part SET owner = NULL WHERE owner = :worker AND pid IN (SELECT value FROM json_each(:pids))

-- name: release_all
-- Given back by a worker that leaves.
UPDATE hooklane_part SET owner = NULL WHERE owner = :worker

-- name: leave
-- Off the roster.
DELETE FROM hooklane_worker WHERE id = :worker


-- === event reads ===

-- name: event
-- One event.
SELECT {event} FROM hooklane_event e WHERE e.tenant = :tenant AND e.id = :id

-- name: event_window
-- How many events a search looks at next, and down to which.
SELECT count(*), min(n) FROM (SELECT n FROM hooklane_event WHERE n < :below ORDER BY n DESC LIMIT :window)

-- fragment: fitting_events
SELECT e.n FROM hooklane_event e
WHERE e.n < :below AND e.n >= :floor AND +e.tenant = :tenant  -- by number: an index by tenant would be read to its end
  AND (:type IS NULL OR e.type GLOB :type) AND (:key IS NULL OR e.key = :key)
  AND (:after IS NULL OR e.created_at >= :after) AND (:before IS NULL OR e.created_at < :before)

-- name: fitting_events
-- All that is looked at stays inside SQLite: a row that comes out costs the event loop its turn with the interpreter. The
-- plus before a tenant: not by the index of tenants, which holds all there are.
{fitting_events} ORDER BY e.n DESC LIMIT :limit

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

-- name: fitting_deliveries
-- The state as `state_at` has it: it follows from where the head of the lane stands.
{fitting_events} AND EXISTS (
{fitting_delivery}
) ORDER BY e.n DESC LIMIT :limit

-- name: orders
-- How the endpoints order their deliveries.
SELECT DISTINCT coalesce(json_extract(CAST(doc AS TEXT), '$.order'), 'key') FROM hooklane_endpoint
WHERE tenant = :tenant AND (:endpoint IS NULL OR id = :endpoint)

-- name: lane_of_key
-- The lane of a key at an endpoint.
SELECT lane_id FROM hooklane_lane_tail WHERE endpoint_id = :endpoint AND key = :key AND tenant = :tenant

-- name: lanes_of_key
-- At every endpoint: all lanes are looked at, which is far less than all events.
SELECT lane_id FROM hooklane_lane_tail WHERE key = :key AND tenant = :tenant

-- name: event_window_in_lanes
-- As `event_window`, of the events that stand in some lanes.
SELECT count(*), min(n) FROM (SELECT DISTINCT event_n AS n FROM hooklane_lane_event
    WHERE lane_id IN (SELECT value FROM json_each(:lanes)) AND event_n < :below ORDER BY event_n DESC LIMIT :window)

-- name: fitting_deliveries_in_lanes
-- As `fitting_deliveries`, of the events that stand in some lanes.
{fitting_events} AND e.n IN (SELECT event_n FROM hooklane_lane_event
    WHERE lane_id IN (SELECT value FROM json_each(:lanes)) AND event_n < :below AND event_n >= :floor)
AND EXISTS (
{fitting_delivery}
) ORDER BY e.n DESC LIMIT :limit

-- name: events_by_number
-- Whole events come out only for those that fit.
SELECT {event} FROM hooklane_event e WHERE e.n IN (SELECT value FROM json_each(:ns)) ORDER BY e.n DESC

-- name: stamps
-- Where events stand.
SELECT id, stamps, created_at FROM hooklane_event
WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids))

-- name: deliveries_in_lanes
-- What is said of the head of a lane, of what was passed over, and of the dead letter.
SELECT t.lane_id, :seq, t.key, coalesce(l.head, 1), coalesce(l.state, 'active'), coalesce(l.attempts, 0), l.next_at,
    l.reason, s.kind, d.id
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
LEFT JOIN hooklane_skipped s ON s.lane_id = t.lane_id AND :seq BETWEEN s.seq AND s.upto
LEFT JOIN hooklane_dead_letter d ON d.lane_id = t.lane_id AND d.seq = :seq AND d.state = 'open'
WHERE t.lane_id = :lane_id

-- name: loose_deliveries
-- The same for deliveries without order.
SELECT -l.n, 1, NULL, 0, l.state, l.attempts, l.next_at, l.reason, NULL, d.id FROM hooklane_loose l
LEFT JOIN hooklane_dead_letter d ON d.lane_id = -l.n AND d.state = 'open'
WHERE l.n IN (SELECT value FROM json_each(:ns))

-- name: attempts
-- The log of one delivery; attempts stand by the age of their event.
SELECT lane_id, seq, started_at, attempt, took_ms, outcome, status, failure, said, detail FROM hooklane_attempt
WHERE event_at = :event_at AND lane_id = :lane_id AND seq = :seq ORDER BY started_at, attempt


-- === lane reads ===

-- fragment: lane_rows
SELECT t.lane_id, t.endpoint_id, t.key, coalesce(l.head, 1) AS head, t.tail, coalesce(l.state, 'active') AS state,
    coalesce(l.attempts, 0) AS attempts, l.next_at, l.since, l.reason,
    {is_held} AS paused
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
LEFT JOIN hooklane_endpoint p ON p.id = t.endpoint_id

-- fragment: lane_view
SELECT v.lane_id, v.endpoint_id, v.key, v.head, v.tail, v.attempts, v.next_at, v.since, v.reason, d.id, e.id, e.type,
    e.created_at, v.rank

-- fragment: lane_rank
SELECT *, CASE WHEN head > tail THEN 4 WHEN state = 'blocked' THEN 0 WHEN paused THEN 2 WHEN state = 'retrying' THEN 1
    ELSE 3 END AS rank

-- fragment: at_head
LEFT JOIN hooklane_lane_event le ON le.lane_id = v.lane_id AND le.seq = v.head
LEFT JOIN hooklane_event e ON e.n = le.event_n
LEFT JOIN hooklane_dead_letter d ON d.lane_id = v.lane_id AND d.seq = v.head AND d.state = 'open'

-- fragment: lanes_in_window
{lane_rows}
    WHERE t.lane_id < :below AND t.lane_id >= :floor AND t.tenant = :tenant
      AND (:endpoint IS NULL OR t.endpoint_id = :endpoint)
      AND (:text IS NULL OR instr(lower(t.key), lower(:text)) > 0)

-- fragment: of_rank
WHERE rank = :rank ORDER BY lane_id DESC LIMIT :limit) v {at_head} ORDER BY v.lane_id DESC

-- name: lane
-- One lane with the event and the dead letter at its head.
{lane_view} FROM ({lane_rank} FROM ({lane_rows}
    WHERE t.tenant = :tenant AND t.endpoint_id = :endpoint AND t.key = :key)) v {at_head}

-- name: lanes_of_rank
-- The lanes of a window that are listed at one place: those that need attention come first.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_in_window})) {of_rank}

-- name: lanes_blocked
-- The same for blocked lanes. The state is written out: only then is the index for lanes that are not well used.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_in_window}
    AND t.lane_id IN (SELECT lane_id FROM hooklane_lane INDEXED BY hooklane_lane_needing_attention
                      WHERE state = 'blocked' AND state <> 'active' AND lane_id < :below AND lane_id >= :floor)
)) {of_rank}

-- name: lanes_retrying
-- The same for lanes that retry.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_in_window}
    AND t.lane_id IN (SELECT lane_id FROM hooklane_lane INDEXED BY hooklane_lane_needing_attention
                      WHERE state = 'retrying' AND state <> 'active' AND lane_id < :below AND lane_id >= :floor)
)) {of_rank}

-- name: lane_window
-- How many lanes a search looks at next, and down to which.
SELECT count(*), min(lane_id) FROM
    (SELECT lane_id FROM hooklane_lane_tail WHERE lane_id < :below ORDER BY lane_id DESC LIMIT :window)

-- name: lane_window_blocked
-- The same for blocked lanes.
SELECT count(*), min(lane_id) FROM
    (SELECT lane_id FROM hooklane_lane INDEXED BY hooklane_lane_needing_attention
     WHERE state = 'blocked' AND state <> 'active' AND lane_id < :below ORDER BY lane_id DESC LIMIT :window)

-- name: lane_window_retrying
-- The same for lanes that retry.
SELECT count(*), min(lane_id) FROM
    (SELECT lane_id FROM hooklane_lane INDEXED BY hooklane_lane_needing_attention
     WHERE state = 'retrying' AND state <> 'active' AND lane_id < :below ORDER BY lane_id DESC LIMIT :window)

-- name: any_paused_endpoint
-- Whether a lane can be paused at all.
SELECT 1 FROM hooklane_endpoint p WHERE {is_held} LIMIT 1

-- name: events_of_lane
-- The events of a lane from a seq on.
SELECT e.id, t.endpoint_id, l.lane_id, l.seq, e.type
FROM hooklane_lane_event l JOIN hooklane_event e ON e.n = l.event_n
JOIN hooklane_lane_tail t USING (lane_id) WHERE l.lane_id = :lane_id AND l.seq >= :seq ORDER BY l.seq LIMIT :limit


-- === dead letters ===

-- fragment: letters
SELECT d.id, e.id, e.type, d.endpoint_id, d.lane_id, t.key, d.seq, d.attempts, d.reason, d.died_at,
    coalesce(t.tail - d.seq, 0), d.note, d.assignee, e.created_at
FROM hooklane_dead_letter d JOIN hooklane_event e ON e.n = d.event_n LEFT JOIN hooklane_lane_tail t USING (lane_id)
WHERE d.tenant = :tenant AND d.state = 'open'

-- fragment: in_letter_window
(d.died_at, d.id) > (:died_at, :letter) AND (d.died_at, d.id) <= (:upto_at, :upto_letter)

-- name: dead_letters
-- The open dead letters of a window that fit, the oldest first.
{letters} AND (:endpoint IS NULL OR d.endpoint_id = :endpoint)
    AND (:key IS NULL OR e.key = :key OR t.key = :key)
    AND (:type IS NULL OR e.type GLOB :type) AND (:reason IS NULL OR d.reason GLOB :reason)
    AND (:after IS NULL OR d.died_at >= :after) AND (:before IS NULL OR d.died_at < :before)
    AND {in_letter_window}
ORDER BY d.died_at, d.id LIMIT :limit

-- name: dead_letter
-- One that is still open.
{letters} AND d.id = :id

-- name: letter_window_open
-- Up to which open letter a search looks next. The state is written out: each has an index of its own.
SELECT died_at, id FROM hooklane_dead_letter WHERE tenant = :tenant AND state = 'open'
    AND (died_at, id) > (:died_at, :letter) ORDER BY died_at, id LIMIT 1 OFFSET :at

-- name: letter_window_skipped
-- The same for letters that were skipped.
SELECT died_at, id FROM hooklane_dead_letter WHERE tenant = :tenant AND state = 'skipped'
    AND (died_at, id) > (:died_at, :letter) ORDER BY died_at, id LIMIT 1 OFFSET :at

-- name: set_note
-- A note is written on a letter that is still open.
UPDATE hooklane_dead_letter SET note = :note WHERE tenant = :tenant AND id = :id AND state = 'open' RETURNING id


-- === recovery ===

-- name: letters_to_recover
-- Open dead letters, with what a recovery changes.
SELECT d.id, d.lane_id, d.endpoint_id, t.key, d.seq, coalesce(t.tail - d.seq, 0), coalesce(t.pid, o.pid)
FROM hooklane_dead_letter d LEFT JOIN hooklane_lane_tail t USING (lane_id)
LEFT JOIN hooklane_loose o ON o.n = -d.lane_id
WHERE d.tenant = :tenant AND d.id IN (SELECT value FROM json_each(:ids)) AND d.state = 'open'
ORDER BY d.lane_id

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

-- name: passed_over
-- The first copy named the largest seq below that was not passed over: the end of the run of skips tells it.
SELECT lane_id, seq, upto FROM hooklane_skipped WHERE lane_id IN (SELECT value FROM json_each(:lanes))

-- name: redelivery_ack
-- The head moves on.
UPDATE hooklane_redelivery SET head = :seq + 1, state = 'active', attempts = 0, next_at = 0, reason = NULL, starts = 0
WHERE n = :n AND head = :seq AND state IN ('active', 'retrying') RETURNING n

-- name: redelivery_is_behind
-- Whether the head has passed this one already: the same ack came before.
SELECT 1 FROM hooklane_redelivery WHERE n = :n AND head > :seq

-- name: redelivery_hold
-- The head waits, or has failed for good.
UPDATE hooklane_redelivery SET state = :state, attempts = :attempt, next_at = :next_at, reason = :reason, starts = 0
WHERE n = :n AND head = :seq AND attempts <= :attempt
    AND (state IN ('active', 'retrying') OR (state = :state AND attempts = :attempt)) RETURNING n

-- name: redelivery_start
-- An attempt is announced before it is made; a repeat finds itself.
UPDATE hooklane_redelivery SET attempts = :attempt, starts = :starts
WHERE n = :n AND head = :seq AND :attempt - attempts IN (0, 1)
    AND (starts < :starts OR (starts = :starts AND attempts = :attempt)) AND state IN ('active', 'retrying') RETURNING n

-- name: redelivery_cancel
-- Its endpoint was deleted.
UPDATE hooklane_redelivery SET state = 'cancelled' WHERE n = :n


-- === plans and jobs ===

-- fragment: member
n, progress, result, event_id, type, endpoint_id, lane_id, pid, key, seq, place, state, version, letter, reason, waiting

-- name: job_to_save
-- The plan as it is, to compare with what its writer expects.
SELECT doc FROM hooklane_job WHERE id = :id

-- name: save_job
-- The document says everything; the columns are for finding it.
INSERT INTO hooklane_job (id, tenant, job_id, state, created_at, ended_at, doc)
VALUES (:id, :tenant, :job_id, :state, :created_at, :ended_at, :doc)
ON CONFLICT (id) DO UPDATE SET job_id = excluded.job_id, state = excluded.state, ended_at = excluded.ended_at,
    doc = excluded.doc

-- name: job
-- By the id of the plan or of the job.
SELECT doc FROM hooklane_job WHERE tenant = :tenant AND (id = :id OR job_id = :id)

-- name: open_jobs
-- Those that are running, the oldest first.
SELECT doc FROM hooklane_job WHERE state = 'running' ORDER BY created_at, id

-- name: add_members
-- The frozen set of a plan; a page that is added twice is there once.
INSERT INTO hooklane_member (plan_id, tenant, n, event_id, type, endpoint_id, lane_id, pid, key, seq, place, state,
    version, letter, reason, waiting)
VALUES (:plan, :tenant, :n, :event_id, :type, :endpoint_id, :lane_id, :pid, :key, :seq, :place, :state, :version,
    :letter, :reason, :waiting)
ON CONFLICT (plan_id, n) DO NOTHING

-- name: members
-- The members of a plan by how far they have come.
SELECT {member} FROM hooklane_member
WHERE plan_id = :plan AND n > :after AND progress IN (SELECT value FROM json_each(:words)) ORDER BY n LIMIT :limit

-- name: planned_members
-- Those of the named members that were not carried out yet.
SELECT {member} FROM hooklane_member
WHERE plan_id = :plan AND n IN (SELECT value FROM json_each(:ns)) AND progress = 'planned' ORDER BY n

-- name: changed_members
-- The members that are not any more as the plan saw them.
SELECT m.n FROM hooklane_member m LEFT JOIN hooklane_dead_letter d
    ON d.id = m.letter AND d.state = 'open' AND CAST(d.died_at AS TEXT) = m.version
WHERE m.plan_id = :plan AND m.state = 'dead' AND d.id IS NULL
UNION ALL
SELECT m.n FROM hooklane_member m LEFT JOIN hooklane_dead_letter d ON d.id = m.letter AND d.state = 'skipped'
WHERE m.plan_id = :plan AND m.state = 'skipped' AND d.id IS NULL
UNION ALL
SELECT m.n FROM hooklane_member m LEFT JOIN hooklane_event e ON e.tenant = m.tenant AND e.id = m.event_id
WHERE m.plan_id = :plan AND m.state = 'delivered' AND e.n IS NULL
ORDER BY 1

-- name: kept_events
-- Those of the named events that retention has left.
SELECT id FROM hooklane_event WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids))

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

-- name: count_members
-- How many members have come how far.
SELECT progress, count(*) FROM hooklane_member WHERE plan_id = :plan GROUP BY progress

-- name: skipped_members
-- Those of the named members that are not done and whose letter is skipped still.
SELECT m.n FROM hooklane_member m JOIN hooklane_dead_letter d ON d.id = m.letter
WHERE m.plan_id = :plan AND m.n IN (SELECT value FROM json_each(:ns)) AND m.progress IN ('planned', 'released')
  AND d.state = 'skipped'

-- name: close_skipped_letters
-- A skipped event that was published again is not skipped any more.
UPDATE hooklane_dead_letter SET state = 'replayed' WHERE state = 'skipped' AND id IN
    (SELECT letter FROM hooklane_member WHERE plan_id = :plan AND n IN (SELECT value FROM json_each(:ns)))


-- === selection ===

-- fragment: member_letters
SELECT e.id, e.type, d.endpoint_id, d.lane_id, coalesce(t.pid, l.pid, 0), coalesce(t.key, e.key), d.seq, d.died_at, d.id,
    d.reason, coalesce(t.tail - d.seq, 0)
FROM hooklane_dead_letter d JOIN hooklane_event e ON e.n = d.event_n
LEFT JOIN hooklane_lane_tail t ON t.lane_id = d.lane_id LEFT JOIN hooklane_loose l ON l.n = -d.lane_id
WHERE d.tenant = :tenant AND (:endpoint IS NULL OR d.endpoint_id = :endpoint)
  AND (:key IS NULL OR e.key = :key OR t.key = :key) AND (:type IS NULL OR e.type GLOB :type)
  AND (:reason IS NULL OR d.reason GLOB :reason)
  AND (:after IS NULL OR d.died_at >= :after) AND (:before IS NULL OR d.died_at < :before)
  AND {in_letter_window}

-- fragment: to_select
n, id, type, key, created_at, stamps

-- name: select_open_letters
-- Open dead letters that fit. The state is written out: each has an index of its own.
{member_letters} AND d.state = 'open' ORDER BY d.died_at, d.id LIMIT :limit

-- name: select_skipped_letters
-- Skipped ones that fit.
{member_letters} AND d.state = 'skipped' ORDER BY d.died_at, d.id LIMIT :limit

-- name: event_window_up
-- How many events a selection looks at next, the oldest first, and up to which.
SELECT count(*), max(n) FROM (SELECT n FROM hooklane_event WHERE n > :above ORDER BY n LIMIT :window)

-- name: select_events
-- Events that fit by themselves; how they stand is looked up for these only. The plus: not by the index of tenants, which
-- holds all there are.
SELECT {to_select} FROM hooklane_event
WHERE +tenant = :tenant AND n > :above AND n <= :upto
  AND (:key IS NULL OR key = :key) AND (:type IS NULL OR type GLOB :type)
  AND (:after IS NULL OR created_at >= :after) AND (:before IS NULL OR created_at < :before)
ORDER BY n LIMIT :limit

-- name: event_window_up_in_lanes
-- As `event_window_up`, of the events that stand in some lanes.
SELECT count(*), max(n) FROM (SELECT DISTINCT event_n AS n FROM hooklane_lane_event
    WHERE lane_id IN (SELECT value FROM json_each(:lanes)) AND event_n > :above ORDER BY event_n LIMIT :window)

-- name: select_events_in_lanes
-- As `select_events`, of the events that stand in some lanes.
SELECT {to_select} FROM hooklane_event
WHERE n IN (SELECT event_n FROM hooklane_lane_event
            WHERE lane_id IN (SELECT value FROM json_each(:lanes)) AND event_n > :above AND event_n <= :upto)
  AND +tenant = :tenant AND (:key IS NULL OR key = :key) AND (:type IS NULL OR type GLOB :type)
  AND (:after IS NULL OR created_at >= :after) AND (:before IS NULL OR created_at < :before)
ORDER BY n LIMIT :limit

-- name: select_events_by_id
-- Events that were named.
SELECT {to_select} FROM hooklane_event WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids))

-- name: select_events_by_letter
-- Events whose dead letter was named.
SELECT d.id, d.endpoint_id, e.n, e.id, e.type, e.key, e.created_at, e.stamps FROM hooklane_dead_letter d
JOIN hooklane_event e ON e.n = d.event_n WHERE d.tenant = :tenant AND d.id IN (SELECT value FROM json_each(:ids))

-- name: deaths
-- When and why letters died: a plan notices when that has changed.
SELECT id, died_at, reason FROM hooklane_dead_letter WHERE id IN (SELECT value FROM json_each(:ids))

-- name: lanes_of_members
-- To which partitions deliveries belong, and how far their lanes go.
SELECT lane_id, pid, tail FROM hooklane_lane_tail WHERE lane_id IN (SELECT value FROM json_each(:lanes))
UNION ALL SELECT -n, pid, 1 FROM hooklane_loose WHERE n IN (SELECT value FROM json_each(:loose))


-- === retention ===

-- name: prune_lock
-- One process at a time: the writer is one anyway.
SELECT 1

-- name: oldest_events
-- What retention looks at next.
SELECT n, tenant, id, type, key, created_at, stamps FROM hooklane_event WHERE n > :after ORDER BY n LIMIT :limit

-- name: heads_of_lanes
-- How far lanes have come.
SELECT lane_id, head FROM hooklane_lane WHERE lane_id IN (SELECT value FROM json_each(:lanes))

-- name: owed_loose
-- Those of the named deliveries that are not settled.
SELECT n FROM hooklane_loose WHERE n IN (SELECT value FROM json_each(:ns)) AND state IN ('queued', 'retrying', 'dead')

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
-- The place of the event in its lane; the tail stays where it is.
DELETE FROM hooklane_lane_event WHERE lane_id = :lane_id AND seq = :seq

-- name: drop_loose
-- Deliveries without order; the ledger goes on counting them.
DELETE FROM hooklane_loose WHERE n = :n RETURNING tenant, endpoint_id, state

-- name: add_past
-- What pruned rows add to the ledger: it must add up after them as before.
INSERT INTO hooklane_past (tenant, endpoint_id, kind, state, many) VALUES (:tenant, :endpoint_id, :kind, :state, :many)
ON CONFLICT (tenant, endpoint_id, kind, state) DO UPDATE SET many = many + excluded.many

-- name: drop_events
-- The events themselves.
DELETE FROM hooklane_event WHERE n IN (SELECT value FROM json_each(:ns))

-- name: attempts_pruned
-- Up to which event the attempts were pruned: each event is looked at once.
SELECT value FROM hooklane_counter WHERE name = 'attempts_pruned'

-- name: set_attempts_pruned
-- For the next step.
UPDATE hooklane_counter SET value = :n WHERE name = 'attempts_pruned'

-- name: old_skipped
-- The prev_seq of the event behind it is read off such a row, so it stays as long as that event does.
SELECT s.lane_id, s.seq, s.upto, s.kind, s.tenant, t.endpoint_id, s.at < :before
    AND NOT EXISTS (SELECT 1 FROM hooklane_lane_event e WHERE e.lane_id = s.lane_id AND e.seq <= s.upto) AS is_old,
    l.head > s.upto + 1
    AND NOT EXISTS (SELECT 1 FROM hooklane_lane_event e WHERE e.lane_id = s.lane_id AND e.seq <= s.upto + 1)
    AND NOT EXISTS (SELECT 1 FROM hooklane_skipped f WHERE f.lane_id = s.lane_id AND f.seq = s.upto + 1) AS is_over
FROM hooklane_skipped s JOIN hooklane_lane_tail t USING (lane_id) JOIN hooklane_lane l USING (lane_id)
WHERE (s.lane_id, s.seq) > (:lane, :seq) ORDER BY s.lane_id, s.seq LIMIT :limit

-- name: drop_skipped
-- A run of rows that is over, or was joined to its neighbour.
DELETE FROM hooklane_skipped WHERE lane_id = :lane AND seq BETWEEN :first AND :last

-- name: join_skipped
-- Old neighbours become one row, so that a lane that skips everything does not grow.
UPDATE hooklane_skipped SET upto = :upto WHERE lane_id = :lane AND seq = :seq

-- name: old_names
-- A name lives at least as long as its event: else the same id could be published twice.
SELECT tenant, name, created_at, NOT EXISTS (SELECT 1 FROM hooklane_event WHERE n = event_n)
FROM hooklane_idempotency WHERE created_at >= :since AND created_at < :before ORDER BY created_at LIMIT :limit

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

-- name: drop_members
-- The members of an old plan, a few at a time.
DELETE FROM hooklane_member WHERE plan_id = :plan
    AND n IN (SELECT n FROM hooklane_member WHERE plan_id = :plan ORDER BY n LIMIT :limit) RETURNING 1

-- name: drop_redeliveries
-- The redelivery lanes of a plan whose members are gone.
DELETE FROM hooklane_redelivery WHERE plan_id = :plan

-- name: drop_job
-- The plan itself, last.
DELETE FROM hooklane_job WHERE id = :plan RETURNING 1

-- name: drop_wakeups
-- Wake-ups that every owner has long polled.
DELETE FROM hooklane_recovered WHERE n IN (SELECT n FROM hooklane_recovered ORDER BY n LIMIT :limit) AND at < :before
RETURNING 1

-- name: drop_workers
-- Workers that are long gone and own nothing.
DELETE FROM hooklane_worker WHERE lease_until < :before
    AND NOT EXISTS (SELECT 1 FROM hooklane_part p WHERE p.owner = hooklane_worker.id) RETURNING 1


-- === counts and ledger ===

-- name: ledger_of_lanes
-- What was accepted, what the heads have passed, and what stands at a head.
SELECT coalesce(sum(tail), 0), coalesce(sum(head - 1), 0),
    coalesce(sum(state = 'retrying' AND head <= tail), 0), coalesce(sum(state = 'blocked'), 0)
FROM (SELECT t.tail, coalesce(l.head, 1) AS head, coalesce(l.state, 'active') AS state
      FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
      WHERE (:tenant IS NULL OR t.tenant = :tenant) AND (:endpoint IS NULL OR t.endpoint_id = :endpoint))

-- name: ledger_of_passed
-- What the heads passed without delivering it.
SELECT s.kind, sum(s.upto - s.seq + 1) FROM hooklane_skipped s JOIN hooklane_lane_tail t USING (lane_id)
WHERE (:tenant IS NULL OR s.tenant = :tenant) AND (:endpoint IS NULL OR t.endpoint_id = :endpoint) GROUP BY s.kind
UNION ALL SELECT state, many FROM hooklane_past
WHERE kind = 'lane' AND (:tenant IS NULL OR tenant = :tenant) AND (:endpoint IS NULL OR endpoint_id = :endpoint)

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
FROM ({lane_rows} WHERE t.tenant = coalesce(:tenant, t.tenant)) GROUP BY 1

-- name: oldest_pending_at
-- Since when the oldest event waits.
SELECT min(at) FROM (
    SELECT min(e.created_at) AS at FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
    JOIN hooklane_lane_event le ON le.lane_id = t.lane_id AND le.seq = coalesce(l.head, 1)
    JOIN hooklane_event e ON e.n = le.event_n WHERE t.tenant = coalesce(:tenant, t.tenant)
    UNION ALL
    SELECT min(e.created_at) FROM hooklane_loose l JOIN hooklane_event e ON e.n = l.event_n
    WHERE l.state IN ('queued', 'retrying') AND l.tenant = coalesce(:tenant, l.tenant)
)

-- name: size_bytes
-- The pages of the file.
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()

-- name: check_lanes
-- What the counters of each endpoint promise.
SELECT tenant, endpoint_id, sum(tail), sum(coalesce(head, 1) - 1), sum(coalesce(head, 1) > tail + 1)
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id, tenant) GROUP BY 1, 2

-- name: check_owed
-- Counted from the events themselves, not from the counters: what was lost would be missing here.
SELECT t.tenant, t.endpoint_id, CASE WHEN e.seq > coalesce(l.head, 1) THEN 'queued'
    ELSE CASE coalesce(l.state, 'active') WHEN 'blocked' THEN 'dead' WHEN 'retrying' THEN 'retrying' ELSE 'queued' END
    END, count(*)
FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id)
JOIN hooklane_lane_event e ON e.lane_id = t.lane_id AND e.seq >= coalesce(l.head, 1) AND e.seq <= t.tail
JOIN hooklane_event v ON v.n = e.event_n
WHERE coalesce(l.head, 1) <= t.tail GROUP BY 1, 2, 3

-- name: check_passed
-- What the heads passed without delivering it, by endpoint.
SELECT s.tenant, t.endpoint_id, s.kind, sum(s.upto - s.seq + 1)
FROM hooklane_skipped s JOIN hooklane_lane_tail t USING (lane_id) GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane_past WHERE kind = 'lane'

-- name: check_loose
-- Deliveries without order that were accepted.
SELECT tenant, endpoint_id, count(*) FROM hooklane_loose GROUP BY 1, 2
UNION ALL SELECT tenant, endpoint_id, many FROM hooklane_past WHERE kind = 'loose'

-- name: check_loose_by_state
-- The same by state, and only where the event is there.
SELECT l.tenant, l.endpoint_id, l.state, count(*) FROM hooklane_loose l JOIN hooklane_event v ON v.n = l.event_n
GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane_past WHERE kind = 'loose'

-- name: check_blocked_without_letter
-- A dead head that no person would be shown.
SELECT t.tenant, t.endpoint_id, t.key, l.head FROM hooklane_lane l JOIN hooklane_lane_tail t USING (lane_id)
WHERE l.state = 'blocked' AND NOT EXISTS
    (SELECT 1 FROM hooklane_dead_letter d WHERE d.lane_id = l.lane_id AND d.seq = l.head AND d.state = 'open')

-- name: check_letter_without_dead
-- An open letter about which nothing can be done.
SELECT d.tenant, d.endpoint_id, d.id FROM hooklane_dead_letter d
LEFT JOIN hooklane_lane l ON l.lane_id = d.lane_id AND l.state = 'blocked' AND l.head = d.seq
LEFT JOIN hooklane_loose o ON o.n = -d.lane_id AND o.state = 'dead'
WHERE d.state = 'open' AND l.lane_id IS NULL AND o.n IS NULL
