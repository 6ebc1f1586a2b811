-- What an owner reads on SQLite: the lanes with work, what is new since a mark, and events that are due.

-- fragment: owned_lanes
SELECT t.lane_id, t.pid, t.endpoint_id, t.key, coalesce(l.head, 1) AS head, t.tail, coalesce(l.state, 'active'),
    coalesce(l.attempts, 0), coalesce(l.next_at, 0), coalesce(l.rev, 0), coalesce(l.acked, 0), coalesce(l.starts, 0)
FROM hooklane_lane_end t LEFT JOIN hooklane_lane l USING (lane_id)

-- fragment: owned_loose
SELECT -n, pid, endpoint_id, NULL, 1, 1, CASE state WHEN 'retrying' THEN 'retrying' ELSE 'active' END, attempts,
    next_at, rev, 0, starts
FROM hooklane_loose WHERE state IN ('queued', 'retrying')

-- fragment: owned_redeliveries
SELECT {redeliveries} - n, pid, endpoint_id, NULL, head, tail, state, attempts, next_at, 0, 0, starts
FROM hooklane_redelivery WHERE state IN ('active', 'retrying') AND head <= tail

-- name: store_now
-- The database's clock.
SELECT {now}

-- name: held_partitions
-- What a worker owns, and since which epoch.
SELECT pid, epoch FROM hooklane_part WHERE owner = ?

-- name: load_lanes
-- The lanes with work of some partitions.
SELECT * FROM ({owned_lanes} WHERE t.pid IN (SELECT value FROM json_each(?)) {looked_at_once}) WHERE head <= tail

-- name: load_loose
-- Their deliveries without order.
{owned_loose} AND pid IN (SELECT value FROM json_each(?))

-- name: load_redeliveries
-- Their redeliveries.
{owned_redeliveries} AND pid IN (SELECT value FROM json_each(?))

-- name: last_rows
-- How far each table has come: SQLite commits in order, so a number tells everything.
SELECT name, seq FROM sqlite_sequence

-- name: counters
-- How far endpoints and breakers have come.
SELECT name, value FROM hooklane_counter

-- name: grown
-- Lanes with new events, and new deliveries without order.
SELECT t.lane_id, t.pid, t.endpoint_id, t.key, max(e.seq)
FROM hooklane_lane_event e JOIN hooklane_lane_tail t USING (lane_id) WHERE e.n > :lane_event GROUP BY e.lane_id
UNION ALL SELECT -n, pid, endpoint_id, NULL, 1 FROM hooklane_loose WHERE n > :loose AND state IN ('queued', 'retrying')

-- name: grown_redeliveries
-- Redelivery lanes that were made or grew longer.
SELECT {redeliveries} - d.n, d.pid, d.endpoint_id, NULL, d.tail FROM hooklane_redelivery d
WHERE d.n IN (SELECT {redeliveries} - lane_id FROM hooklane_recovered WHERE n > :recovered AND lane_id < {redeliveries})
    AND d.state IN ('active', 'retrying') AND d.head <= d.tail

-- name: recovered
-- Lanes that a person recovered.
SELECT r.lane_id, coalesce(t.pid, l.pid) FROM hooklane_recovered r
LEFT JOIN hooklane_lane_tail t ON t.lane_id = r.lane_id LEFT JOIN hooklane_loose l ON l.n = -r.lane_id
WHERE r.n > :recovered

-- name: changed_endpoints
-- Endpoints that were written.
SELECT doc FROM hooklane_endpoint WHERE rev > :endpoint ORDER BY rev

-- name: turned_health
-- Breakers that turned.
{health} WHERE rev > :health

-- name: reload_lane
-- One lane as it is now.
{owned_lanes} WHERE t.lane_id = ?

-- name: reload_loose
-- One delivery without order, if it is still owed.
{owned_loose} AND n = ?

-- name: reload_redelivery
-- One redelivery lane, if it still has something to send.
{owned_redeliveries} AND n = ?

-- name: fetch_lane
-- The next events of a lane.
SELECT {event}, l.seq FROM hooklane_lane_event l JOIN hooklane_event e ON e.n = l.event_n
WHERE l.lane_id = ? AND l.seq >= ? ORDER BY l.seq LIMIT ?

-- name: fetch_loose
-- The event of a delivery without order.
SELECT {event} FROM hooklane_loose l JOIN hooklane_event e ON e.n = l.event_n WHERE l.n = ?
