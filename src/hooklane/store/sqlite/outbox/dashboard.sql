-- What the dashboard asks beside the rest: `store/sql/outbox/dashboard.py`.


-- === how everything stands ===

-- name: survey_of_lanes
-- By endpoint: lanes by state, what was accepted and passed, what waits behind dead heads, and the oldest head.
SELECT endpoint_id, sum(head > tail), sum(head <= tail AND state = 'active'), sum(head <= tail AND state = 'retrying'),
    sum(state = 'blocked'), sum(tail), sum(head - 1), sum(CASE state WHEN 'blocked' THEN tail - head ELSE 0 END),
    min(CASE WHEN head <= tail THEN
        (SELECT e.event_n FROM hooklane_lane_event e WHERE e.lane_id = r.lane_id AND e.seq = r.head) END)
FROM (SELECT t.lane_id, t.endpoint_id, t.tail, coalesce(l.head, 1) AS head, coalesce(l.state, 'active') AS state
      FROM hooklane_lane_end t LEFT JOIN hooklane_lane l USING (lane_id) WHERE t.tenant = :tenant {looked_at_once}) r
GROUP BY endpoint_id

-- name: survey_of_loose
-- Deliveries without order by their own state.
SELECT endpoint_id, state, count(*) FROM hooklane_loose WHERE tenant = :tenant GROUP BY 1, 2
UNION ALL SELECT endpoint_id, state, many FROM hooklane_past WHERE kind = 'loose' AND tenant = :tenant


-- === figures over time ===

-- name: keep_series
-- A process overwrites its own row of a slot.
INSERT INTO hooklane_series (tenant, step_s, by, at, process, doc)
VALUES (:tenant, :step_s, :by, :at, :process, :doc)
ON CONFLICT (tenant, step_s, by, at, process) DO UPDATE SET doc = excluded.doc


-- === the board of lanes ===

-- fragment: lanes_by_age
{lane_rows} WHERE t.tenant = :tenant AND (:endpoint IS NULL OR t.endpoint_id = :endpoint)
    AND (:text IS NULL OR instr(lower(t.key), lower(:text)) > 0)

-- name: lanes_blocked_by_age
-- The blocked lanes of a window, the one that has waited longest first. The state is written out, for the index.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_by_age}
    AND t.lane_id IN (SELECT lane_id FROM {lanes_in_state} 'blocked' AND {in_age_window})
)) {of_rank_by_age}

-- name: lanes_retrying_by_age
-- The same for lanes that retry.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_by_age}
    AND t.lane_id IN (SELECT lane_id FROM {lanes_in_state} 'retrying' AND {in_age_window})
)) {of_rank_by_age}

-- name: lanes_named
-- Lanes by endpoint and key, as `lane` has one.
{lane_view} FROM ({lane_rank} FROM ({lane_rows}
    WHERE t.tenant = :tenant AND t.endpoint_id = :endpoint AND t.key = :key)) v {at_head}

-- name: passed_between
-- What lanes passed over without delivering it, between two seqs of each.
SELECT lane_id, seq, upto, kind FROM hooklane_skipped
WHERE lane_id = :lane_id AND seq <= :last AND upto >= :first ORDER BY seq

-- name: last_words
-- What the endpoint answered to the last attempt of each delivery.
SELECT lane_id, seq, said, detail FROM hooklane_attempt
WHERE event_at = :event_at AND lane_id = :lane_id AND seq = :seq ORDER BY started_at DESC, attempt DESC LIMIT 1

-- name: tries
-- The number of the last attempt of each delivery.
SELECT lane_id, seq, attempt FROM hooklane_attempt
WHERE event_at = :event_at AND lane_id = :lane_id AND seq = :seq ORDER BY started_at DESC, attempt DESC LIMIT 1

-- name: said_in_lane
-- What the receiver said of the events of a lane between two seqs, attempt by attempt.
SELECT a.seq, a.said FROM hooklane_lane_event l JOIN hooklane_event e ON e.n = l.event_n
JOIN hooklane_attempt a ON a.event_at = e.created_at AND a.lane_id = l.lane_id AND a.seq = l.seq
WHERE l.lane_id = :lane_id AND l.seq >= :first AND l.seq <= :last AND a.said IS NOT NULL
ORDER BY a.seq, a.started_at, a.attempt LIMIT 1000


-- === the audit log and the turns of breakers ===

-- name: note_breaker_turns
-- A turn that was written is kept with its time: the one that stands now, if it is this one.
INSERT INTO hooklane_breaker_turn (endpoint_id, turn, tenant, state, until, at, by)
SELECT endpoint_id, turn, tenant, state, until, {now}, by FROM hooklane_health
WHERE endpoint_id = :endpoint_id AND turn = :turn AND by = :by
ON CONFLICT (endpoint_id, turn) DO NOTHING

-- name: drop_breaker_turns
-- The last few hundred of each endpoint are kept.
DELETE FROM hooklane_breaker_turn WHERE endpoint_id = :endpoint_id AND turn <= :turn - :kept


-- === attempts and the story of an event ===

-- fragment: last_attempts
SELECT e.id, e.type, t.endpoint_id, t.key, a.lane_id, a.seq, a.started_at, a.attempt, a.took_ms, a.outcome, a.status,
    a.failure, a.said, a.detail
FROM l JOIN hooklane_lane_tail t USING (lane_id)
JOIN hooklane_lane_event le ON le.lane_id = l.lane_id AND le.seq = l.head JOIN hooklane_event e ON e.n = le.event_n
JOIN hooklane_attempt a ON a.event_at = e.created_at AND a.lane_id = l.lane_id AND a.seq = l.head AND a.attempt = l.attempts
WHERE t.tenant = :tenant AND (:endpoint IS NULL OR t.endpoint_id = :endpoint) LIMIT :limit

-- name: passed_at
-- Who passed an event of a lane over, and why.
SELECT lane_id, kind, note, actor, at FROM hooklane_skipped WHERE lane_id = :lane_id AND seq <= :seq AND upto >= :seq

-- name: ended_in_lane
-- When the last attempt of an event of a lane ended.
SELECT a.lane_id, max(a.started_at + a.took_ms) FROM hooklane_lane_event l JOIN hooklane_event e ON e.n = l.event_n
JOIN hooklane_attempt a ON a.event_at = e.created_at AND a.lane_id = l.lane_id AND a.seq = l.seq
WHERE l.lane_id = :lane_id AND l.seq = :seq GROUP BY a.lane_id


-- === plans and jobs ===

-- name: lane_events
-- The events of a lane from a seq on, with the beginning of their data.
SELECT l.lane_id, l.seq, e.id, e.type, substr(e.data, 1, :chars) FROM hooklane_lane_event l
JOIN hooklane_event e ON e.n = l.event_n WHERE l.lane_id = :lane_id AND l.seq >= :seq ORDER BY l.seq LIMIT :limit


-- === events ===

-- name: searched_events
-- Events of a window that fit a search by text, by their deliveries or by their attempts.
{fitting_events}
  AND (:q IS NULL OR instr(lower(e.key), lower(:q)) > 0 OR instr(lower(e.type), lower(:q)) > 0
       OR substr(e.id, 1, length(:q)) = :q)
  AND (NOT :by_delivery OR EXISTS (
    {fitting_delivery}
    AND (:seq IS NULL OR s.seq = :seq)
    AND (NOT :by_attempt OR EXISTS (
        SELECT 1 FROM hooklane_attempt a WHERE a.event_at = e.created_at AND a.lane_id = s.lane_id
        AND a.seq = coalesce(s.seq, 1) AND (:attempts_min IS NULL OR a.attempt >= :attempts_min)
        AND (:http IS NULL OR CAST(a.status AS TEXT) GLOB :http)
        AND (:reason IS NULL OR coalesce(a.failure, CAST(a.status AS TEXT)) GLOB :reason)))))
ORDER BY e.n DESC LIMIT :limit
