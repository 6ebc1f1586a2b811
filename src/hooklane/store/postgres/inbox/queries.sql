-- name: insert_rows
-- The dedup, for a whole batch in one statement: what comes back was new and now owes its handlings. What a host
-- receives whose clock is ahead of the database's is due by that: else no other host would take it until its clock is
-- as far.
WITH fresh AS (
    INSERT INTO hooklane.inbox_row (account, source, event_id, variant, type, key, seq, prev_seq, event_time,
        delivery_id, attempt, id_signed, fingerprint, body, headers, status, reason, received_at)
    SELECT * FROM unnest(:accounts::text[], :sources::text[], :event_ids::text[], :variants::text[], :types::text[],
        :keys::text[], :seqs::bigint[], :prev_seqs::bigint[], :event_times::bigint[], :delivery_ids::text[],
        :attempts::bigint[], :id_signeds::integer[], :fingerprints::bytea[], :bodies::bytea[], :headers::text[],
        :statuses::text[], :reasons::text[], :received_ats::bigint[])
    ON CONFLICT (source, account, event_id, variant) DO NOTHING
    RETURNING id, source, account, event_id, variant, received_at
), owed AS (
    INSERT INTO hooklane.inbox_handling (row_id, account, source, handler, status, due_at, attempts, key, seq, prev_seq,
        error, traceback, settled_at)
    SELECT f.id, f.account, f.source, h.handler, h.status, h.due_at - CASE WHEN h.status = 'pending'
            THEN greatest(0, f.received_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint) ELSE 0 END, h.attempts, h.key, h.seq, h.prev_seq, h.error,
        h.traceback, h.settled_at
    FROM unnest(:h_sources::text[], :h_accounts::text[], :h_event_ids::text[], :h_variants::text[], :h_handlers::text[],
        :h_statuses::text[], :h_due_ats::bigint[], :h_attempts::bigint[], :h_keys::text[], :h_seqs::bigint[],
        :h_prev_seqs::bigint[], :h_errors::text[], :h_tracebacks::text[], :h_settled_ats::bigint[])
        AS h (source, account, event_id, variant, handler, status, due_at, attempts, key, seq, prev_seq, error,
              traceback, settled_at)
    JOIN fresh f USING (source, account, event_id, variant)
)
SELECT id, source, account, event_id, variant FROM fresh;

-- name: insert_row
-- As `insert_rows`, for a row with at most one handling, as nearly every request brings it: to pack 32 arrays of one
-- value each took a quarter of the CPU of such a message, and there is nothing to join.
WITH fresh AS (
    INSERT INTO hooklane.inbox_row (account, source, event_id, variant, type, key, seq, prev_seq, event_time,
        delivery_id, attempt, id_signed, fingerprint, body, headers, status, reason, received_at)
    VALUES (:account::text, :source::text, :event_id::text, :variant::text, :type::text, :key::text, :seq::bigint,
        :prev_seq::bigint, :event_time::bigint, :delivery_id::text, :attempt::bigint, :id_signed::integer,
        :fingerprint::bytea, :body::bytea, :headers::text, :status::text, :reason::text, :received_at::bigint)
    ON CONFLICT (source, account, event_id, variant) DO NOTHING
    RETURNING id, account, source
), owed AS (
    INSERT INTO hooklane.inbox_handling (row_id, account, source, handler, status, due_at, attempts, key, seq, prev_seq,
        error, traceback, settled_at)
    SELECT id, account, source, :h_handler::text, :h_status::text,
        :h_due_at::bigint - CASE WHEN :h_status::text = 'pending' THEN greatest(0,
            :received_at::bigint - (extract(epoch FROM clock_timestamp()) * 1000)::bigint) ELSE 0 END,
        :h_attempts::bigint, :h_key::text,
        :h_seq::bigint, :h_prev_seq::bigint, :h_error::text, :h_traceback::text, :h_settled_at::bigint
    FROM fresh WHERE :h_handler::text IS NOT NULL
)
SELECT id FROM fresh;

-- name: known
-- One line per handling (or one without) of an identity. A duplicate is answered from it, so where it finds something
-- the commit must wait for the synchronous standby, if there is one: see commits.py.
SELECT r.id, r.status, r.fingerprint, r.type, h.handler, h.status, h.attempts, h.due_at, h.fence, h.key, h.error
FROM hooklane.inbox_row r LEFT JOIN hooklane.inbox_handling h ON h.row_id = r.id
WHERE r.source = :source AND r.account = :account AND r.event_id = :event_id AND r.variant = :variant
  AND CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
    ELSE pg_logical_emit_message(true, 'hooklane', '') IS NOT NULL END;

-- name: known_all
-- The same for a batch; the first column says which of them.
SELECT w.number, r.id, r.status, r.fingerprint, r.type, h.handler, h.status, h.attempts, h.due_at, h.fence, h.key, h.error
FROM unnest(:sources::text[], :accounts::text[], :event_ids::text[], :variants::text[])
    WITH ORDINALITY AS w (source, account, event_id, variant, number)
JOIN hooklane.inbox_row r USING (source, account, event_id, variant)
LEFT JOIN hooklane.inbox_handling h ON h.row_id = r.id
WHERE CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
    ELSE pg_logical_emit_message(true, 'hooklane', '') IS NOT NULL END;

-- name: try_lock
-- Whether this transaction is now the only one at work on an identity; it never waits.
SELECT pg_try_advisory_xact_lock(hashtextextended(:name::text, 0));

-- name: remembered
-- The event id under which these bytes first came; its commit waits as that of `known`.
SELECT event_id FROM hooklane.inbox_digest WHERE source = :source AND account = :account AND digest = :digest
  AND CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
    ELSE pg_logical_emit_message(true, 'hooklane', '') IS NOT NULL END;

-- name: wait_for_standby
-- The commit of this transaction waits as that of `known`, also if it writes nothing else.
SELECT pg_logical_emit_message(true, 'hooklane', '') IS NULL
WHERE current_setting('synchronous_standby_names') <> '';

-- name: turn
-- The entity's state becomes this token and its generation grows; nothing comes back when it is the current one.
INSERT INTO hooklane.inbox_cursor AS c (account, source, handler, key, seq, token)
VALUES (:account, :source, :handler, :key, 1, :token)
ON CONFLICT (source, account, handler, key) DO UPDATE SET token = excluded.token, seq = c.seq + 1
WHERE c.token IS DISTINCT FROM excluded.token
RETURNING seq;

-- name: count_copies
-- More copies of some rows arrived; locked in one order, so that two of these never wait for each other.
WITH more AS (
    SELECT (e ->> 0)::bigint AS id, (e ->> 1)::bigint AS copies FROM jsonb_array_elements(:copies::text::jsonb) e
), mine AS (
    SELECT r.id FROM hooklane.inbox_row r JOIN more USING (id) ORDER BY r.id FOR UPDATE OF r
)
UPDATE hooklane.inbox_row r SET copies = r.copies + more.copies FROM more JOIN mine USING (id) WHERE r.id = more.id
RETURNING 1;

-- name: claim
-- Due handlings get a lease and a higher fence; one statement, and rows that others take are passed over.
-- :since is where to begin (see front.py); 0 finds all. The handlers are compared as one text: as a join it might be done
-- first, and all that is due be sorted for the few that are claimed.
-- The lease is by the database's own clock; whether a retry is due, by whichever clock is further.
-- The fence counts claims in its last 20 bits and grows by chance above them: after a failover that lost commits a row's
-- id may be given to another event, and a claim on the lost one must not settle that.
UPDATE hooklane.inbox_handling h
SET was = h.status, status = 'in_progress', attempts = h.attempts + 1,
    fence = h.fence + 1 + (floor(random() * 1e6)::bigint << 20),
    due_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + :lease_ms::bigint
FROM (
    SELECT row_id, handler, due_at FROM hooklane.inbox_handling
    WHERE status IN ('pending', 'failed')
      AND due_at <= greatest(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
      AND due_at >= :since::bigint
      AND source || chr(31) || handler = ANY(ARRAY(
        SELECT (e ->> 0) || chr(31) || (e ->> 1) FROM jsonb_array_elements(:handlers::text::jsonb) e))
    ORDER BY due_at, row_id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
) due
WHERE h.row_id = due.row_id AND h.handler = due.handler
RETURNING h.row_id, h.handler, h.fence, h.attempts, h.key, h.seq, h.prev_seq, h.was, due.due_at;

-- name: claim_expired
-- The same for those whose holder let the lease run out.
UPDATE hooklane.inbox_handling h
SET was = h.status, status = 'in_progress', attempts = h.attempts + 1,
    fence = h.fence + 1 + (floor(random() * 1e6)::bigint << 20),
    due_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + :lease_ms::bigint
FROM (
    SELECT row_id, handler, due_at FROM hooklane.inbox_handling
    WHERE status = 'in_progress' AND :now::bigint IS NOT NULL
      AND due_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
      AND due_at >= :since::bigint
      AND source || chr(31) || handler = ANY(ARRAY(
        SELECT (e ->> 0) || chr(31) || (e ->> 1) FROM jsonb_array_elements(:handlers::text::jsonb) e))
    ORDER BY due_at, row_id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
) due
WHERE h.row_id = due.row_id AND h.handler = due.handler
RETURNING h.row_id, h.handler, h.fence, h.attempts, h.key, h.seq, h.prev_seq, h.was, due.due_at;

-- name: claim_one
-- This handling, unless it is settled, another's lease on it lives, or another is taking it right now.
UPDATE hooklane.inbox_handling h
SET was = h.status, status = 'in_progress', attempts = h.attempts + 1,
    fence = h.fence + 1 + (floor(random() * 1e6)::bigint << 20),
    due_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + :lease_ms::bigint
FROM (
    SELECT row_id, handler FROM hooklane.inbox_handling
    WHERE row_id = :row_id AND handler = :handler AND :now::bigint IS NOT NULL
      AND (status IN ('pending', 'failed', 'held')
           OR (status = 'in_progress' AND due_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
    FOR UPDATE SKIP LOCKED
) due
WHERE h.row_id = due.row_id AND h.handler = due.handler
RETURNING h.row_id, h.handler, h.fence, h.attempts, h.key, h.seq, h.prev_seq, h.was;

-- name: messages
-- The messages of claimed handlings.
SELECT id, account, source, event_id, variant, type, key, seq, prev_seq, event_time, delivery_id, attempt, id_signed,
    fingerprint, body, headers, status, reason, copies, received_at
FROM hooklane.inbox_row WHERE id IN (SELECT value::bigint FROM jsonb_array_elements_text(:ids::text::jsonb));

-- name: renew
-- A longer lease, for the holder of the fence only. (status || '' here and below: or the planner thinks little of the
-- index of those in progress and goes through all of it, and through all that a held transaction keeps there.)
UPDATE hooklane.inbox_handling
SET due_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + :lease_ms::bigint
WHERE row_id = :row_id AND handler = :handler AND fence = :fence AND status || '' = 'in_progress'
  AND :now::bigint IS NOT NULL
RETURNING 1;

-- name: complete
-- Settled by the holder of the fence; no row comes back to a worker that lost it.
UPDATE hooklane.inbox_handling SET status = :status, settled_at = :now, error = NULL, traceback = NULL
WHERE row_id = :row_id AND handler = :handler AND fence = :fence AND status || '' = 'in_progress'
RETURNING 1;

-- name: fail
-- A failure recorded by the holder of the fence. Where the clock of the process is more than a minute behind the
-- database's, by which it may be judged, the wait is counted by that: else all attempts would be made at once. And that
-- clock is noted, or the retry would wait for it to catch up, were it set back before the next look.
WITH ahead AS (
    SELECT ctid FROM hooklane.inbox_clock
    WHERE at < (extract(epoch FROM clock_timestamp()) * 1000)::bigint
      AND (extract(epoch FROM clock_timestamp()) * 1000)::bigint - :now::bigint > 60000
    FOR UPDATE SKIP LOCKED
), noted AS (
    UPDATE hooklane.inbox_clock SET at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE ctid IN (SELECT ctid FROM ahead)
)
UPDATE hooklane.inbox_handling
SET status = :status::text, due_at = CASE
        WHEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint - :now::bigint <= 60000 THEN :due_at::bigint
        ELSE (extract(epoch FROM clock_timestamp()) * 1000)::bigint + :due_at::bigint - :now::bigint END,
    error = :error, traceback = :traceback,
    attempts = coalesce(:attempts::bigint, attempts),
    settled_at = CASE WHEN :status::text = 'dead' THEN :now::bigint END
WHERE row_id = :row_id AND handler = :handler AND fence = :fence AND status || '' = 'in_progress'
RETURNING 1;

-- name: cursor
-- The last applied seq, kept from moving until this transaction ends; other readers are not kept out.
SELECT seq FROM hooklane.inbox_cursor
WHERE source = :source AND account = :account AND handler = :handler AND key = :key FOR SHARE;

-- name: begin_cursors
-- As `begin_cursor`, for many, in the order in which they are given.
INSERT INTO hooklane.inbox_cursor (source, account, handler, key, seq)
SELECT * FROM unnest(:sources::text[], :accounts::text[], :handlers::text[], :keys::text[], :baselines::bigint[])
ON CONFLICT (source, account, handler, key) DO NOTHING;

-- name: cursors
-- As `cursor`, for many.
SELECT c.source, c.account, c.handler, c.key, c.seq
FROM hooklane.inbox_cursor c
JOIN unnest(:sources::text[], :accounts::text[], :handlers::text[], :keys::text[]) AS w (source, account, handler, key)
    USING (source, account, handler, key)
ORDER BY c.source, c.account, c.handler, c.key FOR SHARE OF c;

-- name: arrived
-- Which of these are here and owed.
SELECT w.number
FROM unnest(:sources::text[], :accounts::text[], :handlers::text[], :keys::text[], :seqs::bigint[])
    WITH ORDINALITY AS w (source, account, handler, key, seq, number)
WHERE EXISTS (
    SELECT 1 FROM hooklane.inbox_handling h
    WHERE h.source = w.source AND h.account = w.account AND h.handler = w.handler AND h.key = w.key AND h.seq = w.seq
      AND h.key IS NOT NULL AND h.status IN ('pending', 'in_progress', 'failed', 'held', 'dead'));

-- name: coalesce
-- Older hints about the same entity: what was just fetched covers them. One that is being taken is passed over.
UPDATE hooklane.inbox_handling h SET status = 'completed', settled_at = :now, error = NULL, traceback = NULL
FROM (
    SELECT row_id, handler FROM hooklane.inbox_handling
    WHERE source = :source AND account = :account AND handler = :handler AND key = :key
      AND status IN ('pending', 'failed') AND row_id <= :until
    FOR UPDATE SKIP LOCKED
) covered
WHERE h.row_id = covered.row_id AND h.handler = covered.handler
RETURNING 1;

-- name: latest_row
-- The largest id given out.
SELECT last_value FROM hooklane.inbox_row_id_seq;

-- name: reopen
-- Owed again, if its payload is there; the fence grows, so a worker that is still at it cannot complete. The row is held
-- meanwhile, so that it is neither pruned nor purged by who saw it settled.
WITH whole AS (
    SELECT id FROM hooklane.inbox_row WHERE id = :row_id AND body IS NOT NULL FOR KEY SHARE
)
UPDATE hooklane.inbox_handling
SET status = 'pending', due_at = :now::bigint, attempts = 0, fence = fence + 1, settled_at = NULL
WHERE row_id IN (SELECT id FROM whole) AND handler = :handler
  AND NOT (status = 'in_progress' AND due_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  AND status = coalesce(:was::text, status)
RETURNING 1;

-- name: attach
-- A row that is there with its payload is owed to one more handler; held as above.
INSERT INTO hooklane.inbox_handling
    (row_id, handler, account, source, status, due_at, attempts, key, seq, prev_seq, error, traceback, settled_at)
SELECT r.id, :handler::text, r.account, r.source, :status::text, :due_at::bigint, :attempts::bigint, :key::text,
    :seq::bigint, :prev_seq::bigint, :error::text, :traceback::text, :settled_at::bigint
FROM hooklane.inbox_row r WHERE r.id = :row_id AND r.body IS NOT NULL FOR KEY SHARE
ON CONFLICT (row_id, handler) DO NOTHING;

-- name: clock
-- What the database's clock said at the last look, and what it says now; nothing while another process is looking.
SELECT at, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM hooklane.inbox_clock
WHERE :now::bigint IS NOT NULL FOR UPDATE SKIP LOCKED;

-- name: prune
-- Old rows that owe nothing and that no person has to look at. Cursors and digests stay.
DELETE FROM hooklane.inbox_row WHERE id IN (
    SELECT r.id FROM hooklane.inbox_row r
    WHERE r.received_at < :before AND (:source::text IS NULL OR r.source = :source::text) AND r.status <> 'dead'
      AND NOT EXISTS (SELECT 1 FROM hooklane.inbox_handling h WHERE h.row_id = r.id
                      AND h.status IN ('pending', 'in_progress', 'failed', 'held', 'dead'))
    ORDER BY r.received_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED)
RETURNING 1;

-- name: purge
-- Old payloads of rows that owe nothing; the ids go on guarding.
UPDATE hooklane.inbox_row SET body = NULL, headers = '[]' WHERE id IN (
    SELECT r.id FROM hooklane.inbox_row r
    WHERE r.received_at < :before AND (:source::text IS NULL OR r.source = :source::text) AND r.status <> 'dead'
      AND r.body IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM hooklane.inbox_handling h WHERE h.row_id = r.id
                      AND h.status IN ('pending', 'in_progress', 'failed', 'held', 'dead'))
    ORDER BY r.received_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED)
RETURNING 1;

-- fragment: fitting_row
(:ids::text::jsonb IS NULL OR r.id IN (SELECT value::bigint FROM jsonb_array_elements_text(:ids::text::jsonb)))
AND (:source::text IS NULL OR r.source = :source::text) AND (:account::text IS NULL OR r.account = :account::text)
AND (:type::text IS NULL OR r.type = :type::text) AND (:key::text IS NULL OR r.key = :key::text)
AND (:event_id::text IS NULL OR r.event_id = :event_id::text)
AND (:received_from::bigint IS NULL OR r.received_at >= :received_from::bigint)
AND (:received_until::bigint IS NULL OR r.received_at < :received_until::bigint)
AND (:status::text IS NULL OR (r.status = :status::text AND r.status <> 'pending')
     OR EXISTS (SELECT 1 FROM hooklane.inbox_handling h WHERE h.row_id = r.id AND h.status = :status::text
                AND (:handler::text IS NULL OR h.handler = :handler::text)))
AND (:handler::text IS NULL OR EXISTS (
     SELECT 1 FROM hooklane.inbox_handling h WHERE h.row_id = r.id AND h.handler = :handler::text))

-- name: handlings
-- All handlings of some rows.
SELECT row_id, handler, status, attempts, due_at, fence, key, seq, prev_seq, error, traceback, settled_at
FROM hooklane.inbox_handling
WHERE row_id IN (SELECT value::bigint FROM jsonb_array_elements_text(:ids::text::jsonb)) ORDER BY row_id, handler;

-- name: counts
-- Handlings by source, handler and status, and rows that have none.
SELECT h.source, h.handler, h.status, count(*), min(r.received_at)
FROM hooklane.inbox_handling h JOIN hooklane.inbox_row r ON r.id = h.row_id
GROUP BY h.source, h.handler, h.status
UNION ALL
SELECT source, NULL, status, count(*), min(received_at) FROM hooklane.inbox_row WHERE status <> 'pending'
GROUP BY source, status;

-- name: let_go
-- The locks that a handler took for its session, and not for its transaction, are nobody's any more.
SELECT pg_advisory_unlock_all();
