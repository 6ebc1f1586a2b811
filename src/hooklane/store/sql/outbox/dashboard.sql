-- What the dashboard asks beside the rest: `store/sql/outbox/dashboard.py`.


-- === how everything stands ===

-- name: survey_of_passed
-- What the heads passed without delivering it.
SELECT n.endpoint_id, s.kind, sum(s.upto - s.seq + 1)::bigint
FROM hooklane.skipped s JOIN {lane_names} n USING (lane_id) WHERE s.tenant = :tenant GROUP BY 1, 2
UNION ALL SELECT endpoint_id, state, many FROM hooklane.past WHERE kind = 'lane' AND tenant = :tenant

-- name: oldest_loose
-- The oldest event that is owed without order.
SELECT min(event_n) FROM hooklane.loose WHERE state IN ('queued', 'retrying') AND tenant = :tenant

-- name: event_created_at
-- When an event was published, by its number.
SELECT created_at FROM hooklane.event WHERE n = :n::bigint


-- === figures over time ===

-- name: drop_series
-- What is older than the ring is long.
DELETE FROM hooklane.series WHERE step_s = :step_s::integer AND at < :before::bigint

-- name: series
-- The rows of some subjects from a time on.
SELECT by, at, process, doc FROM hooklane.series
WHERE tenant = :tenant AND step_s = :step_s::integer AND by = ANY(:by::text[]) AND at >= :since::bigint
ORDER BY by, at LIMIT :limit::bigint


-- === the board of lanes ===

-- fragment: in_age_window
(since, lane_id) > (:since::bigint, :lane::bigint) AND (since, lane_id) <= (:upto_since::bigint, :upto_lane::bigint)

-- fragment: of_rank_by_age
WHERE rank = :rank::integer ORDER BY since, lane_id LIMIT :limit::bigint) v {at_head} ORDER BY v.since, v.lane_id

-- name: age_window_blocked
-- Up to which blocked lane a search looks next.
SELECT since, lane_id FROM {lanes_in_state} 'blocked' AND (since, lane_id) > (:since::bigint, :lane::bigint)
ORDER BY since, lane_id LIMIT 1 OFFSET :at::bigint

-- name: age_window_retrying
-- The same for lanes that retry.
SELECT since, lane_id FROM {lanes_in_state} 'retrying' AND (since, lane_id) > (:since::bigint, :lane::bigint)
ORDER BY since, lane_id LIMIT 1 OFFSET :at::bigint


-- === the audit log and the turns of breakers ===

-- name: audit_window
-- How many lines a search looks at next, and down to which.
SELECT count(*), min(n) FROM
    (SELECT n FROM hooklane.audit WHERE n < :below::bigint ORDER BY n DESC LIMIT :window::bigint) w

-- name: audit_fitting
-- The lines of a window that fit, the newest first.
SELECT n, tenant, at, actor, action, subject, note, seal FROM hooklane.audit
WHERE n < :below::bigint AND n >= :floor::bigint AND tenant = :tenant
  AND (:actor::text IS NULL OR actor = :actor) AND (:action::text IS NULL OR action {fits} :action)
  AND (:subjects::text[] IS NULL OR subject = ANY(:subjects::text[]))
  AND (:after::bigint IS NULL OR at >= :after) AND (:before::bigint IS NULL OR at < :before)
ORDER BY n DESC LIMIT :limit::bigint

-- name: breaker_turns
-- The turns of one breaker, or of all of a tenant, the newest first.
SELECT endpoint_id, turn, state, until, at, by FROM hooklane.breaker_turn
WHERE tenant = :tenant AND endpoint_id = coalesce(:endpoint::text, endpoint_id) AND at >= :since::bigint
ORDER BY at DESC, turn DESC LIMIT :limit::bigint

-- name: breaker_turns_of
-- The turns of some breakers from a time on, and of each the one before it, oldest first; no more of each than the limit.
SELECT b.endpoint_id, b.turn, b.state, b.until, b.at, b.by FROM hooklane.breaker_turn b
JOIN (SELECT endpoint_id, max(turn) AS newest, max(CASE WHEN at < :since::bigint THEN turn END) AS before FROM hooklane.breaker_turn
      WHERE tenant = :tenant AND endpoint_id = ANY(:ids::text[]) GROUP BY endpoint_id) w USING (endpoint_id)
WHERE b.turn >= coalesce(w.before, 0) AND b.turn > w.newest - :limit::bigint
ORDER BY b.endpoint_id, b.turn


-- === dead letters ===

-- name: assign_letter
-- A letter that is still open is given to a person, or to none.
UPDATE hooklane.dead_letter SET assignee = :assignee WHERE tenant = :tenant AND id = :id AND state = 'open' RETURNING id

-- name: causes
-- Why letters died, by endpoint: how many, on how many lanes, and how much waits behind them. The oldest ones at most.
SELECT d.endpoint_id, d.reason, count(*), count(DISTINCT d.lane_id),
    sum(coalesce((SELECT t.tail FROM {lane_ends} t WHERE t.lane_id = d.lane_id) - d.seq, 0))::bigint,
    min(d.died_at), max(d.died_at)
FROM (SELECT endpoint_id, reason, lane_id, seq, died_at FROM hooklane.dead_letter
      WHERE tenant = :tenant AND state = 'open' ORDER BY died_at, id LIMIT :window::bigint) d
GROUP BY d.endpoint_id, d.reason

-- name: newest_letters
-- The open letters that died after a time, the newest first.
{letters} AND (d.died_at, d.id) > (:died_at::bigint, :letter::text) ORDER BY d.died_at DESC, d.id DESC
LIMIT :limit::bigint


-- === plans and jobs ===

-- name: jobs_page
-- Plans, or with `run` those that became jobs, the newest first.
SELECT doc FROM hooklane.job WHERE tenant = :tenant AND id < :below AND (NOT :run::boolean OR job_id IS NOT NULL)
  AND (:states::text[] IS NULL OR state = ANY(:states::text[])) ORDER BY id DESC LIMIT :limit::bigint


-- === events ===

-- name: event_numbers
-- Events whose id lies between two, the newest first; ids are in the order of time.
SELECT n FROM hooklane.event WHERE tenant = :tenant AND id >= :first AND id <= :last
ORDER BY id DESC LIMIT :limit::bigint


-- === the inbox in the same database ===

-- name: inbox_of_late
-- By source: rows that came since a time, and how many copies of them came besides. The newest ones at most.
SELECT source, count(*), sum(copies - 1)::bigint FROM (
    SELECT source, copies FROM hooklane.inbox_row WHERE received_at >= :since::bigint
    ORDER BY received_at DESC LIMIT :window::bigint) r
GROUP BY source


-- === attempts and the story of an event ===

-- name: failures_blocked
-- The last attempts of the heads that died lately: failures that a process which started since has not seen.
WITH l AS MATERIALIZED (SELECT lane_id, head, attempts FROM {lanes_in_state} 'blocked'
                        ORDER BY since DESC LIMIT :window::bigint)
{last_attempts}

-- name: failures_retrying
-- The same for heads that are tried again.
WITH l AS MATERIALIZED (SELECT lane_id, head, attempts FROM {lanes_in_state} 'retrying'
                        ORDER BY since DESC LIMIT :window::bigint)
{last_attempts}
