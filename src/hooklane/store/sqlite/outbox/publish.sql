-- What publishing runs on SQLite: all at once on our own writer, row by row on a caller's connection (`sqlite/rows.py`).

-- name: last_numbers
-- Where the numbers of this publish begin, and whether another connection has written since the last one.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'hooklane_event'), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'hooklane_lane_event'), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'hooklane_loose'), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'hooklane_lane_tail'), 0),
    (SELECT data_version FROM pragma_data_version)

-- name: publishing_tenants
-- Which of these tenants are there, and whether their endpoints are those that the publisher knows.
SELECT id, endpoint_rev FROM hooklane_tenant
WHERE id IN (SELECT value FROM json_each(:tenants)) AND state IN ('active', 'suspended')

-- name: endpoints_of_tenant
-- Where its events may go.
SELECT doc FROM hooklane_endpoint WHERE tenant = :tenant ORDER BY id

-- name: all_endpoints
-- The endpoints of all tenants, for a worker.
SELECT doc FROM hooklane_endpoint ORDER BY id

-- name: lane_ends
-- Those of the named lanes that are there, and where each ends.
SELECT t.endpoint_id, t.key, t.lane_id, t.tail FROM json_each(:lanes) j CROSS JOIN hooklane_lane_end t
    ON t.endpoint_id = json_extract(j.value, '$[0]') AND t.key = json_extract(j.value, '$[1]')

-- name: add_lanes
-- A lane is made with its first event, and to publish in it never writes its row again.
INSERT INTO hooklane_lane_tail (lane_id, tenant, endpoint_id, key, pid, tail)
VALUES (:lane_id, :tenant, :endpoint_id, :key, :pid, :tail)

-- name: add_events
-- A body is written once and never updated.
INSERT INTO hooklane_event (n, tenant, id, type, key, data, created_at, stamps)
VALUES (:n, :tenant, :id, :type, :key, :data, :created_at, :stamps)

-- name: add_replays
-- The same for events that repeat a skipped one.
INSERT INTO hooklane_event (n, tenant, id, type, key, data, created_at, stamps, replay_of, trace)
VALUES (:n, :tenant, :id, :type, :key, :data, :created_at, :stamps, :replay_of, :trace)

-- name: add_lane_events
-- The place of an event in a lane.
INSERT INTO hooklane_lane_event (n, tenant, lane_id, seq, event_n) VALUES (:n, :tenant, :lane_id, :seq, :event_n)

-- name: add_loose
-- A delivery without order.
INSERT INTO hooklane_loose (n, tenant, endpoint_id, pid, event_n) VALUES (:n, :tenant, :endpoint_id, :pid, :event_n)

-- name: claim_names
-- A name is used once: a row that is there already is passed over.
INSERT INTO hooklane_idempotency (tenant, name, digest, event_n, created_at)
VALUES (:tenant, :name, :digest, :event_n, :created_at) ON CONFLICT DO NOTHING RETURNING 1

-- name: free_claimed_name
-- A draft that does not come in by itself leaves its names free; one may be another event's.
DELETE FROM hooklane_idempotency WHERE tenant = :tenant AND name = :name AND event_n = :n

-- name: holder_of_name
-- Which event has a name, and with which content.
SELECT i.digest, i.event_n, e.id, i.answer, i.created_at FROM hooklane_idempotency i
LEFT JOIN hooklane_event e ON e.n = i.event_n AND e.tenant = i.tenant WHERE i.tenant = :tenant AND i.name = :name

-- name: is_one_named
-- Whether an older hooklane gave one of these names to an event.
SELECT 1 FROM json_each(:names) j JOIN hooklane_idempotency i
    ON i.tenant = json_extract(j.value, '$[0]') AND i.name = json_extract(j.value, '$[1]') LIMIT 1

-- name: is_one_stored
-- Whether one of these ids, which callers chose, is an event's already.
SELECT 1 FROM json_each(:ids) j JOIN hooklane_event e
    ON e.tenant = json_extract(j.value, '$[0]') AND e.id = json_extract(j.value, '$[1]') LIMIT 1

-- name: event_by_id
-- The event with this id, whatever it was named by.
SELECT n, type, key, data, stamps, created_at FROM hooklane_event WHERE tenant = :tenant AND id = :id

-- name: published_event
-- What the first publish under a name was answered.
SELECT id, type, key, created_at, stamps FROM hooklane_event WHERE n = :n AND tenant = :tenant

-- name: kept_answer
-- The same where the event was pruned: its answer was kept with its name.
SELECT answer FROM hooklane_idempotency WHERE event_n = :n AND tenant = :tenant AND answer IS NOT NULL LIMIT 1
