-- What an owner writes on SQLite: the outcomes of attempts in one commit, fenced by the epoch of each partition.

-- name: fenced
-- Asked about the partitions of this commit only, and answered with those that are lost: almost always none.
SELECT {now}, (SELECT json_group_array(CAST(asked.key AS INTEGER)) FROM json_each(?) asked WHERE NOT EXISTS (
    SELECT 1 FROM hooklane_part WHERE pid = CAST(asked.key AS INTEGER) AND owner = ? AND epoch = asked.value))

-- name: fenced_one
-- The same about the one partition of a commit, as when a busy key's ack comes alone: 1 where it is ours.
SELECT {now}, EXISTS (SELECT 1 FROM hooklane_part WHERE pid = ? AND owner = ? AND epoch = ?)

-- name: ack_lanes
-- A head moves forward and never back: a repeat changes nothing.
INSERT INTO hooklane_lane (lane_id, tenant, head, acked, since) VALUES (:lane_id, :tenant, :head, :acked, :since)
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, acked = excluded.acked, state = 'active', attempts = 0,
    next_at = 0, reason = NULL, since = excluded.since, starts = 0
WHERE hooklane_lane.head < excluded.head

-- name: move_heads
-- The same where nothing but the head moves, as nearly always: state and attempts are as an ack leaves them already.
UPDATE hooklane_lane SET head = :head, acked = :acked, since = :since
WHERE lane_id = :lane_id AND head < :head
    AND state = 'active' AND attempts = 0 AND next_at = 0 AND reason IS NULL AND starts = 0

-- name: hold_head
-- A repeat of the same write finds its own traces and changes nothing; a recovery in between has bumped rev.
INSERT INTO hooklane_lane (lane_id, tenant, head, state, attempts, next_at, reason, since)
SELECT :lane_id, :tenant, :seq, :state, :attempt, :next_at, :reason, :at WHERE :rev = 0
    OR EXISTS (SELECT 1 FROM hooklane_lane WHERE lane_id = :lane_id)
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, state = excluded.state, attempts = excluded.attempts,
    next_at = excluded.next_at, reason = excluded.reason, since = excluded.since, starts = 0
WHERE hooklane_lane.rev = :rev AND hooklane_lane.head <= :seq
    AND (hooklane_lane.head < :seq OR hooklane_lane.attempts <= :attempt)
    AND (hooklane_lane.state <> 'blocked' OR hooklane_lane.attempts = :attempt)
RETURNING 1

-- name: pass_head
-- The head passes over what is given up, from where it stands: what was decided of an older head passes nothing.
INSERT INTO hooklane_lane (lane_id, tenant, head, since) SELECT :lane_id, :tenant, :upto + 1, :at WHERE :rev = 0
    OR EXISTS (SELECT 1 FROM hooklane_lane WHERE lane_id = :lane_id)
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, state = 'active', attempts = 0, next_at = 0, reason = NULL,
    since = excluded.since, starts = 0
WHERE hooklane_lane.rev = :rev AND hooklane_lane.head <= :seq
RETURNING 1

-- name: note_passed
-- What was passed over is on record; a repeat finds it there.
INSERT INTO hooklane_skipped (lane_id, seq, upto, tenant, kind, note, actor, at)
VALUES (:lane_id, :seq, :upto, :tenant, :kind, :note, :actor, :at) ON CONFLICT DO NOTHING

-- name: add_letter
-- A letter for the person who decides; an event that dies again opens its letter again.
INSERT INTO hooklane_dead_letter
    (id, tenant, endpoint_id, lane_id, seq, event_n, attempts, reason, died_at, state)
SELECT :id, :tenant, :endpoint, :lane_id, :seq, n, :attempt, :reason, :at, :letter_state
FROM hooklane_event WHERE tenant = :tenant AND id = :event_id
ON CONFLICT (id) DO UPDATE SET attempts = excluded.attempts, reason = excluded.reason, died_at = excluded.died_at,
    state = excluded.state

-- name: settle_loose
-- Any outcome of a delivery without order; a repeat finds itself.
UPDATE hooklane_loose SET state = :state, attempts = :attempt, next_at = :next_at, reason = :reason, since = :at,
    starts = 0
WHERE n = -:lane_id AND rev = :rev
    AND (state IN ('queued', 'retrying') OR (state = :state AND attempts = :attempt)) RETURNING 1

-- name: start_head
-- An attempt is announced. State, reason and time stay: an announcement is no outcome. A repeat finds itself.
INSERT INTO hooklane_lane (lane_id, tenant, head, attempts, since, starts)
SELECT lane_id, tenant, :seq, :attempt, :at, :starts FROM hooklane_lane_tail WHERE lane_id = :lane_id AND (:rev = 0
    OR EXISTS (SELECT 1 FROM hooklane_lane WHERE lane_id = :lane_id))
ON CONFLICT (lane_id) DO UPDATE SET attempts = excluded.attempts, starts = excluded.starts
WHERE hooklane_lane.rev = :rev AND hooklane_lane.head = :seq AND hooklane_lane.state <> 'blocked'
    AND :attempt - hooklane_lane.attempts IN (0, 1)
    AND (hooklane_lane.starts < :starts OR (hooklane_lane.starts = :starts AND hooklane_lane.attempts = :attempt))
RETURNING 1

-- name: start_loose
-- The same for a delivery without order.
UPDATE hooklane_loose SET attempts = :attempt, starts = :starts
WHERE n = -:lane_id AND rev = :rev AND state IN ('queued', 'retrying') AND :attempt - attempts IN (0, 1)
    AND (starts < :starts OR (starts = :starts AND attempts = :attempt)) RETURNING 1

-- name: cancel_loose
-- Its endpoint was deleted: what is owed or dead is cancelled; what was delivered or skipped stays so.
UPDATE hooklane_loose SET state = 'cancelled' WHERE n = -:lane_id AND state NOT IN ('delivered', 'skipped') RETURNING 1

-- name: lane_to_cancel
-- How far a lane goes that is cancelled.
SELECT tail, tenant FROM hooklane_lane_end WHERE lane_id = :lane_id

-- name: log_attempts
-- Each attempt once.
INSERT INTO hooklane_attempt
    (event_at, lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, failure, said, detail)
VALUES (:event_at, :lane_id, :seq, :started_at, :attempt, :tenant, :took_ms, :outcome, :status, :failure, :said, :detail)
ON CONFLICT DO NOTHING

-- name: log_plain_attempts
-- The same where there is nothing to say but that it was delivered, as nearly always.
INSERT INTO hooklane_attempt (event_at, lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status)
VALUES (:event_at, :lane_id, :seq, :started_at, :attempt, :tenant, :took_ms, :outcome, :status) ON CONFLICT DO NOTHING

-- name: attempt_is_logged
-- Whether this very write was made before: a person may have resumed the endpoint since.
SELECT 1 FROM hooklane_attempt
WHERE event_at = :event_at AND lane_id = :lane_id AND seq = :seq AND started_at = :started_at AND attempt = :attempt
