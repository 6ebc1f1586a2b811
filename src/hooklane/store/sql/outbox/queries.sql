-- The statements of `store/sql/outbox` that both back-ends run, as PostgreSQL spells them; `store/sqlite/spelling.py` says
-- how SQLite does. What the back-ends do each in their own way is in the `queries.sql` of each, and so are the fragments
-- `{now}`, `{for_update}`, `{greatest}`, `{fits}`, `{by_number}`, `{lane_names}`, `{lane_ends}`, `{endpoint_state}`,
-- `{is_finished}`, `{and_still}`, `{lanes_in_state}` and `{every_lane}`.

-- fragment: event
e.id, e.type, e.key, e.data, e.created_at, e.tenant, e.replay_of, e.trace


-- === audit ===

-- name: audit_head
-- The end of the chain, to which the next line is sealed. Appenders wait here for each other: take this lock last.
SELECT n, seal FROM hooklane.audit_chain WHERE place = 'head' {for_update}

-- name: audit_last_line
-- The end of the log itself, where the chain does not remember it.
SELECT n, seal FROM hooklane.audit ORDER BY n DESC LIMIT 1

-- name: audit_move_head
-- The chain remembers its end, so that a line that was cut off is missed.
INSERT INTO hooklane.audit_chain (place, n, seal) VALUES ('head', :n, :seal)
ON CONFLICT (place) DO UPDATE SET n = excluded.n, seal = excluded.seal

-- name: audit_ends
-- Both ends of the chain as the store remembers them.
SELECT place, n, seal FROM hooklane.audit_chain

-- name: audit_lines
-- Lines of all tenants, the oldest first, for the check of the chain.
SELECT n, tenant, at, actor, action, subject, note, seal FROM hooklane.audit
WHERE n > :after ORDER BY n LIMIT :limit::bigint

-- name: audit_oldest
-- What retention may look at: never a line before its elder.
SELECT n, at, seal FROM hooklane.audit ORDER BY n LIMIT :limit::bigint

-- name: audit_drop
-- The oldest lines go, up to one.
DELETE FROM hooklane.audit WHERE n <= :n

-- name: audit_move_anchor
-- Where the chain goes on after its oldest lines went.
UPDATE hooklane.audit_chain SET n = :n, seal = :seal WHERE place = 'anchor'


-- === endpoints ===

-- name: endpoint
-- One endpoint as a document.
SELECT doc FROM hooklane.endpoint WHERE id = :id

-- name: endpoints
-- The endpoints of a tenant, or all of them.
SELECT doc FROM hooklane.endpoint WHERE tenant = coalesce(:tenant::text, tenant)

-- name: next_endpoint_rev
-- Each write gets a new revision, by which polls find it. The counter's lock is held until the commit: revisions become
-- visible in order, and creators of one id queue up.
UPDATE hooklane.counter SET value = value + :step::bigint WHERE name = 'endpoint' RETURNING value

-- name: finished_endpoints
-- Deleted endpoints to which nothing is owed any more.
SELECT e.id FROM hooklane.endpoint e WHERE {is_finished}

-- name: forget_endpoints
-- Address and secrets go.
DELETE FROM hooklane.endpoint AS e WHERE e.id = ANY(:ids::text[]) {and_still}

-- name: dead_loose_to_cancel
-- Loose dead letters are in no owner's hands, so no worker would cancel them.
SELECT -d.lane_id FROM hooklane.dead_letter d JOIN hooklane.endpoint e ON e.id = d.endpoint_id
WHERE d.state = 'open' AND d.lane_id < 0 AND {endpoint_state} = 'cancelling'

-- name: cancel_dead_loose
-- They are cancelled, unless somebody has replayed or skipped them meanwhile.
UPDATE hooklane.loose SET state = 'cancelled', rev = rev + 1 WHERE n = ANY(:ns::bigint[]) AND state = 'dead' RETURNING n

-- name: cancel_letters
-- The open letters of what was cancelled.
UPDATE hooklane.dead_letter SET state = 'cancelled' WHERE lane_id = ANY(:lanes::bigint[]) AND state = 'open'


-- === health ===

-- fragment: health
SELECT endpoint_id, turn, state, until, probes, by FROM hooklane.health

-- name: health_of_endpoints
-- How these breakers stand now.
{health} WHERE endpoint_id = ANY(:ids::text[])

-- name: health
-- The breakers of a tenant, or all of them.
{health} WHERE tenant = coalesce(:tenant::text, tenant)


-- === leases ===

-- name: keep_clock
-- What the clock shows now, for the next look.
UPDATE hooklane.counter SET value = :now WHERE name = 'clock'

-- name: move_lanes
-- A clock that was set back takes along what waits for it.
UPDATE hooklane.lane SET next_at = next_at - :by::bigint WHERE state = 'retrying' AND next_at > :now::bigint

-- name: move_loose
-- The same for deliveries without order.
UPDATE hooklane.loose SET next_at = next_at - :by::bigint WHERE state = 'retrying' AND next_at > :now::bigint

-- name: move_redeliveries
-- The same for redeliveries.
UPDATE hooklane.redelivery SET next_at = next_at - :by::bigint WHERE state = 'retrying' AND next_at > :now::bigint

-- name: move_health
-- The same for open breakers.
UPDATE hooklane.health SET until = until - :by::bigint WHERE until > :now::bigint

-- name: move_workers
-- The same for leases.
UPDATE hooklane.worker SET lease_until = lease_until - :by::bigint WHERE lease_until > :now::bigint

-- name: join
-- The lease begins by the database's clock.
INSERT INTO hooklane.worker (id, lease_until) VALUES (:worker, {now} + :lease_ms::bigint)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
RETURNING lease_until - :lease_ms::bigint, lease_until

-- name: let_go
-- A name that comes back owns nothing: what it held under its old lease is let go, under a new epoch.
UPDATE hooklane.part SET owner = NULL, epoch = epoch + 1 WHERE owner = :worker

-- name: renew
-- Judged after any wait for the row: an expired lease is never renewed, however the two clocks stand.
UPDATE hooklane.worker SET lease_until = {now} + :lease_ms::bigint
WHERE id = :worker AND lease_until > {now}
RETURNING lease_until - :lease_ms::bigint, lease_until

-- name: take_partitions
-- Each change of owner bumps the epoch, which fences the writes of the last one.
UPDATE hooklane.part SET owner = :worker, epoch = epoch + 1 WHERE pid = ANY(:pids::integer[]) RETURNING pid, epoch

-- name: release
-- Given back by their owner, with nothing in flight.
UPDATE hooklane.part SET owner = NULL WHERE owner = :worker AND pid = ANY(:pids::integer[])

-- name: release_all
-- Given back by a worker that leaves.
UPDATE hooklane.part SET owner = NULL WHERE owner = :worker

-- name: leave
-- Off the roster.
DELETE FROM hooklane.worker WHERE id = :worker


-- === event reads ===

-- name: event
-- One event.
SELECT {event} FROM hooklane.event e WHERE e.tenant = :tenant AND e.id = :id

-- name: event_window
-- How many events a search looks at next, and down to which.
SELECT count(*), min(n) FROM
    (SELECT n FROM hooklane.event WHERE n < :below::bigint ORDER BY n DESC LIMIT :window::bigint) w

-- name: fitting_events
-- All that is looked at stays inside the database: a row that comes out is work for the event loop.
{fitting_events} ORDER BY e.n DESC LIMIT :limit::bigint

-- name: fitting_deliveries
-- The state as `state_at` has it: it follows from where the head of the lane stands.
{fitting_events} AND EXISTS (
{fitting_delivery}
) ORDER BY e.n DESC LIMIT :limit::bigint

-- name: lane_of_key
-- The lane of a key at an endpoint.
SELECT lane_id FROM {lane_names} WHERE endpoint_id = :endpoint AND key = :key AND tenant = :tenant

-- name: lanes_of_key
-- At every endpoint: all lanes are looked at, which is far less than all events.
SELECT lane_id FROM {lane_names} WHERE key = :key AND tenant = :tenant

-- name: event_window_in_lanes
-- As `event_window`, of the events that stand in some lanes.
SELECT count(*), min(n) FROM (SELECT DISTINCT event_n AS n FROM hooklane.lane_event
    WHERE lane_id = ANY(:lanes::bigint[]) AND event_n < :below::bigint ORDER BY n DESC LIMIT :window::bigint) w

-- name: events_by_number
-- Whole events come out only for those that fit.
SELECT {event} FROM hooklane.event e WHERE e.n = ANY(:ns::bigint[]) ORDER BY e.n DESC

-- name: stamps
-- Where events stand.
SELECT id, stamps, created_at FROM hooklane.event WHERE tenant = :tenant AND id = ANY(:ids::text[])

-- name: loose_deliveries
-- As `deliveries_in_lanes`, of deliveries without order.
SELECT -l.n, 1, NULL, 0, l.state, l.attempts, l.next_at, l.reason, NULL, d.id FROM hooklane.loose l
LEFT JOIN hooklane.dead_letter d ON d.lane_id = -l.n AND d.state = 'open' WHERE l.n = ANY(:ns::bigint[])

-- fragment: fitting_events
SELECT e.n FROM hooklane.event e
WHERE e.n < :below::bigint AND e.n >= :floor::bigint AND {by_number}e.tenant = :tenant
  AND (:type::text IS NULL OR e.type {fits} :type) AND (:key::text IS NULL OR e.key = :key)
  AND (:after::bigint IS NULL OR e.created_at >= :after) AND (:before::bigint IS NULL OR e.created_at < :before)


-- === lane reads ===

-- fragment: lane_rank
SELECT *, CASE WHEN head > tail THEN 4 WHEN state = 'blocked' THEN 0 WHEN paused THEN 2
    WHEN state = 'retrying' THEN 1 ELSE 3 END AS rank

-- fragment: lane_view
SELECT v.lane_id, v.endpoint_id, v.key, v.head, v.tail, v.attempts, v.next_at, v.since, v.reason, d.id, e.id, e.type,
    e.created_at, v.rank

-- fragment: at_head
LEFT JOIN hooklane.lane_event le ON le.lane_id = v.lane_id AND le.seq = v.head
LEFT JOIN hooklane.event e ON e.n = le.event_n
LEFT JOIN hooklane.dead_letter d ON d.lane_id = v.lane_id AND d.seq = v.head AND d.state = 'open'

-- fragment: of_rank
WHERE rank = :rank::integer ORDER BY lane_id DESC LIMIT :limit::bigint) v {at_head} ORDER BY v.lane_id DESC

-- name: lanes_of_rank
-- The lanes of a window that are listed at one place: those that need attention come first.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_in_window}) r) x {of_rank}

-- name: lane_window
-- How many lanes a search looks at next, and down to which.
SELECT count(*), min(lane_id) FROM
    (SELECT lane_id FROM {lane_names} WHERE lane_id < :below::bigint
     ORDER BY lane_id DESC LIMIT :window::bigint) w

-- name: any_paused_endpoint
-- Whether a lane can be paused at all.
SELECT 1 FROM hooklane.endpoint p WHERE {is_paused} LIMIT 1

-- name: events_of_lane
-- The events of a lane from a seq on.
SELECT e.id, t.endpoint_id, l.lane_id, l.seq, e.type, e.created_at
FROM hooklane.lane_event l JOIN hooklane.event e ON e.n = l.event_n
JOIN {lane_names} t USING (lane_id) WHERE l.lane_id = :lane_id AND l.seq >= :seq
ORDER BY l.seq LIMIT :limit::bigint

-- name: lane_window_blocked
-- As `lane_window`, of blocked lanes.
SELECT count(*), min(lane_id) FROM
    (SELECT lane_id FROM {lanes_in_state} 'blocked' AND lane_id < :below::bigint
     ORDER BY lane_id DESC LIMIT :window::bigint) w

-- name: lane_window_retrying
-- As `lane_window`, of lanes that retry.
SELECT count(*), min(lane_id) FROM
    (SELECT lane_id FROM {lanes_in_state} 'retrying' AND lane_id < :below::bigint
     ORDER BY lane_id DESC LIMIT :window::bigint) w


-- === dead letters ===

-- fragment: letters
SELECT d.id, e.id, e.type, d.endpoint_id, d.lane_id, t.key, d.seq, d.attempts, d.reason, d.died_at,
    coalesce(t.tail - d.seq, 0), d.note, d.assignee, e.created_at
FROM hooklane.dead_letter d JOIN hooklane.event e ON e.n = d.event_n LEFT JOIN {lane_ends} t USING (lane_id)
WHERE d.tenant = :tenant AND d.state = 'open'

-- fragment: in_letter_window
(d.died_at, d.id) > (:died_at::bigint, :letter::text) AND (d.died_at, d.id) <= (:upto_at::bigint, :upto_letter::text)

-- name: dead_letters
-- The open dead letters of a window that fit, the oldest first.
{letters} AND (:endpoint::text IS NULL OR d.endpoint_id = :endpoint)
    AND (:key::text IS NULL OR e.key = :key OR t.key = :key)
    AND (:type::text IS NULL OR e.type {fits} :type) AND (:reason::text IS NULL OR d.reason {fits} :reason)
    AND (:after::bigint IS NULL OR d.died_at >= :after) AND (:before::bigint IS NULL OR d.died_at < :before)
    AND {in_letter_window}
ORDER BY d.died_at, d.id LIMIT :limit::bigint

-- name: dead_letter
-- One that is still open.
{letters} AND d.id = :id

-- name: letter_window_open
-- Up to which open letter a search looks next. The state is written out: each has an index of its own.
SELECT died_at, id FROM hooklane.dead_letter WHERE tenant = :tenant AND state = 'open'
    AND (died_at, id) > (:died_at::bigint, :letter::text) ORDER BY died_at, id LIMIT 1 OFFSET :at::bigint

-- name: letter_window_skipped
-- The same for letters that were skipped.
SELECT died_at, id FROM hooklane.dead_letter WHERE tenant = :tenant AND state = 'skipped'
    AND (died_at, id) > (:died_at::bigint, :letter::text) ORDER BY died_at, id LIMIT 1 OFFSET :at::bigint

-- name: set_note
-- A note is written on a letter that is still open.
UPDATE hooklane.dead_letter SET note = :note WHERE tenant = :tenant AND id = :id AND state = 'open' RETURNING id


-- === recovery ===

-- name: letters_to_recover
-- Open dead letters, with what a recovery changes.
SELECT d.id, d.lane_id, d.endpoint_id, t.key, d.seq, coalesce(t.tail - d.seq, 0), coalesce(t.pid, o.pid)
FROM hooklane.dead_letter d LEFT JOIN {lane_ends} t USING (lane_id)
LEFT JOIN hooklane.loose o ON o.n = -d.lane_id
WHERE d.tenant = :tenant AND d.id = ANY(:ids::text[]) AND d.state = 'open' ORDER BY d.lane_id


-- === redeliveries ===

-- name: passed_over
-- The first copy named the largest seq below that was not passed over: the end of the run of skips tells it.
SELECT lane_id, seq, upto FROM hooklane.skipped WHERE lane_id = ANY(:lanes::bigint[])

-- name: redelivery_ack
-- The head moves on.
UPDATE hooklane.redelivery SET head = :seq + 1, state = 'active', attempts = 0, next_at = 0, reason = NULL, starts = 0
WHERE n = :n AND head = :seq AND state IN ('active', 'retrying') RETURNING n

-- name: redelivery_is_behind
-- Whether the head has passed this one already: the same ack came before.
SELECT 1 FROM hooklane.redelivery WHERE n = :n AND head > :seq

-- name: redelivery_hold
-- The head waits, or has failed for good. As `next_at_of`: the worker may not have heard yet that this clock was set
-- back.
UPDATE hooklane.redelivery SET state = :state, attempts = :attempt, reason = :reason, starts = 0,
    next_at = CASE WHEN :next_at::bigint > 0 AND :judged_at::bigint > {now} + {jump_ms}
        THEN :next_at::bigint - :judged_at::bigint + {now} ELSE :next_at::bigint END
WHERE n = :n AND head = :seq AND attempts <= :attempt
    AND (state IN ('active', 'retrying') OR (state = :state AND attempts = :attempt)) RETURNING n

-- name: redelivery_start
-- An attempt is announced before it is made; a repeat finds itself.
UPDATE hooklane.redelivery SET attempts = :attempt, starts = :starts
WHERE n = :n AND head = :seq AND :attempt - attempts IN (0, 1)
    AND (starts < :starts OR (starts = :starts AND attempts = :attempt)) AND state IN ('active', 'retrying') RETURNING n

-- name: redelivery_cancel
-- Its endpoint was deleted.
UPDATE hooklane.redelivery SET state = 'cancelled' WHERE n = :n


-- === plans and jobs ===

-- fragment: member
n, progress, result, event_id, type, endpoint_id, lane_id, pid, key, seq, place, state, version, letter, reason, waiting

-- name: save_job
-- The document says everything; the columns are for finding it.
INSERT INTO hooklane.job (id, tenant, job_id, state, created_at, ended_at, doc)
VALUES (:id, :tenant, :job_id, :state, :created_at, :ended_at, :doc)
ON CONFLICT (id) DO UPDATE SET job_id = excluded.job_id, state = excluded.state, ended_at = excluded.ended_at,
    doc = excluded.doc

-- name: job
-- By the id of the plan or of the job.
SELECT doc FROM hooklane.job WHERE tenant = :tenant AND (id = :id OR job_id = :id)

-- name: open_jobs
-- Those that are running, the oldest first.
SELECT doc FROM hooklane.job WHERE state = 'running' ORDER BY created_at, id

-- name: members
-- The members of a plan by how far they have come.
SELECT {member} FROM hooklane.member
WHERE plan_id = :plan AND n > :after AND progress = ANY(:words::text[]) ORDER BY n LIMIT :limit::bigint

-- name: planned_members
-- Those of the named members that were not carried out yet.
SELECT {member} FROM hooklane.member
WHERE plan_id = :plan AND n = ANY(:ns::bigint[]) AND progress = 'planned' ORDER BY n {for_update}

-- name: changed_members
-- The members that are not any more as the plan saw them.
SELECT m.n FROM hooklane.member m LEFT JOIN hooklane.dead_letter d
    ON d.id = m.letter AND d.state = 'open' AND CAST(d.died_at AS text) = m.version
WHERE m.plan_id = :plan AND m.state = 'dead' AND d.id IS NULL
UNION ALL
SELECT m.n FROM hooklane.member m LEFT JOIN hooklane.dead_letter d ON d.id = m.letter AND d.state = 'skipped'
WHERE m.plan_id = :plan AND m.state = 'skipped' AND d.id IS NULL
UNION ALL
SELECT m.n FROM hooklane.member m LEFT JOIN hooklane.event e ON e.tenant = m.tenant AND e.id = m.event_id
WHERE m.plan_id = :plan AND m.state = 'delivered' AND e.n IS NULL
ORDER BY 1

-- name: kept_events
-- Those of the named events that retention has left.
SELECT id FROM hooklane.event WHERE tenant = :tenant AND id = ANY(:ids::text[])

-- name: count_members
-- How many members have come how far.
SELECT progress, count(*) FROM hooklane.member WHERE plan_id = :plan GROUP BY progress

-- name: close_skipped_letters
-- A skipped event that was published again is not skipped any more.
UPDATE hooklane.dead_letter SET state = 'replayed' WHERE state = 'skipped'
    AND id IN (SELECT letter FROM hooklane.member WHERE plan_id = :plan AND n = ANY(:ns::bigint[]))

-- name: job_to_save
-- The plan as it is, to compare with what its writer expects; locked against another writer.
SELECT doc FROM hooklane.job WHERE id = :id {for_update}


-- === selection ===

-- fragment: member_letters
SELECT e.id, e.type, d.endpoint_id, d.lane_id, coalesce(t.pid, l.pid, 0), coalesce(t.key, e.key), d.seq, d.died_at,
    d.id, d.reason, coalesce(t.tail - d.seq, 0)
FROM hooklane.dead_letter d JOIN hooklane.event e ON e.n = d.event_n
LEFT JOIN {lane_ends} t ON t.lane_id = d.lane_id LEFT JOIN hooklane.loose l ON l.n = -d.lane_id
WHERE d.tenant = :tenant AND (:endpoint::text IS NULL OR d.endpoint_id = :endpoint)
  AND (:key::text IS NULL OR e.key = :key OR t.key = :key) AND (:type::text IS NULL OR e.type {fits} :type)
  AND (:reason::text IS NULL OR d.reason {fits} :reason)
  AND (:after::bigint IS NULL OR d.died_at >= :after) AND (:before::bigint IS NULL OR d.died_at < :before)
  AND {in_letter_window}

-- fragment: to_select
e.n, e.id, e.type, e.key, e.created_at, e.stamps

-- name: select_open_letters
-- Open dead letters that fit. The state is written out: each has an index of its own.
{member_letters} AND d.state = 'open' ORDER BY d.died_at, d.id LIMIT :limit::bigint

-- name: select_skipped_letters
-- Skipped ones that fit.
{member_letters} AND d.state = 'skipped' ORDER BY d.died_at, d.id LIMIT :limit::bigint

-- name: event_window_up
-- How many events a selection looks at next, the oldest first, and up to which.
SELECT count(*), max(n) FROM
    (SELECT n FROM hooklane.event WHERE n > :above::bigint ORDER BY n LIMIT :window::bigint) w

-- name: event_window_up_in_lanes
-- As `event_window_up`, of the events that stand in some lanes.
SELECT count(*), max(n) FROM (SELECT DISTINCT event_n AS n FROM hooklane.lane_event
    WHERE lane_id = ANY(:lanes::bigint[]) AND event_n > :above::bigint ORDER BY n LIMIT :window::bigint) w

-- name: select_events_by_id
-- Events that were named.
SELECT {to_select} FROM hooklane.event e WHERE e.tenant = :tenant AND e.id = ANY(:ids::text[])

-- name: select_events_by_letter
-- Events whose dead letter was named.
SELECT d.id, d.endpoint_id, {to_select} FROM hooklane.dead_letter d JOIN hooklane.event e ON e.n = d.event_n
WHERE d.tenant = :tenant AND d.id = ANY(:ids::text[])

-- name: deaths
-- When and why letters died: a plan notices when that has changed.
SELECT id, died_at, reason FROM hooklane.dead_letter WHERE id = ANY(:ids::text[])

-- name: lanes_of_members
-- To which partitions deliveries belong, and how far their lanes go.
SELECT lane_id, pid, tail FROM {lane_ends} WHERE lane_id = ANY(:lanes::bigint[])
UNION ALL SELECT -n, pid, 1 FROM hooklane.loose WHERE n = ANY(:loose::bigint[])

-- name: select_events
-- Events that fit by themselves; how they stand is looked up for these only.
SELECT {to_select} FROM hooklane.event e
WHERE {by_number}e.tenant = :tenant AND e.n > :above::bigint AND e.n <= :upto::bigint AND (:key::text IS NULL OR e.key = :key)
  AND (:type::text IS NULL OR e.type {fits} :type)
  AND (:after::bigint IS NULL OR e.created_at >= :after) AND (:before::bigint IS NULL OR e.created_at < :before)
ORDER BY e.n LIMIT :limit::bigint


-- === retention ===

-- name: oldest_events
-- What retention looks at next.
SELECT n, tenant, id, type, key, created_at, stamps FROM hooklane.event WHERE n > :after ORDER BY n LIMIT :limit::bigint

-- name: owed_loose
-- Those of the named deliveries that are not settled.
SELECT n FROM hooklane.loose WHERE n = ANY(:ns::bigint[]) AND state IN ('queued', 'retrying', 'dead')

-- name: drop_events
-- The events themselves.
DELETE FROM hooklane.event WHERE n = ANY(:ns::bigint[])

-- name: attempts_pruned
-- Up to which event the attempts were pruned: each event is looked at once.
SELECT value FROM hooklane.counter WHERE name = 'attempts_pruned' {for_update}

-- name: set_attempts_pruned
-- For the next step.
UPDATE hooklane.counter SET value = :n WHERE name = 'attempts_pruned'

-- name: old_skipped
-- The prev_seq of the event behind it is read off such a row, so it stays as long as that event does.
SELECT s.lane_id, s.seq, s.upto, s.kind, s.tenant, t.endpoint_id, s.at < :before
    AND NOT EXISTS (SELECT 1 FROM hooklane.lane_event e WHERE e.lane_id = s.lane_id AND e.seq <= s.upto) AS is_old,
    l.head > s.upto + 1
    AND NOT EXISTS (SELECT 1 FROM hooklane.lane_event e WHERE e.lane_id = s.lane_id AND e.seq <= s.upto + 1)
    AND NOT EXISTS (SELECT 1 FROM hooklane.skipped f WHERE f.lane_id = s.lane_id AND f.seq = s.upto + 1) AS is_over
FROM hooklane.skipped s JOIN {lane_names} t USING (lane_id) JOIN hooklane.lane l USING (lane_id)
WHERE (s.lane_id, s.seq) > (:lane::bigint, :seq::bigint) ORDER BY s.lane_id, s.seq LIMIT :limit::bigint

-- name: drop_skipped
-- A run of rows that is over, or was joined to its neighbour.
DELETE FROM hooklane.skipped WHERE lane_id = :lane AND seq BETWEEN :first AND :last

-- name: join_skipped
-- Old neighbours become one row, so that a lane that skips everything does not grow.
UPDATE hooklane.skipped SET upto = :upto WHERE lane_id = :lane AND seq = :seq

-- name: old_names
-- A name lives at least as long as its event: else the same id could be published twice.
SELECT i.tenant, i.name, i.created_at, NOT EXISTS (SELECT 1 FROM hooklane.event e WHERE e.n = i.event_n)
FROM hooklane.idempotency i WHERE i.created_at >= :since AND i.created_at < :before
ORDER BY i.created_at LIMIT :limit::bigint

-- name: drop_members
-- The members of an old plan, a few at a time.
DELETE FROM hooklane.member WHERE plan_id = :plan
    AND n IN (SELECT n FROM hooklane.member WHERE plan_id = :plan ORDER BY n LIMIT :limit::bigint) RETURNING 1

-- name: drop_redeliveries
-- The redelivery lanes of a plan whose members are gone.
DELETE FROM hooklane.redelivery WHERE plan_id = :plan

-- name: drop_job
-- The plan itself, last.
DELETE FROM hooklane.job WHERE id = :plan RETURNING 1

-- name: drop_workers
-- Workers that are long gone and own nothing.
DELETE FROM hooklane.worker AS w WHERE lease_until < :before
    AND NOT EXISTS (SELECT 1 FROM hooklane.part p WHERE p.owner = w.id) RETURNING 1


-- === counts and ledger ===

-- name: check_passed
-- What the heads passed without delivering it, by endpoint.
SELECT s.tenant, t.endpoint_id, s.kind, sum(s.upto - s.seq + 1)::bigint
FROM hooklane.skipped s JOIN {lane_names} t USING (lane_id) GROUP BY 1, 2, 3
UNION ALL SELECT tenant, endpoint_id, state, many FROM hooklane.past WHERE kind = 'lane'

-- name: check_letter_without_dead
-- An open letter about which nothing can be done.
SELECT d.tenant, d.endpoint_id, d.id FROM hooklane.dead_letter d
LEFT JOIN hooklane.lane l ON l.lane_id = d.lane_id AND l.state = 'blocked' AND l.head = d.seq
LEFT JOIN hooklane.loose o ON o.n = -d.lane_id AND o.state = 'dead'
WHERE d.state = 'open' AND l.lane_id IS NULL AND o.n IS NULL

-- fragment: of_endpoint
(:endpoint::text IS NULL OR endpoint_id = :endpoint)

-- name: ledger_of_lanes
-- What was accepted, what the heads have passed, and what stands at a head.
SELECT coalesce(sum(tail), 0)::bigint, coalesce(sum(head - 1), 0)::bigint,
    count(*) FILTER (WHERE state = 'retrying' AND head <= tail), count(*) FILTER (WHERE state = 'blocked')
FROM ({every_lane} WHERE (:tenant::text IS NULL OR t.tenant = :tenant) AND {of_endpoint}) r

-- name: ledger_of_passed
-- What the heads passed without delivering it.
SELECT s.kind, sum(s.upto - s.seq + 1)::bigint FROM hooklane.skipped s JOIN {lane_names} t USING (lane_id)
WHERE (:tenant::text IS NULL OR s.tenant = :tenant) AND {of_endpoint} GROUP BY s.kind
UNION ALL SELECT state, many FROM hooklane.past WHERE kind = 'lane' AND (:tenant::text IS NULL OR tenant = :tenant) AND {of_endpoint}

-- name: oldest_pending_at
-- Since when the oldest event waits.
SELECT min(at) FROM (
    SELECT min(e.created_at) AS at FROM ({every_lane} WHERE :tenant::text IS NULL OR t.tenant = :tenant) r
    JOIN hooklane.lane_event le ON le.lane_id = r.lane_id AND le.seq = r.head
    JOIN hooklane.event e ON e.n = le.event_n
    UNION ALL
    SELECT min(e.created_at) FROM hooklane.loose t JOIN hooklane.event e ON e.n = t.event_n
    WHERE t.state IN ('queued', 'retrying') AND (:tenant::text IS NULL OR t.tenant = :tenant)
) o

-- name: check_owed
-- Counted from the events themselves, not from the counters: what was lost would be missing here.
SELECT r.tenant, r.endpoint_id, CASE WHEN e.seq > r.head THEN 'queued' WHEN r.state = 'blocked' THEN 'dead'
    WHEN r.state = 'retrying' THEN 'retrying' ELSE 'queued' END, count(*)
FROM ({every_lane}) r JOIN hooklane.lane_event e ON e.lane_id = r.lane_id AND e.seq BETWEEN r.head AND r.tail
JOIN hooklane.event v ON v.n = e.event_n
WHERE r.head <= r.tail GROUP BY 1, 2, 3

-- name: check_blocked_without_letter
-- A dead head that no person would be shown.
SELECT r.tenant, r.endpoint_id, r.key, r.head FROM ({every_lane} WHERE l.state = 'blocked') r
WHERE r.state = 'blocked' AND NOT EXISTS
    (SELECT 1 FROM hooklane.dead_letter d WHERE d.lane_id = r.lane_id AND d.seq = r.head AND d.state = 'open')
