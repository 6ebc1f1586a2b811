-- What PostgreSQL runs when a process asks for what it had sent or published: after a failover some of it may be lost.

-- name: unheld_places
-- The lanes in which one of these events does not stand where it stood, unless that is on record already.
SELECT DISTINCT w.endpoint_id, w.key
FROM unnest(:endpoint_id::text[], :key::text[], :seq::bigint[], :event_id::text[], :lost_id::text[], :named::text[],
    :tenant::text[], :pid::integer[]) AS w (endpoint_id, key, seq, event_id, lost_id, named, tenant, pid)
WHERE NOT EXISTS (
    SELECT 1 FROM hooklane.lane_name n JOIN hooklane.lane_event le ON le.lane_id = n.lane_id AND le.seq = w.seq
    JOIN hooklane.event e ON e.n = le.event_n
    WHERE n.endpoint_id = w.endpoint_id AND n.key = w.key AND (e.id = w.event_id
        OR (e.id = w.lost_id AND position(w.named IN convert_from(e.data, 'UTF8')) > 0)))

-- name: unheld_events
-- Those of these events that are not there, and not on record as lost.
SELECT w.endpoint_id, w.event_id
FROM unnest(:tenant::text[], :endpoint_id::text[], :event_id::text[], :lost_id::text[], :key::text[], :pid::integer[],
    :seq::bigint[], :named::text[]) AS w (tenant, endpoint_id, event_id, lost_id, key, pid, seq, named)
WHERE NOT EXISTS (SELECT 1 FROM hooklane.event e WHERE e.tenant = w.tenant AND e.id IN (w.event_id, w.lost_id))

-- name: make_lost_lane
-- A lane whose very first event was lost.
INSERT INTO hooklane.lane_name (tenant, endpoint_id, key, pid) VALUES (:tenant, :endpoint, :key, :pid)
ON CONFLICT DO NOTHING

-- name: hold_lost_lane
-- Held as a publish holds it: nothing gets a seq there meanwhile.
SELECT lane_id, pid FROM hooklane.lane_name WHERE endpoint_id = :endpoint AND key = :key FOR NO KEY UPDATE

-- name: ends_of_lane
-- Read after the fence: no ack comes after it.
SELECT head, tail FROM (SELECT {lane_columns} {lanes} WHERE lane_id = :lane {and_acks} WHERE t.lane_id = :lane) r

-- name: lift_places
-- Places that move, turned over: no other is there.
UPDATE hooklane.lane_event e SET seq = -w.to_seq FROM unnest(:seq::bigint[], :to_seq::bigint[]) AS w (seq, to_seq)
WHERE e.lane_id = :lane AND e.seq = w.seq

-- name: restamp
-- An event says itself where it stands.
UPDATE hooklane.event e SET stamps = w.stamps FROM unnest(:n::bigint[], :stamps::bytea[]) AS w (n, stamps)
WHERE e.n = w.n

-- name: move_letters
-- A dead head that moves is tried again, in its new place.
UPDATE hooklane.dead_letter d SET seq = w.to_seq, state = CASE d.state WHEN 'open' THEN 'replayed' ELSE d.state END
FROM unnest(:seq::bigint[], :to_seq::bigint[]) AS w (seq, to_seq) WHERE d.lane_id = :lane AND d.seq = w.seq

-- name: move_attempts
-- Its attempts move with it.
UPDATE hooklane.attempt a SET seq = w.to_seq FROM unnest(:seq::bigint[], :to_seq::bigint[]) AS w (seq, to_seq)
WHERE a.lane_id = :lane AND a.seq = w.seq

-- name: add_lost_event
-- What tells of an event that is lost.
INSERT INTO hooklane.event (n, tenant, id, type, key, data, created_at, stamps)
VALUES (nextval('hooklane.event_n'), :tenant, :id, :type, :key, :data, :at, :stamps) RETURNING n

-- name: add_lost_place
-- It stands where the other stood.
INSERT INTO hooklane.lane_event (lane_id, seq, event_n, pid, tenant) VALUES (:lane, :seq, :n, :pid, :tenant)

-- name: set_lost_tail
-- Nothing to do here: a lane ends where its last event is.
