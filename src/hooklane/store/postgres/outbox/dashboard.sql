-- What the dashboard asks beside the rest: `store/sql/outbox/dashboard.py`.

-- === how everything stands ===

-- name: survey_of_lanes
-- By endpoint: lanes by state, what was accepted and passed, what waits behind dead heads, and the oldest head.
SELECT endpoint_id, count(*) FILTER (WHERE head > tail), count(*) FILTER (WHERE head <= tail AND state = 'active'),
    count(*) FILTER (WHERE head <= tail AND state = 'retrying'), count(*) FILTER (WHERE state = 'blocked'),
    sum(tail)::bigint, sum(head - 1)::bigint, coalesce(sum(tail - head) FILTER (WHERE state = 'blocked'), 0)::bigint,
    min(CASE WHEN head <= tail THEN
        (SELECT e.event_n FROM hooklane.lane_event e WHERE e.lane_id = r.lane_id AND e.seq = r.head) END)
FROM ({every_lane} WHERE t.tenant = :tenant) r GROUP BY endpoint_id

-- name: survey_of_passed
-- What the heads passed without delivering it.
SELECT n.endpoint_id, s.kind, sum(s.upto - s.seq + 1)::bigint
FROM hooklane.skipped s JOIN hooklane.lane_name n USING (lane_id) WHERE s.tenant = :tenant GROUP BY 1, 2
UNION ALL SELECT endpoint_id, state, many FROM hooklane.past WHERE kind = 'lane' AND tenant = :tenant

-- name: survey_of_loose
-- Deliveries without order by their own state; those that were delivered left only their number.
SELECT endpoint_id, state, count(*) FROM hooklane.loose WHERE tenant = :tenant GROUP BY 1, 2
UNION ALL SELECT endpoint_id, state, many FROM hooklane.past WHERE kind = 'loose' AND tenant = :tenant
UNION ALL SELECT endpoint_id, 'delivered', sum(many)::bigint FROM hooklane.loose_delivered
WHERE tenant = :tenant GROUP BY 1

-- name: oldest_loose
-- The oldest event that is owed without order.
SELECT min(event_n) FROM hooklane.loose WHERE state IN ('queued', 'retrying') AND tenant = :tenant

-- name: event_created_at
-- When an event was published, by its number.
SELECT created_at FROM hooklane.event WHERE n = :n::bigint


-- === figures over time ===

-- name: keep_series
-- A process overwrites its own row of a slot.
INSERT INTO hooklane.series (tenant, step_s, by, at, process, doc)
SELECT * FROM unnest(:tenant::text[], :step_s::integer[], :by::text[], :at::bigint[], :process::text[], :doc::bytea[])
ON CONFLICT (tenant, step_s, by, at, process) DO UPDATE SET doc = excluded.doc

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

-- fragment: fitting_lane
t.tenant = :tenant AND (:endpoint::text IS NULL OR t.endpoint_id = :endpoint)
    AND (:text::text IS NULL OR strpos(lower(t.key), lower(:text)) > 0)

-- name: lanes_blocked_by_age
-- The blocked lanes of a window, the one that has waited longest first. The state is written out, for the index.
WITH w AS MATERIALIZED (SELECT lane_id FROM hooklane.lane WHERE state = 'blocked' AND {in_age_window})
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM (
    {lane_rows} WHERE lane_id IN (SELECT lane_id FROM w) {and_acks} LEFT JOIN hooklane.endpoint p ON p.id = t.endpoint_id
    WHERE t.lane_id IN (SELECT lane_id FROM w) AND {fitting_lane}) r) x {of_rank_by_age}

-- name: lanes_retrying_by_age
-- The same for lanes that retry.
WITH w AS MATERIALIZED (SELECT lane_id FROM hooklane.lane WHERE state = 'retrying' AND {in_age_window})
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM (
    {lane_rows} WHERE lane_id IN (SELECT lane_id FROM w) {and_acks} LEFT JOIN hooklane.endpoint p ON p.id = t.endpoint_id
    WHERE t.lane_id IN (SELECT lane_id FROM w) AND {fitting_lane}) r) x {of_rank_by_age}

-- name: age_window_blocked
-- Up to which blocked lane a search looks next.
SELECT since, lane_id FROM hooklane.lane WHERE state = 'blocked' AND (since, lane_id) > (:since::bigint, :lane::bigint)
ORDER BY since, lane_id LIMIT 1 OFFSET :at::bigint

-- name: age_window_retrying
-- The same for lanes that retry.
SELECT since, lane_id FROM hooklane.lane WHERE state = 'retrying' AND (since, lane_id) > (:since::bigint, :lane::bigint)
ORDER BY since, lane_id LIMIT 1 OFFSET :at::bigint

-- name: lanes_named
-- Lanes by endpoint and key, as `lane` has one.
WITH w AS MATERIALIZED (
    SELECT n.lane_id FROM hooklane.lane_name n JOIN unnest(:endpoint::text[], :key::text[]) AS a (endpoint_id, key)
    USING (endpoint_id, key))
{lane_view} FROM ({lane_rank} FROM (
    {lane_rows} WHERE lane_id IN (SELECT lane_id FROM w) {and_acks} LEFT JOIN hooklane.endpoint p ON p.id = t.endpoint_id
    WHERE t.lane_id IN (SELECT lane_id FROM w) AND t.tenant = :tenant) r) v {at_head}

-- name: passed_between
-- What lanes passed over without delivering it, between two seqs of each.
SELECT s.lane_id, s.seq, s.upto, s.kind FROM hooklane.skipped s
JOIN unnest(:lane_id::bigint[], :first::bigint[], :last::bigint[]) AS w (lane_id, first, last) USING (lane_id)
WHERE s.seq <= w.last AND s.upto >= w.first ORDER BY s.lane_id, s.seq

-- name: last_words
-- What the endpoint answered to the last attempt of each delivery.
SELECT w.lane_id, w.seq, a.said, left(convert_from(a.detail, 'UTF8')::json ->> 'response_body', 400)
FROM unnest(:lane_id::bigint[], :seq::bigint[], :event_at::bigint[]) AS w (lane_id, seq, event_at)
CROSS JOIN LATERAL (SELECT said, detail FROM hooklane.attempt a WHERE a.lane_id = w.lane_id AND a.seq = w.seq
    ORDER BY started_at DESC, attempt DESC LIMIT 1) a

-- name: said_in_lane
-- What the receiver said of the events of a lane between two seqs, attempt by attempt.
SELECT seq, said FROM hooklane.attempt
WHERE lane_id = :lane_id::bigint AND seq >= :first::bigint AND seq <= :last::bigint AND said IS NOT NULL
ORDER BY seq, started_at, attempt LIMIT 1000
