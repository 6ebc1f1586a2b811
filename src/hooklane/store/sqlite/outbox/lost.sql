-- What SQLite runs when a process asks for what it had sent or published: after a backup was put in place some of it may be lost.

-- name: tenants_there
-- Those of these tenants that were not deleted.
SELECT id FROM hooklane_tenant WHERE id IN (SELECT value FROM json_each(:tenants)) AND state IN ('active', 'suspended')

-- name: unheld_places
-- The lanes in which one of these events does not stand where it stood, unless that is on record already.
SELECT :endpoint_id, :key WHERE NOT EXISTS (
    SELECT 1 FROM hooklane_lane_tail n JOIN hooklane_lane_event le ON le.lane_id = n.lane_id AND le.seq = :seq
    JOIN hooklane_event e ON e.n = le.event_n
    WHERE n.endpoint_id = :endpoint_id AND n.key = :key AND (e.id = :event_id
        OR (e.id = :lost_id AND instr(CAST(e.data AS TEXT), :named) > 0)))

-- name: unheld_events
-- Those of these events that are not there, and not on record as lost.
SELECT :endpoint_id, :event_id
WHERE NOT EXISTS (SELECT 1 FROM hooklane_event e WHERE e.tenant = :tenant AND e.id IN (:event_id, :lost_id))

-- name: known_endpoint
-- Whether an endpoint is there at all: it may be lost as well.
SELECT 1 FROM hooklane_endpoint WHERE id = :endpoint

-- name: make_lost_lane
-- A lane whose very first event was lost.
INSERT INTO hooklane_lane_tail (tenant, endpoint_id, key, pid, tail) VALUES (:tenant, :endpoint, :key, :pid, 1)
ON CONFLICT DO NOTHING

-- name: hold_lost_lane
-- One writes at a time: nothing gets a seq there meanwhile.
SELECT lane_id, pid FROM hooklane_lane_tail WHERE endpoint_id = :endpoint AND key = :key

-- name: fence_partition
-- Its owner knows places that will be others: whatever it writes from now on is refused, and it loads anew.
UPDATE hooklane_part SET owner = NULL, epoch = epoch + 1 WHERE pid = :pid

-- name: ends_of_lane
-- Where it stands.
SELECT coalesce(l.head, 1), t.tail FROM hooklane_lane_tail t LEFT JOIN hooklane_lane l USING (lane_id) WHERE t.lane_id = :lane

-- name: ids_in_lane
-- What stands from a place on, and what is on record of it.
SELECT le.seq, e.id, e.data, s.note FROM hooklane_lane_event le JOIN hooklane_event e ON e.n = le.event_n
LEFT JOIN hooklane_skipped s ON s.lane_id = le.lane_id AND s.seq = le.seq AND s.actor = :actor
WHERE le.lane_id = :lane AND le.seq >= :first

-- name: events_from
-- The same, and where each of these events believes to stand.
SELECT le.seq, e.n, e.stamps FROM hooklane_lane_event le JOIN hooklane_event e ON e.n = le.event_n
WHERE le.lane_id = :lane AND le.seq >= :first

-- name: lift_places
-- Places that move, turned over: no other is there.
UPDATE hooklane_lane_event SET seq = -:to_seq WHERE lane_id = :lane AND seq = :seq

-- name: lower_places
-- And back.
UPDATE hooklane_lane_event SET seq = -seq WHERE lane_id = :lane AND seq < 0

-- name: restamp
-- An event says itself where it stands.
UPDATE hooklane_event SET stamps = :stamps WHERE n = :n

-- name: move_letters
-- A dead head that moves is tried again, in its new place.
UPDATE hooklane_dead_letter SET seq = :to_seq, state = CASE state WHEN 'open' THEN 'replayed' ELSE state END
WHERE lane_id = :lane AND seq = :seq

-- name: move_attempts
-- Its attempts move with it.
UPDATE hooklane_attempt SET seq = :to_seq WHERE lane_id = :lane AND seq = :seq

-- name: forget_head
-- What is known of a head that has moved is not true of what stands there now.
UPDATE hooklane_lane SET state = 'active', attempts = 0, next_at = 0, reason = NULL, starts = 0, rev = rev + 1
WHERE lane_id = :lane AND head = :first

-- name: add_lost_event
-- What tells of an event that is lost.
INSERT INTO hooklane_event (tenant, id, type, key, data, created_at, stamps)
VALUES (:tenant, :id, :type, :key, :data, :at, :stamps) RETURNING n

-- name: name_lost
-- Another event is known to have been lost in that place.
UPDATE hooklane_event SET data = :data WHERE tenant = :tenant AND id = :id

-- name: add_lost_place
-- It stands where the other stood.
INSERT INTO hooklane_lane_event (lane_id, seq, event_n, tenant) VALUES (:lane, :seq, :n, :tenant)

-- name: set_lost_tail
-- The lane is longer now.
UPDATE hooklane_lane_tail SET tail = :tail WHERE lane_id = :lane

-- name: add_reused_letter
-- What was delivered in a seq that receivers had seen before is no success: a letter tells of it.
INSERT INTO hooklane_dead_letter
    (id, tenant, endpoint_id, lane_id, seq, event_n, attempts, reason, died_at, note, state)
SELECT :id, :tenant, :endpoint, :lane, :seq, le.event_n, 1, :reason, :at, :note, 'skipped'
FROM hooklane_lane_event le WHERE le.lane_id = :lane AND le.seq = :seq
ON CONFLICT (id) DO UPDATE SET reason = excluded.reason, note = excluded.note, state = excluded.state

-- name: event_at
-- Which event stands in a place.
SELECT e.id, e.created_at FROM hooklane_lane_event le JOIN hooklane_event e ON e.n = le.event_n
WHERE le.lane_id = :lane AND le.seq = :seq
