-- What an owner reads on PostgreSQL: the lanes with work, what is new since a mark, and events that are due.

-- fragment: starts
CASE WHEN a.head > coalesce(l.head, 1) THEN 0 ELSE coalesce(l.starts, 0) END AS starts

-- fragment: owned_loose
SELECT -n, pid, endpoint_id, NULL::text, 1::bigint, 1::bigint,
    CASE state WHEN 'retrying' THEN 'retrying' ELSE 'active' END, attempts, next_at, rev, 0::bigint, starts
FROM hooklane.loose WHERE state IN ('queued', 'retrying')

-- fragment: is_open_redelivery
state IN ('active', 'retrying') AND head <= tail

-- fragment: owned_redeliveries
SELECT {redeliveries} - n, pid, endpoint_id, NULL::text, head, tail, state, attempts, next_at, 0::bigint, 0::bigint,
    starts
FROM hooklane.redelivery WHERE {is_open_redelivery}

-- The timeline of the last checkpoint would lag behind a promotion; that of the next record does not. Both the start of
-- a session and a session by its number are open to its own role.
-- fragment: session
(SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()),
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), s.pid, (extract(epoch FROM s.backend_start) * 1000000)::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM pg_stat_get_activity(pg_backend_pid()) s)

-- A number that was given to another session has another start.
-- fragment: session_lives
EXISTS (SELECT 1 FROM pg_stat_get_activity(:session_pid::integer) s
    WHERE s.pid || ' ' || (extract(epoch FROM s.backend_start) * 1000000)::bigint = :session::text)

-- fragment: since_mark
(xid >= :xmax::text::xid8 OR xid = ANY(:xip::text[]::xid8[]))

-- name: snapshot
-- What a load has seen, and on which session: the mark from which polls go on.
SELECT pg_current_snapshot()::text, hooklane.now_ms(), (SELECT value FROM hooklane.counter WHERE name = 'endpoint'),
    {session}

-- name: held_partitions
-- What a worker owns, and since which epoch.
SELECT pid, epoch FROM hooklane.part WHERE owner = :worker

-- name: load_lanes
-- The lanes with work of some partitions.
SELECT {lane_columns}, {starts} {lanes} WHERE pid = ANY(:pids::integer[]) {and_acks}
WHERE t.pid = ANY(:pids::integer[]) AND t.tail >= greatest(l.head, a.head, 1)

-- name: load_loose
-- Their deliveries without order.
{owned_loose} AND pid = ANY(:pids::integer[])

-- name: load_redeliveries
-- Their redeliveries.
{owned_redeliveries} AND pid = ANY(:pids::integer[])

-- One statement, hence one snapshot, whose own description comes along: what it did not see is what the next asks for.
-- A position (a sequence, a time) would miss a transaction that commits late. The session comes along as well: on
-- another one the mark may mean nothing. What was told already is read once and looked up: with `<> ALL` the whole list
-- would be read anew for each row. Of deliveries without order `OFFSET 0` and the upper bound (there is no greater xid) say that few are
-- new: a plan for any mark and any partitions would rather read all that are owed, at each poll.
-- fragment: news
WITH fresh AS (
    SELECT lane_id, seq FROM hooklane.lane_event
    WHERE xid >= :xmax::text::xid8 AND xid NOT IN (SELECT unnest(:told::text::xid8[])) AND pid = ANY(:pids::integer[])
    UNION ALL
    SELECT lane_id, seq FROM hooklane.lane_event
    WHERE xid = ANY(:xip::text[]::xid8[]) AND pid = ANY(:pids::integer[])
), fresh_loose AS (
    SELECT * FROM (
        SELECT n, pid, endpoint_id, state FROM hooklane.loose
        WHERE xid >= :xmax::text::xid8 AND xid <= '18446744073709551615' OFFSET 0
    ) newer
    UNION ALL
    SELECT l.* FROM unnest(:xip::text[]::xid8[]) AS x (xid) CROSS JOIN LATERAL (
        SELECT n, pid, endpoint_id, state FROM hooklane.loose WHERE loose.xid = x.xid OFFSET 0
    ) l
)
SELECT 'mark' AS kind, hooklane.now_ms() AS lane_id, 0 AS pid, pg_current_snapshot()::text AS endpoint_id,
    {session} AS key, (SELECT value FROM hooklane.counter WHERE name = 'endpoint') AS seq, NULL::bytea AS doc
UNION ALL
SELECT 'lives', 0, 0, NULL, NULL, 0, NULL WHERE {session_lives}
UNION ALL
SELECT 'grown', t.lane_id, t.pid, t.endpoint_id, t.key, f.seq, NULL
FROM (SELECT lane_id, max(seq) AS seq FROM fresh GROUP BY lane_id) f JOIN hooklane.lane_tail t USING (lane_id)
UNION ALL
SELECT 'grown', -n, pid, endpoint_id, NULL, 1, NULL FROM fresh_loose
WHERE pid = ANY(:pids::integer[]) AND state IN ('queued', 'retrying')
UNION ALL
SELECT 'recovered', lane_id, pid, NULL, NULL, 0, NULL FROM hooklane.recovered
WHERE {since_mark} AND pid = ANY(:pids::integer[]) AND lane_id > {redeliveries}
UNION ALL
SELECT 'grown', {redeliveries} - d.n, d.pid, d.endpoint_id, NULL, d.tail, NULL FROM hooklane.redelivery d
WHERE d.n IN (
    SELECT {redeliveries} - lane_id FROM hooklane.recovered
    WHERE {since_mark} AND pid = ANY(:pids::integer[]) AND lane_id < {redeliveries}
) AND {is_open_redelivery}
UNION ALL
SELECT 'endpoint', 0, 0, NULL, NULL, rev, doc FROM hooklane.endpoint WHERE rev > :rev::bigint
UNION ALL
SELECT 'health', until, probes, endpoint_id, state, turn, convert_to(by, 'UTF8') FROM hooklane.health
WHERE {since_mark}

-- name: poll
-- What is found is sent, so the synchronous standby must have it (`postgres/commits.py`): the commit of a poll that
-- finds something waits for what it has seen. A poll that finds nothing writes nothing.
WITH seen AS MATERIALIZED ({news})
SELECT * FROM seen UNION ALL
SELECT * FROM (SELECT * FROM seen LIMIT 1) one
WHERE CASE WHEN current_setting('synchronous_standby_names') <> ''
        AND EXISTS (SELECT 1 FROM seen WHERE kind IN ('grown', 'recovered', 'endpoint', 'health'))
    THEN set_config('synchronous_commit', 'on', true) IS NULL OR pg_logical_emit_message(true, 'hooklane', '') IS NULL
    ELSE false END

-- name: reload_lanes
-- Lanes as they are now.
SELECT {lane_columns}, {starts} {lanes} WHERE lane_id = ANY(:lanes::bigint[]) {and_acks}
WHERE t.lane_id = ANY(:lanes::bigint[])

-- name: reload_loose
-- Deliveries without order that are still owed.
{owned_loose} AND n = ANY(:loose::bigint[])

-- name: reload_redeliveries
-- Redelivery lanes that still have something to send.
{owned_redeliveries} AND n = ANY(:ns::bigint[])

-- name: fetch_lanes
-- Lane by lane through the index: never a scan of the log, which a parked endpoint makes long.
SELECT w.lane_id, f.seq, {event}
FROM unnest(:lanes::bigint[], :seqs::bigint[], :many::bigint[]) AS w (lane_id, seq, many)
CROSS JOIN LATERAL (
    SELECT le.seq, le.event_n FROM hooklane.lane_event le
    WHERE le.lane_id = w.lane_id AND le.seq >= w.seq ORDER BY le.seq LIMIT w.many
) f JOIN hooklane.event e ON e.n = f.event_n

-- name: fetch_loose
-- The events of deliveries without order.
SELECT -l.n, 1::bigint, {event} FROM hooklane.loose l JOIN hooklane.event e ON e.n = l.event_n
WHERE l.n = ANY(:loose::bigint[])
