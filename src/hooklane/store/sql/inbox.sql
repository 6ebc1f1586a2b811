-- The statements of the inbox that both back-ends run, as PostgreSQL spells them; `store/sqlite/spelling.py` says how
-- SQLite does. What differs is in the `queries.sql` of each.

-- name: remember
-- A tombstone, if these bytes are new.
INSERT INTO hooklane.inbox_digest (account, source, digest, event_id, seen_at)
VALUES (:account, :source, :digest, :event_id, :now)
ON CONFLICT (source, account, digest) DO NOTHING
RETURNING event_id;

-- name: begin_cursor
-- The first sight of a track sets where it starts.
INSERT INTO hooklane.inbox_cursor (account, source, handler, key, seq)
VALUES (:account, :source, :handler, :key, :baseline)
ON CONFLICT (source, account, handler, key) DO NOTHING;

-- name: applied
-- The last applied seq as it is now.
SELECT seq FROM hooklane.inbox_cursor
WHERE source = :source AND account = :account AND handler = :handler AND key = :key;

-- name: advance
-- The cursor moves forward only, and never past what was not applied.
UPDATE hooklane.inbox_cursor SET seq = :seq
WHERE source = :source AND account = :account AND handler = :handler AND key = :key AND seq >= :prev_seq AND seq < :seq
RETURNING seq;

-- name: release
-- Whose predecessor is applied may be claimed.
UPDATE hooklane.inbox_handling SET status = 'pending', due_at = :now
WHERE source = :source AND account = :account AND handler = :handler AND key = :key
  AND status = 'held' AND prev_seq <= :seq
RETURNING 1;

-- name: newer
-- Last writer wins by (at, tie); nothing comes back when something newer, or this very one, is there.
INSERT INTO hooklane.inbox_cursor AS c (account, source, handler, key, at, tie)
VALUES (:account, :source, :handler, :key, :at, :tie)
ON CONFLICT (source, account, handler, key) DO UPDATE SET at = excluded.at, tie = excluded.tie
WHERE c.at IS NULL OR (c.at, c.tie) < (excluded.at, excluded.tie)
RETURNING 1;

-- name: mark
-- The newest that was applied.
SELECT at, tie FROM hooklane.inbox_cursor
WHERE source = :source AND account = :account AND handler = :handler AND key = :key;

-- name: touch
-- The track's row exists and is held by this transaction.
INSERT INTO hooklane.inbox_cursor AS c (account, source, handler, key) VALUES (:account, :source, :handler, :key)
ON CONFLICT (source, account, handler, key) DO UPDATE SET seq = c.seq;

-- name: gaps
-- The first held handling of each track whose turn does not come because a predecessor never arrived.
-- What is owed at or before the cursor (a dead letter that was passed over) is no event's predecessor.
SELECT h.source, h.account, h.handler, h.key, c.seq, min(h.prev_seq), min(h.due_at)
FROM hooklane.inbox_handling h
JOIN hooklane.inbox_cursor c USING (source, account, handler, key)
WHERE h.status = 'held' AND h.due_at <= :before
  AND NOT EXISTS (
    SELECT 1 FROM hooklane.inbox_handling o
    WHERE o.source = h.source AND o.account = h.account AND o.handler = h.handler AND o.key = h.key
      AND o.key IS NOT NULL AND o.seq > c.seq AND o.status IN ('pending', 'in_progress', 'failed', 'dead'))
GROUP BY h.source, h.account, h.handler, h.key, c.seq
ORDER BY min(h.due_at) LIMIT :limit::bigint;

-- name: let_handlings_speak
-- A row that a handler was given has no status of its own any more: it was dead, ignored or a conflict before.
UPDATE hooklane.inbox_row SET status = 'pending' WHERE id = :row_id AND status <> 'pending'
  AND EXISTS (SELECT 1 FROM hooklane.inbox_handling h WHERE h.row_id = :row_id);

-- name: restate
-- What is said of the row itself, unless it is not what it :was when that was decided.
UPDATE hooklane.inbox_row SET status = :status, reason = :reason WHERE id = :row_id AND status = :was
RETURNING 1;

-- name: settle
-- Given up by hand, unless it is not what it :was when that was decided.
UPDATE hooklane.inbox_handling
SET status = :status, error = :note, settled_at = :now, fence = fence + 1
WHERE row_id = :row_id AND handler = :handler AND status IN ('dead', 'held', 'failed', 'pending')
  AND status = coalesce(:was::text, status)
RETURNING 1;

-- name: heartbeat
-- When the receiver was last seen at work, and how long it was down.
SELECT seen_at, down_ms, down_until FROM hooklane.inbox_heartbeat;

-- name: beat
-- Pruning counts from here, not from the clock: after a long downtime nothing goes at once.
INSERT INTO hooklane.inbox_heartbeat (one, seen_at, down_ms, down_until) VALUES (1, :seen_at, :down_ms, :down_until)
ON CONFLICT (one) DO UPDATE
SET seen_at = excluded.seen_at, down_ms = excluded.down_ms, down_until = excluded.down_until;

-- name: note_clock
-- What the clock says now, for the next look.
UPDATE hooklane.inbox_clock SET at = :now;

-- name: move_leases
-- Leases that were given before the clock was set back end as much earlier.
UPDATE hooklane.inbox_handling SET due_at = due_at - :by::bigint WHERE status = 'in_progress' AND due_at > :now::bigint;

-- name: move_waits
-- The same for what waits for its time.
UPDATE hooklane.inbox_handling SET due_at = due_at - :by::bigint
WHERE status IN ('pending', 'failed', 'held') AND due_at > :now::bigint;

-- name: forget
-- Tombstones that have guarded long enough.
DELETE FROM hooklane.inbox_digest WHERE (source, account, digest) IN (
    SELECT source, account, digest FROM hooklane.inbox_digest
    WHERE seen_at < :before AND (:source::text IS NULL OR source = :source::text)
    ORDER BY seen_at LIMIT :limit::bigint)
RETURNING 1;

-- name: search
-- Ids of matching rows, oldest first.
SELECT r.id FROM hooklane.inbox_row r WHERE {fitting_row} AND (:after::bigint IS NULL OR r.id > :after::bigint)
ORDER BY r.id LIMIT :limit::bigint;

-- name: search_newest
-- The same, newest first.
SELECT r.id FROM hooklane.inbox_row r WHERE {fitting_row} AND (:after::bigint IS NULL OR r.id < :after::bigint)
ORDER BY r.id DESC LIMIT :limit::bigint;
