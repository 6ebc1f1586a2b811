-- What an owner writes on PostgreSQL: acks as one statement, other outcomes in a transaction; all of it fenced.

-- FOR SHARE waits for a takeover that is under way and then does not find the row; FOR KEY SHARE would not wait, since a
-- takeover changes no key. The rows stay locked until this transaction ends, so no takeover comes between. (It is not
-- written as a join: a plan for any number of partitions compared each with each, and that took longer than the rest.)
-- fragment: fence
WITH mine AS MATERIALIZED (
    SELECT p.pid FROM hooklane.part p
    WHERE p.owner = :worker AND p.pid = ANY(:pids::integer[])
      AND p.epoch = (:epochs::bigint[])[array_position(:pids::integer[], p.pid)]
    ORDER BY p.pid FOR SHARE OF p
), done AS MATERIALIZED (
    SELECT d.* FROM unnest(:ack_pids::text::integer[], :ack_lanes::text::bigint[], :ack_heads::text::bigint[],
        :ack_tenants::text::text[], :ack_ats::text::bigint[], :log_starts::text::bigint[],
        :log_attempts::text::integer[], :log_tooks::text::double precision[], :log_statuses::text::integer[],
        :log_saids::text::text[])
        AS d (pid, lane_id, head, tenant, at, started_at, attempt, took_ms, status, said)
    JOIN mine USING (pid)
), acked AS (
    INSERT INTO hooklane.ack (pid, lane_id, head, tenant, at) SELECT pid, lane_id, head, tenant, at FROM done
), logged AS (
    INSERT INTO hooklane.attempt (lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, said)
    SELECT lane_id, head - 1, started_at, attempt, tenant, took_ms, 'delivered', status, said FROM done

-- fragment: end_of_acks
)
SELECT hooklane.now_ms(), ARRAY(SELECT pid FROM mine), set_config('synchronous_commit', 'on', true)

-- name: ack
-- An ack of an ordered lane is an insert and nothing else: only the owner moves a head that is not dead. An attempt that
-- is in the log already violates its key: to ask of each whether it is there costs as much as to write it.
{fence} {end_of_acks}

-- name: ack_one
-- The same for an ack that comes alone, as those of one busy key do: nothing to take apart and to join, which were half of
-- what such an ack cost more than any row.
WITH mine AS MATERIALIZED (
    SELECT p.pid FROM hooklane.part p
    WHERE p.owner = :worker AND p.pid = :pid::integer AND p.epoch = :epoch::bigint FOR SHARE OF p
), acked AS (
    INSERT INTO hooklane.ack (pid, lane_id, head, tenant, at)
    SELECT pid, :lane::bigint, :head::bigint, :tenant::text, :at::bigint FROM mine
), logged AS (
    INSERT INTO hooklane.attempt (lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, said)
    SELECT :lane::bigint, :head::bigint - 1, :started::bigint, :attempt::integer, :tenant::text,
        :took::double precision, 'delivered', :status::integer, :said::text FROM mine
{end_of_acks}

-- name: ack_again
-- The first for a commit that is made again: what is in the log already is passed over.
{fence} ON CONFLICT DO NOTHING {end_of_acks}

-- fragment: held_until
-- As `next_at_of`: the worker may not have heard yet that this clock was set back.
CASE WHEN w.next_at > 0 AND w.since > hooklane.now_ms() + {jump_ms} THEN w.next_at - w.since + hooklane.now_ms()
    ELSE w.next_at END

-- name: hold_heads
-- It sets the head itself and never lowers it, neither the row's nor that of an ack that was not folded yet. Where the
-- row is at this head already, it must show the attempt before this one, or this one: then the same commit is repeated.
-- A recovery has bumped rev, so an owner's late or repeated write cannot undo what a person did.
INSERT INTO hooklane.lane AS l (lane_id, tenant, head, acked, state, attempts, next_at, rev, reason, since)
SELECT w.lane_id, t.tenant, w.head, 0, w.state, w.attempts, {held_until}, w.rev, w.reason,
    coalesce(nullif(w.since, 0), hooklane.now_ms())
FROM unnest(:lanes::bigint[], :heads::bigint[], :states::text[], :attempts::integer[], :nexts::bigint[],
    :revs::bigint[], :reasons::text[], :sinces::bigint[])
    AS w (lane_id, head, state, attempts, next_at, rev, reason, since)
JOIN hooklane.lane_tail t USING (lane_id)
WHERE (w.rev = 0 OR EXISTS (SELECT 1 FROM hooklane.lane x WHERE x.lane_id = w.lane_id))
  AND NOT EXISTS (SELECT 1 FROM hooklane.ack k WHERE k.lane_id = w.lane_id AND k.head > w.head)
ORDER BY w.lane_id
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, state = excluded.state, attempts = excluded.attempts,
    next_at = excluded.next_at, reason = excluded.reason, since = excluded.since, starts = 0
WHERE l.rev = excluded.rev
  AND (l.head < excluded.head OR (l.head = excluded.head AND excluded.attempts - l.attempts IN (0, 1)))
  AND (l.state <> 'blocked' OR (excluded.state = 'blocked' AND l.attempts = excluded.attempts))
RETURNING lane_id

-- name: start_heads
-- An announcement is no outcome: state, reason and time of its head stay, those of an older head do not.
INSERT INTO hooklane.lane AS l (lane_id, tenant, head, attempts, rev, since, starts)
SELECT w.lane_id, t.tenant, w.head, w.attempts, w.rev, hooklane.now_ms(), w.starts
FROM unnest(:lanes::bigint[], :heads::bigint[], :attempts::integer[], :revs::bigint[], :starts::integer[])
    AS w (lane_id, head, attempts, rev, starts)
JOIN hooklane.lane_tail t USING (lane_id)
WHERE (w.rev = 0 OR EXISTS (SELECT 1 FROM hooklane.lane x WHERE x.lane_id = w.lane_id))
  AND NOT EXISTS (SELECT 1 FROM hooklane.ack k WHERE k.lane_id = w.lane_id AND k.head > w.head)
ORDER BY w.lane_id
ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, attempts = excluded.attempts, starts = excluded.starts,
    state = CASE WHEN l.head < excluded.head THEN 'active' ELSE l.state END,
    next_at = CASE WHEN l.head < excluded.head THEN 0 ELSE l.next_at END,
    reason = CASE WHEN l.head < excluded.head THEN NULL ELSE l.reason END,
    since = CASE WHEN l.head < excluded.head THEN excluded.since ELSE l.since END
WHERE l.rev = excluded.rev AND l.state <> 'blocked'
  AND (l.head < excluded.head OR (l.head = excluded.head AND excluded.attempts - l.attempts IN (0, 1)
    AND (l.starts < excluded.starts OR (l.starts = excluded.starts AND l.attempts = excluded.attempts))))
RETURNING lane_id

-- name: pass_heads
-- The head passes what is given up, by policy or because the endpoint is deleted. A repeat finds it passed; what was
-- decided of an older head passes nothing.
WITH passed AS (
    INSERT INTO hooklane.lane AS l (lane_id, tenant, head, rev, since)
    SELECT w.lane_id, t.tenant, w.upto + 1, w.rev, coalesce(nullif(w.at, 0), hooklane.now_ms())
    FROM unnest(:lanes::bigint[], :seqs::bigint[], :uptos::bigint[], :revs::bigint[], :ats::bigint[])
        AS w (lane_id, seq, upto, rev, at)
    JOIN hooklane.lane_tail t USING (lane_id)
    WHERE (w.rev = 0 OR EXISTS (SELECT 1 FROM hooklane.lane x WHERE x.lane_id = w.lane_id))
      AND NOT EXISTS (SELECT 1 FROM hooklane.lane x
                      WHERE x.lane_id = w.lane_id AND x.head > w.seq AND x.head <> w.upto + 1)
      AND NOT EXISTS (SELECT 1 FROM hooklane.ack k WHERE k.lane_id = w.lane_id AND k.head > w.seq)
    ORDER BY w.lane_id
    ON CONFLICT (lane_id) DO UPDATE SET head = excluded.head, since = excluded.since,
        state = CASE WHEN l.head < excluded.head THEN 'active' ELSE l.state END,
        attempts = CASE WHEN l.head < excluded.head THEN 0 ELSE l.attempts END,
        next_at = CASE WHEN l.head < excluded.head THEN 0 ELSE l.next_at END,
        reason = CASE WHEN l.head < excluded.head THEN NULL ELSE l.reason END,
        starts = CASE WHEN l.head < excluded.head THEN 0 ELSE l.starts END
    WHERE l.rev = excluded.rev AND l.head <= excluded.head
    RETURNING lane_id, tenant
)
INSERT INTO hooklane.skipped (lane_id, seq, upto, tenant, kind, note, actor, at)
SELECT w.lane_id, w.seq, w.upto, p.tenant, w.kind, w.note, w.actor, coalesce(nullif(w.at, 0), hooklane.now_ms())
FROM unnest(:lanes::bigint[], :seqs::bigint[], :uptos::bigint[], :kinds::text[], :notes::text[], :actors::text[],
    :ats::bigint[]) AS w (lane_id, seq, upto, kind, note, actor, at)
JOIN passed p USING (lane_id)
ON CONFLICT (lane_id, seq) DO UPDATE SET upto = excluded.upto RETURNING lane_id

-- name: add_letters
-- A letter for the person who decides; an event that dies again opens its letter again.
INSERT INTO hooklane.dead_letter
    (id, tenant, endpoint_id, lane_id, seq, event_n, attempts, reason, died_at, state)
SELECT w.id, w.tenant, w.endpoint_id, w.lane_id, w.seq, e.n, w.attempts, w.reason, w.at, w.state
FROM unnest(:ids::text[], :tenants::text[], :endpoints::text[], :lanes::bigint[], :seqs::bigint[], :events::text[],
    :attempts::integer[], :reasons::text[], :ats::bigint[], :states::text[])
    AS w (id, tenant, endpoint_id, lane_id, seq, event_id, attempts, reason, at, state)
JOIN hooklane.event e ON e.tenant = w.tenant AND e.id = w.event_id
ON CONFLICT (id) DO UPDATE SET attempts = excluded.attempts, reason = excluded.reason, died_at = excluded.died_at,
    state = excluded.state

-- name: loose_delivered
-- A loose delivery that is done leaves no row; a repeat finds none, and that is right.
WITH done AS (
    DELETE FROM hooklane.loose WHERE n = ANY(:ns::bigint[]) AND state IN ('queued', 'retrying')
    RETURNING tenant, endpoint_id
)
INSERT INTO hooklane.loose_delivered (tenant, endpoint_id, many)
SELECT tenant, endpoint_id, count(*) FROM done GROUP BY tenant, endpoint_id

-- name: loose_left
-- Those that are not done all the same: a person has recovered or cancelled them.
SELECT n FROM hooklane.loose WHERE n = ANY(:ns::bigint[])

-- name: hold_loose
-- Any other outcome of a delivery without order; a repeat finds itself.
UPDATE hooklane.loose o SET state = w.state, attempts = w.attempts, next_at = {held_until}, reason = w.reason,
    since = w.since, starts = 0
FROM unnest(:ns::bigint[], :states::text[], :attempts::integer[], :nexts::bigint[], :revs::bigint[], :reasons::text[],
    :sinces::bigint[]) AS w (n, state, attempts, next_at, rev, reason, since)
WHERE o.n = w.n AND o.rev = w.rev AND w.attempts - o.attempts IN (0, 1)
  AND (o.state IN ('queued', 'retrying') OR (o.state = w.state AND o.attempts = w.attempts))
RETURNING o.n

-- name: start_loose
-- An attempt is announced.
UPDATE hooklane.loose o SET attempts = w.attempts, starts = w.starts
FROM unnest(:lanes::bigint[], :attempts::integer[], :revs::bigint[], :starts::integer[])
    AS w (lane_id, attempts, rev, starts)
WHERE o.n = -w.lane_id AND o.rev = w.rev AND o.state IN ('queued', 'retrying') AND w.attempts - o.attempts IN (0, 1)
  AND (o.starts < w.starts OR (o.starts = w.starts AND o.attempts = w.attempts))
RETURNING o.n

-- name: cancel_loose
-- Their endpoint was deleted: what is owed or dead is cancelled; what was skipped stays so.
UPDATE hooklane.loose SET state = 'cancelled' WHERE n = ANY(:ns::bigint[]) AND state <> 'skipped' RETURNING n

-- name: log_attempts
-- Each attempt once; what comes back was not in the log before.
INSERT INTO hooklane.attempt
    (lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, failure, said, detail)
SELECT * FROM unnest(:lanes::bigint[], :seqs::bigint[], :starts::bigint[], :attempts::integer[], :tenants::text[],
    :tooks::double precision[], :outcomes::text[], :statuses::integer[], :failures::text[], :saids::text[],
    :details::bytea[])
ON CONFLICT DO NOTHING RETURNING lane_id, seq, started_at, attempt

-- fragment: sent
unnest(:lanes::bigint[], :places::bigint[], :seqs::bigint[], :ids::text[]) AS w (lane_id, place, seq, id)

-- name: lost_in_lanes
-- Place by place through the index. An event of an ordered lane has a place until long after its ack.
SELECT w.lane_id FROM {sent} WHERE w.id IS DISTINCT FROM (
    SELECT e.id FROM hooklane.lane_event p JOIN hooklane.event e ON e.n = p.event_n
    WHERE p.lane_id = w.place AND p.seq = w.seq)

-- name: lost_loose
-- A loose delivery that was acked leaves no place, and a repeat of the ack must not be taken for a loss.
SELECT w.lane_id FROM {sent} WHERE w.id <> (
    SELECT e.id FROM hooklane.loose p JOIN hooklane.event e ON e.n = p.event_n WHERE p.n = w.place)

-- name: lost_redeliveries
-- The same for what is sent again.
SELECT w.lane_id FROM {sent} WHERE w.id IS DISTINCT FROM (
    SELECT p.event_id FROM hooklane.member p WHERE p.redelivery = w.place AND p.pos = w.seq)
