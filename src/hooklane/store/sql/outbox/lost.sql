-- What both back-ends run when a process asks for what it had sent or published: some of it may be lost.

-- name: tenants_there
-- Those of these tenants that were not deleted.
SELECT id FROM hooklane.tenant WHERE id = ANY(:tenants::text[]) AND state IN ('active', 'suspended')

-- name: known_endpoint
-- Whether an endpoint is there at all: it may be lost as well.
SELECT 1 FROM hooklane.endpoint WHERE id = :endpoint

-- name: fence_partition
-- The owner of a partition knows places that will be others: whatever it writes from now on is refused, and it loads anew.
UPDATE hooklane.part SET owner = NULL, epoch = epoch + 1 WHERE pid = :pid

-- name: ids_in_lane
-- What stands from a place on, and what is on record of it.
SELECT le.seq, e.id, e.data, s.note FROM hooklane.lane_event le JOIN hooklane.event e ON e.n = le.event_n
LEFT JOIN hooklane.skipped s ON s.lane_id = le.lane_id AND s.seq = le.seq AND s.actor = :actor
WHERE le.lane_id = :lane AND le.seq >= :first

-- name: events_from
-- The same, and where each of these events believes to stand.
SELECT le.seq, e.n, e.stamps FROM hooklane.lane_event le JOIN hooklane.event e ON e.n = le.event_n
WHERE le.lane_id = :lane AND le.seq >= :first

-- name: lower_places
-- What `lift_places` put out of the way comes back.
UPDATE hooklane.lane_event SET seq = -seq WHERE lane_id = :lane AND seq < 0

-- name: forget_head
-- What is known of a head that has moved is not true of what stands there now.
UPDATE hooklane.lane SET state = 'active', attempts = 0, next_at = 0, reason = NULL, starts = 0, rev = rev + 1
WHERE lane_id = :lane AND head = :first::bigint

-- name: name_lost
-- Another event is known to have been lost in that place.
UPDATE hooklane.event SET data = :data WHERE tenant = :tenant AND id = :id

-- name: add_reused_letter
-- What was delivered in a seq that receivers had seen before is no success: a letter tells of it.
INSERT INTO hooklane.dead_letter
    (id, tenant, endpoint_id, lane_id, seq, event_n, attempts, reason, died_at, note, state)
SELECT :id, :tenant, :endpoint, :lane, :seq, le.event_n, 1, :reason, :at, :note, 'skipped'
FROM hooklane.lane_event le WHERE le.lane_id = :lane AND le.seq = :seq
ON CONFLICT (id) DO UPDATE SET reason = excluded.reason, note = excluded.note, state = excluded.state

-- name: event_at
-- Which event stands in a place.
SELECT e.id, e.created_at FROM hooklane.lane_event le JOIN hooklane.event e ON e.n = le.event_n
WHERE le.lane_id = :lane AND le.seq = :seq
