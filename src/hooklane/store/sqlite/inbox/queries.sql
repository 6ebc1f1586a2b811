-- name: insert_row
-- The dedup: one row comes back when this identity was new, none when it was there. No id is ever given out twice.
INSERT INTO hooklane_inbox_row (id, account, source, event_id, variant, type, key, seq, prev_seq, event_time, delivery_id,
    attempt, id_signed, fingerprint, body, headers, status, reason, received_at, settled_by, settled_as, settled_at)
VALUES (1 + max(coalesce((SELECT max(id) FROM hooklane_inbox_row), 0), (SELECT row_id FROM hooklane_inbox_last)),
    :account, :source, :event_id, :variant, :type, :key, :seq, :prev_seq, :event_time, :delivery_id,
    :attempt, :id_signed, :fingerprint, :body, :headers, :status, :reason, :received_at, :settled_by, :settled_as,
    :settled_at)
ON CONFLICT (source, account, event_id, variant) DO NOTHING
RETURNING id;

-- name: insert_handling
-- What a handler owes to a row that was just inserted.
INSERT INTO hooklane_inbox_handling
    (row_id, handler, account, source, status, due_at, attempts, key, seq, prev_seq, error, traceback, settled_at)
VALUES (:row_id, :handler, :account, :source, :status, :due_at, :attempts, :key, :seq, :prev_seq, :error, :traceback,
    :settled_at);

-- name: known
-- What the row of an identity tells itself (without a handling, unless it was settled at once), and one line per handling.
SELECT id, status, fingerprint, type, settled_by, settled_as, settled_as = 'completed', settled_at, 0, NULL, NULL
FROM hooklane_inbox_row WHERE source = :source AND account = :account AND event_id = :event_id AND variant = :variant
UNION ALL
SELECT r.id, r.status, r.fingerprint, r.type, h.handler, h.status, h.attempts, h.due_at, h.fence, h.key, h.error
FROM hooklane_inbox_row r JOIN hooklane_inbox_handling h ON h.row_id = r.id
WHERE r.source = :source AND r.account = :account AND r.event_id = :event_id AND r.variant = :variant;

-- name: remembered
-- The event id under which these bytes first came.
SELECT event_id FROM hooklane_inbox_digest WHERE source = :source AND account = :account AND digest = :digest;

-- name: turn
-- The entity's state becomes this token and its generation grows; nothing comes back when it is the current one.
INSERT INTO hooklane_inbox_cursor (account, source, handler, key, seq, token)
VALUES (:account, :source, :handler, :key, 1, :token)
ON CONFLICT (source, account, handler, key) DO UPDATE SET token = excluded.token, seq = hooklane_inbox_cursor.seq + 1
WHERE hooklane_inbox_cursor.token IS NOT excluded.token
RETURNING seq;

-- name: count_copies
-- One more copy of a row arrived (or several).
UPDATE hooklane_inbox_row SET copies = copies + :copies WHERE id = :id;

-- name: claim
-- Due handlings get a lease and a higher fence; one statement, so no two workers get the same one.
-- The fence counts claims in its last 20 bits and grows by chance above them: in a restored file a row's id may be given
-- to another event, and a claim on the lost one must not settle that.
UPDATE hooklane_inbox_handling
SET was = status, status = 'in_progress', due_at = :now + :lease_ms,
    fence = fence + 1 + (abs(random() % 1000000) << 20),
    attempts = attempts + 1
WHERE (row_id, handler) IN (
    SELECT row_id, handler FROM hooklane_inbox_handling
    WHERE status IN ('pending', 'failed') AND due_at <= :now
      AND (source, handler) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:handlers))
    ORDER BY due_at, row_id LIMIT :limit)
RETURNING row_id, handler, fence, attempts, key, seq, prev_seq, was;

-- name: claim_expired
-- The same for those whose holder let the lease run out.
UPDATE hooklane_inbox_handling
SET was = status, status = 'in_progress', due_at = :now + :lease_ms,
    fence = fence + 1 + (abs(random() % 1000000) << 20),
    attempts = attempts + 1
WHERE (row_id, handler) IN (
    SELECT row_id, handler FROM hooklane_inbox_handling
    WHERE status = 'in_progress' AND due_at <= :now
      AND (source, handler) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:handlers))
    ORDER BY due_at, row_id LIMIT :limit)
RETURNING row_id, handler, fence, attempts, key, seq, prev_seq, was;

-- name: claim_one
-- This handling, unless it is settled or another's lease on it lives.
UPDATE hooklane_inbox_handling
SET was = status, status = 'in_progress', due_at = :now + :lease_ms,
    fence = fence + 1 + (abs(random() % 1000000) << 20),
    attempts = attempts + 1
WHERE row_id = :row_id AND handler = :handler
  AND (status IN ('pending', 'failed', 'held') OR (status = 'in_progress' AND due_at <= :now))
RETURNING row_id, handler, fence, attempts, key, seq, prev_seq, was;

-- name: messages
-- The messages of claimed handlings.
SELECT id, account, source, event_id, variant, type, key, seq, prev_seq, event_time, delivery_id, attempt, id_signed,
    fingerprint, body, headers, status, reason, copies, received_at
FROM hooklane_inbox_row WHERE id IN (SELECT value FROM json_each(:ids));

-- name: renew
-- A longer lease, for the holder of the fence only.
UPDATE hooklane_inbox_handling SET due_at = :now + :lease_ms
WHERE row_id = :row_id AND handler = :handler AND fence = :fence AND status = 'in_progress'
RETURNING 1;

-- name: complete
-- Settled by the holder of the fence; no row comes back to a worker that lost it.
UPDATE hooklane_inbox_handling SET status = :status, settled_at = :now, error = NULL, traceback = NULL
WHERE row_id = :row_id AND handler = :handler AND fence = :fence AND status = 'in_progress'
RETURNING 1;

-- name: fail
-- A failure recorded by the holder of the fence.
UPDATE hooklane_inbox_handling
SET status = :status, due_at = :due_at, error = :error, traceback = :traceback,
    attempts = coalesce(:attempts, attempts), settled_at = CASE WHEN :status = 'dead' THEN :now END
WHERE row_id = :row_id AND handler = :handler AND fence = :fence AND status = 'in_progress'
RETURNING 1;

-- name: cursor
-- The last applied seq; the write transaction keeps it from moving.
SELECT seq FROM hooklane_inbox_cursor
WHERE source = :source AND account = :account AND handler = :handler AND key = :key;

-- name: arrived
-- Whether the one with this seq is here and owed.
SELECT 1 FROM hooklane_inbox_handling
WHERE source = :source AND account = :account AND handler = :handler AND key = :key AND seq = :seq
  AND status IN ('pending', 'in_progress', 'failed', 'held', 'dead') LIMIT 1;

-- name: coalesce
-- Older hints about the same entity: what was just fetched covers them.
UPDATE hooklane_inbox_handling SET status = 'completed', settled_at = :now, error = NULL, traceback = NULL
WHERE source = :source AND account = :account AND handler = :handler AND key = :key
  AND status IN ('pending', 'failed') AND row_id <= :until
RETURNING 1;

-- name: latest_row
-- The largest id given out.
SELECT max(coalesce((SELECT max(id) FROM hooklane_inbox_row), 0), (SELECT row_id FROM hooklane_inbox_last));

-- name: unfold
-- What the row tells about its first handling becomes a handling of its own, which can change.
INSERT INTO hooklane_inbox_handling (row_id, handler, account, source, status, due_at, attempts, settled_at)
SELECT id, settled_by, account, source, settled_as, settled_at, settled_as = 'completed', settled_at
FROM hooklane_inbox_row WHERE id = :row_id AND settled_by = :handler
RETURNING 1;

-- name: unfolded
-- The row does not tell of its handling any more: that has a row of its own now.
UPDATE hooklane_inbox_row SET settled_by = NULL, settled_as = NULL, settled_at = NULL WHERE id = :row_id;

-- name: reopen
-- Owed again, if its payload is there; the fence grows, so a worker that is still at it cannot complete.
UPDATE hooklane_inbox_handling
SET status = 'pending', due_at = :now, attempts = 0, fence = fence + 1, settled_at = NULL
WHERE row_id = :row_id AND handler = :handler AND NOT (status = 'in_progress' AND due_at > :now)
  AND status = coalesce(:was, status)
  AND EXISTS (SELECT 1 FROM hooklane_inbox_row r WHERE r.id = :row_id AND r.body IS NOT NULL)
RETURNING 1;

-- name: attach
-- A row that is there with its payload is owed to one more handler.
INSERT INTO hooklane_inbox_handling
    (row_id, handler, account, source, status, due_at, attempts, key, seq, prev_seq, error, traceback, settled_at)
SELECT r.id, :handler, r.account, r.source, :status, :due_at, :attempts, :key, :seq, :prev_seq, :error, :traceback,
    :settled_at
FROM hooklane_inbox_row r WHERE r.id = :row_id AND r.settled_by IS NOT :handler AND r.body IS NOT NULL
ON CONFLICT (row_id, handler) DO NOTHING;

-- name: clock
-- What the clock said at the last look, and what it says now.
SELECT at, :now FROM hooklane_inbox_clock;

-- name: keep_last
-- Before rows go: their ids are not given out again.
UPDATE hooklane_inbox_last SET row_id = max(row_id, coalesce((SELECT max(id) FROM hooklane_inbox_row), 0));

-- name: prune
-- Old rows that owe nothing and that no person has to look at: ids grow with time, so those before the first marked row
-- (every 64th, see the index) that is not old. Cursors and digests stay.
DELETE FROM hooklane_inbox_row WHERE id IN (
    SELECT r.id FROM hooklane_inbox_row r
    WHERE r.id < coalesce((SELECT m.id FROM hooklane_inbox_row m WHERE m.id & 63 = 0 AND m.received_at >= :before
                           ORDER BY m.received_at, m.id LIMIT 1), 9223372036854775807)
      AND r.received_at < :before AND (:source IS NULL OR r.source = :source) AND r.status <> 'dead'
      AND NOT EXISTS (SELECT 1 FROM hooklane_inbox_handling h WHERE h.row_id = r.id
                      AND h.status IN ('pending', 'in_progress', 'failed', 'held', 'dead'))
    ORDER BY r.id LIMIT :limit)
RETURNING 1;

-- name: purge
-- Old payloads of rows that owe nothing; the ids go on guarding.
UPDATE hooklane_inbox_row SET body = NULL, headers = '[]' WHERE id IN (
    SELECT r.id FROM hooklane_inbox_row r
    WHERE r.id < coalesce((SELECT m.id FROM hooklane_inbox_row m WHERE m.id & 63 = 0 AND m.received_at >= :before
                           ORDER BY m.received_at, m.id LIMIT 1), 9223372036854775807)
      AND r.received_at < :before AND (:source IS NULL OR r.source = :source) AND r.status <> 'dead'
      AND r.body IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM hooklane_inbox_handling h WHERE h.row_id = r.id
                      AND h.status IN ('pending', 'in_progress', 'failed', 'held', 'dead'))
    ORDER BY r.id LIMIT :limit)
RETURNING 1;

-- fragment: fitting_row
(:ids IS NULL OR r.id IN (SELECT value FROM json_each(:ids)))
AND (:source IS NULL OR r.source = :source) AND (:account IS NULL OR r.account = :account)
AND (:type IS NULL OR r.type = :type) AND (:key IS NULL OR r.key = :key)
AND (:event_id IS NULL OR r.event_id = :event_id)
AND (:received_from IS NULL OR r.received_at >= :received_from)
AND (:received_until IS NULL OR r.received_at < :received_until)
AND (:status IS NULL OR (r.status = :status AND r.status <> 'pending')
     OR (r.settled_as = :status AND (:handler IS NULL OR r.settled_by = :handler))
     OR EXISTS (SELECT 1 FROM hooklane_inbox_handling h WHERE h.row_id = r.id AND h.status = :status
                AND (:handler IS NULL OR h.handler = :handler)))
AND (:handler IS NULL OR r.settled_by = :handler OR EXISTS (
     SELECT 1 FROM hooklane_inbox_handling h WHERE h.row_id = r.id AND h.handler = :handler))

-- name: handlings
-- All handlings of some rows.
SELECT row_id, handler, status, attempts, due_at, fence, key, seq, prev_seq, error, traceback, settled_at
FROM hooklane_inbox_handling WHERE row_id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, settled_by, settled_as, settled_as = 'completed', settled_at, 0, NULL, NULL, NULL, NULL, NULL, settled_at
FROM hooklane_inbox_row WHERE id IN (SELECT value FROM json_each(:ids)) AND settled_by IS NOT NULL
ORDER BY 1, 2;

-- name: counts
-- Handlings by source, handler and status, and rows that have none.
SELECT source, handler, status, sum(rows), min(oldest_at) FROM (
    SELECT h.source, h.handler, h.status, count(*) AS rows, min(r.received_at) AS oldest_at
    FROM hooklane_inbox_handling h JOIN hooklane_inbox_row r ON r.id = h.row_id
    GROUP BY h.source, h.handler, h.status
    UNION ALL
    SELECT source, settled_by, settled_as, count(*), min(received_at) FROM hooklane_inbox_row
    WHERE settled_by IS NOT NULL GROUP BY source, settled_by, settled_as
    UNION ALL
    SELECT source, NULL, status, count(*), min(received_at) FROM hooklane_inbox_row WHERE status <> 'pending'
    GROUP BY source, status)
GROUP BY source, handler, status;
