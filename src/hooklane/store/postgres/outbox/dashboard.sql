-- What the dashboard asks beside the rest: `store/sql/outbox/dashboard.py`.


-- === how everything stands ===

-- name: survey_of_lanes
-- By endpoint: lanes by state, what was accepted and passed, what waits behind dead heads, and the oldest head. OFFSET 0
-- keeps the lanes apart from what is counted of them: else the end of each lane is looked up once for each figure.
SELECT endpoint_id, count(*) FILTER (WHERE head > tail), count(*) FILTER (WHERE head <= tail AND state = 'active'),
    count(*) FILTER (WHERE head <= tail AND state = 'retrying'), count(*) FILTER (WHERE state = 'blocked'),
    sum(tail)::bigint, sum(head - 1)::bigint, coalesce(sum(tail - head) FILTER (WHERE state = 'blocked'), 0)::bigint,
    min(CASE WHEN head <= tail THEN
        (SELECT e.event_n FROM hooklane.lane_event e WHERE e.lane_id = r.lane_id AND e.seq = r.head) END)
FROM ({every_lane} WHERE t.tenant = :tenant OFFSET 0) r GROUP BY endpoint_id

-- name: survey_of_loose
-- Deliveries without order by their own state; those that were delivered left only their number.
SELECT endpoint_id, state, count(*) FROM hooklane.loose WHERE tenant = :tenant GROUP BY 1, 2
UNION ALL SELECT endpoint_id, state, many FROM hooklane.past WHERE kind = 'loose' AND tenant = :tenant
UNION ALL SELECT endpoint_id, 'delivered', sum(many)::bigint FROM hooklane.loose_delivered
WHERE tenant = :tenant GROUP BY 1


-- === figures over time ===

-- name: keep_series
-- A process overwrites its own row of a slot.
INSERT INTO hooklane.series (tenant, step_s, by, at, process, doc)
SELECT * FROM unnest(:tenant::text[], :step_s::integer[], :by::text[], :at::bigint[], :process::text[], :doc::bytea[])
ON CONFLICT (tenant, step_s, by, at, process) DO UPDATE SET doc = excluded.doc


-- === the board of lanes ===

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

-- name: tries
-- The number of the last attempt of each delivery.
SELECT w.lane_id, w.seq, a.attempt
FROM unnest(:lane_id::bigint[], :seq::bigint[], :event_at::bigint[]) AS w (lane_id, seq, event_at)
CROSS JOIN LATERAL (SELECT attempt FROM hooklane.attempt a WHERE a.lane_id = w.lane_id AND a.seq = w.seq
    ORDER BY started_at DESC, attempt DESC LIMIT 1) a

-- name: last_words
-- What the endpoint answered to the last attempt of each delivery. The detail is read in Python: `->>` fails where a NUL is
-- in an answer.
SELECT w.lane_id, w.seq, a.said, a.detail
FROM unnest(:lane_id::bigint[], :seq::bigint[], :event_at::bigint[]) AS w (lane_id, seq, event_at)
CROSS JOIN LATERAL (SELECT said, detail FROM hooklane.attempt a WHERE a.lane_id = w.lane_id AND a.seq = w.seq
    ORDER BY started_at DESC, attempt DESC LIMIT 1) a

-- name: said_in_lane
-- What the receiver said of the events of a lane between two seqs, attempt by attempt.
SELECT seq, said FROM hooklane.attempt
WHERE lane_id = :lane_id::bigint AND seq >= :first::bigint AND seq <= :last::bigint AND said IS NOT NULL
ORDER BY seq, started_at, attempt LIMIT 1000


-- === the audit log and the turns of breakers ===

-- name: note_breaker_turns
-- A turn that was written is kept with its time: the one that stands now, if it is this one.
INSERT INTO hooklane.breaker_turn (endpoint_id, turn, tenant, state, until, at, by)
SELECT h.endpoint_id, h.turn, h.tenant, h.state, h.until, hooklane.now_ms(), h.by FROM hooklane.health h
JOIN unnest(:endpoint_id::text[], :turn::bigint[], :by::text[]) AS w (endpoint_id, turn, by) USING (endpoint_id, turn, by)
ON CONFLICT (endpoint_id, turn) DO NOTHING

-- name: drop_breaker_turns
-- The last few hundred of each endpoint are kept.
DELETE FROM hooklane.breaker_turn b USING unnest(:endpoint_id::text[], :turn::bigint[]) AS w (endpoint_id, turn)
WHERE b.endpoint_id = w.endpoint_id AND b.turn <= w.turn - :kept::bigint


-- === attempts and the story of an event ===

-- fragment: last_attempts
SELECT e.id, e.type, n.endpoint_id, n.key, a.lane_id, a.seq, a.started_at, a.attempt, a.took_ms, a.outcome, a.status,
    a.failure, a.said, a.detail
FROM l JOIN hooklane.lane_name n USING (lane_id)
JOIN hooklane.lane_event le ON le.lane_id = l.lane_id AND le.seq = l.head JOIN hooklane.event e ON e.n = le.event_n
JOIN hooklane.attempt a ON a.lane_id = l.lane_id AND a.seq = l.head AND a.attempt = l.attempts
WHERE n.tenant = :tenant AND (:endpoint::text IS NULL OR n.endpoint_id = :endpoint) LIMIT :limit::bigint

-- name: passed_at
-- Who passed an event of a lane over, and why.
SELECT s.lane_id, s.kind, s.note, s.actor, s.at FROM hooklane.skipped s JOIN {places} USING (lane_id)
WHERE s.seq <= w.seq AND s.upto >= w.seq

-- name: ended_in_lane
-- When the last attempt of an event of a lane ended.
SELECT a.lane_id, max(a.started_at + a.took_ms) FROM hooklane.attempt a JOIN {places} USING (lane_id, seq)
GROUP BY a.lane_id


-- === plans and jobs ===

-- name: lane_events
-- The events of a lane from a seq on, with the beginning of their data.
SELECT w.lane_id, e.seq, e.id, e.type, e.data FROM {places} CROSS JOIN LATERAL (
    SELECT l.seq, v.id, v.type, substring(v.data FROM 1 FOR :chars::integer) AS data FROM hooklane.lane_event l
    JOIN hooklane.event v ON v.n = l.event_n WHERE l.lane_id = w.lane_id AND l.seq >= w.seq
    ORDER BY l.seq LIMIT :limit::bigint) e
ORDER BY w.lane_id, e.seq


-- === events ===

-- name: searched_events
-- Events of a window that fit a search by text, by their deliveries or by their attempts.
{fitting_events}
  AND (:q::text IS NULL OR strpos(lower(e.key), lower(:q)) > 0 OR strpos(lower(e.type), lower(:q)) > 0
       OR starts_with(e.id, :q))
  AND (NOT :by_delivery::boolean OR EXISTS (
    {fitting_delivery}
    AND (:seq::bigint IS NULL OR p.seq = :seq)
    AND (NOT :by_attempt::boolean OR EXISTS (
        SELECT 1 FROM hooklane.attempt a WHERE a.lane_id = p.lane_id
        AND a.seq = coalesce(p.seq, 1) AND (:attempts_min::integer IS NULL OR a.attempt >= :attempts_min)
        AND (:http::text IS NULL OR a.status::text LIKE :http)
        AND (:reason::text IS NULL OR coalesce(a.failure, a.status::text) LIKE :reason)))))
ORDER BY e.n DESC LIMIT :limit::bigint
