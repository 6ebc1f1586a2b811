-- What SQLite runs when a process asks for what it had sent or published: after a backup was put in place some of it may be lost.

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

-- name: make_lost_lane
-- A lane whose very first event was lost.
INSERT INTO hooklane_lane_tail (tenant, endpoint_id, key, pid, tail) VALUES (:tenant, :endpoint, :key, :pid, 1)
ON CONFLICT DO NOTHING

-- name: hold_lost_lane
-- One writes at a time: nothing gets a seq there meanwhile.
SELECT lane_id, pid FROM hooklane_lane_tail WHERE endpoint_id = :endpoint AND key = :key

-- name: ends_of_lane
-- Where a lane stands.
SELECT coalesce(l.head, 1), t.tail FROM hooklane_lane_end t LEFT JOIN hooklane_lane l USING (lane_id) WHERE t.lane_id = :lane

-- name: lift_places
-- Places that move, turned over: no other is there.
UPDATE hooklane_lane_event SET seq = -:to_seq WHERE lane_id = :lane AND seq = :seq

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

-- name: add_lost_event
-- What tells of an event that is lost.
INSERT INTO hooklane_event (tenant, id, type, key, data, created_at, stamps)
VALUES (:tenant, :id, :type, :key, :data, :at, :stamps) RETURNING n

-- name: add_lost_place
-- It stands where the other stood.
INSERT INTO hooklane_lane_event (lane_id, seq, event_n, tenant) VALUES (:lane, :seq, :n, :tenant)

-- name: set_lost_tail
-- The lane is longer now.
UPDATE hooklane_lane_tail SET tail = :tail WHERE lane_id = :lane
