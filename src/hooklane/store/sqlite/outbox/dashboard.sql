-- What the dashboard asks beside the rest: `store/sql/outbox/dashboard.py`.

-- === how everything stands ===

-- name: survey_of_lanes
-- By endpoint: lanes by state, what was accepted and passed, what waits behind dead heads, and the oldest head.
SELECT endpoint_id, sum(head > tail), sum(head <= tail AND state = 'active'), sum(head <= tail AND state = 'retrying'),
    sum(state = 'blocked'), sum(tail), sum(head - 1), sum(CASE state WHEN 'blocked' THEN tail - head ELSE 0 END),
    min(CASE WHEN head <= tail THEN
        (SELECT e.event_n FROM hooklane_lane_event e WHERE e.lane_id = r.lane_id AND e.seq = r.head) END)
FROM (SELECT t.lane_id, t.endpoint_id, t.tail, coalesce(l.head, 1) AS head, coalesce(l.state, 'active') AS state
      FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id) WHERE t.tenant = :tenant) r
GROUP BY endpoint_id

-- name: survey_of_passed
-- What the heads passed without delivering it.
SELECT t.endpoint_id, s.kind, sum(s.upto - s.seq + 1) FROM hooklane_skipped s JOIN hooklane_lane_tail t USING (lane_id)
WHERE s.tenant = :tenant GROUP BY 1, 2
UNION ALL SELECT endpoint_id, state, many FROM hooklane_past WHERE kind = 'lane' AND tenant = :tenant

-- name: survey_of_loose
-- Deliveries without order by their own state.
SELECT endpoint_id, state, count(*) FROM hooklane_loose WHERE tenant = :tenant GROUP BY 1, 2
UNION ALL SELECT endpoint_id, state, many FROM hooklane_past WHERE kind = 'loose' AND tenant = :tenant

-- name: oldest_loose
-- The oldest event that is owed without order.
SELECT min(event_n) FROM hooklane_loose WHERE state IN ('queued', 'retrying') AND tenant = :tenant

-- name: event_created_at
-- When an event was published, by its number.
SELECT created_at FROM hooklane_event WHERE n = :n


-- === figures over time ===

-- name: keep_series
-- A process overwrites its own row of a slot.
INSERT INTO hooklane_series (tenant, step_s, by, at, process, doc)
VALUES (:tenant, :step_s, :by, :at, :process, :doc)
ON CONFLICT (tenant, step_s, by, at, process) DO UPDATE SET doc = excluded.doc

-- name: drop_series
-- What is older than the ring is long.
DELETE FROM hooklane_series WHERE step_s = :step_s AND at < :before

-- name: series
-- The rows of some subjects from a time on.
SELECT by, at, process, doc FROM hooklane_series
WHERE tenant = :tenant AND step_s = :step_s AND by IN (SELECT value FROM json_each(:by)) AND at >= :since
ORDER BY by, at LIMIT :limit


-- === the board of lanes ===

-- fragment: lanes_by_age
{lane_rows} WHERE t.tenant = :tenant AND (:endpoint IS NULL OR t.endpoint_id = :endpoint)
    AND (:text IS NULL OR instr(lower(t.key), lower(:text)) > 0)

-- fragment: in_age_window
(since, lane_id) > (:since, :lane) AND (since, lane_id) <= (:upto_since, :upto_lane)

-- fragment: of_rank_by_age
WHERE rank = :rank ORDER BY since, lane_id LIMIT :limit) v {at_head} ORDER BY v.since, v.lane_id

-- name: lanes_blocked_by_age
-- The blocked lanes of a window, the one that has waited longest first. The state is written out, for the index.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_by_age}
    AND t.lane_id IN (SELECT lane_id FROM hooklane_lane INDEXED BY hooklane_lane_needing_attention
                      WHERE state = 'blocked' AND state <> 'active' AND {in_age_window})
)) {of_rank_by_age}

-- name: lanes_retrying_by_age
-- The same for lanes that retry.
{lane_view} FROM (SELECT * FROM ({lane_rank} FROM ({lanes_by_age}
    AND t.lane_id IN (SELECT lane_id FROM hooklane_lane INDEXED BY hooklane_lane_needing_attention
                      WHERE state = 'retrying' AND state <> 'active' AND {in_age_window})
)) {of_rank_by_age}

-- name: age_window_blocked
-- Up to which blocked lane a search looks next.
SELECT since, lane_id FROM hooklane_lane INDEXED BY hooklane_lane_needing_attention
WHERE state = 'blocked' AND state <> 'active' AND (since, lane_id) > (:since, :lane)
ORDER BY since, lane_id LIMIT 1 OFFSET :at

-- name: age_window_retrying
-- The same for lanes that retry.
SELECT since, lane_id FROM hooklane_lane INDEXED BY hooklane_lane_needing_attention
WHERE state = 'retrying' AND state <> 'active' AND (since, lane_id) > (:since, :lane)
ORDER BY since, lane_id LIMIT 1 OFFSET :at

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
SELECT lane_id, seq, said, substr(json_extract(CAST(detail AS TEXT), '$.response_body'), 1, 400) FROM hooklane_attempt
WHERE event_at = :event_at AND lane_id = :lane_id AND seq = :seq ORDER BY started_at DESC, attempt DESC LIMIT 1

-- name: said_in_lane
-- What the receiver said of the events of a lane between two seqs, attempt by attempt.
SELECT a.seq, a.said FROM hooklane_lane_event l JOIN hooklane_event e ON e.n = l.event_n
JOIN hooklane_attempt a ON a.event_at = e.created_at AND a.lane_id = l.lane_id AND a.seq = l.seq
WHERE l.lane_id = :lane_id AND l.seq >= :first AND l.seq <= :last AND a.said IS NOT NULL
ORDER BY a.seq, a.started_at, a.attempt LIMIT 1000
