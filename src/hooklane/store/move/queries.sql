-- name: tables_here
-- Our tables in the SQLite file.
SELECT substr(name, 10) FROM sqlite_master WHERE type = 'table' AND name LIKE 'hooklane^_%' ESCAPE '^' ORDER BY name

-- name: columns_there
-- Our tables in PostgreSQL with their columns, and whether a column is numbered by the database.
SELECT c.table_name, c.column_name, c.data_type, c.is_identity = 'YES'
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'hooklane' AND t.table_type = 'BASE TABLE' ORDER BY c.table_name, c.ordinal_position

-- name: keep_others_out
-- Until the copy is whole nobody writes there: not another copy, and not a program that publishes there too early.
LOCK TABLE hooklane.event, hooklane.endpoint, hooklane.lane_name, hooklane.audit IN SHARE ROW EXCLUSIVE MODE

-- name: is_used
-- Whether something is in the PostgreSQL that a copy would mix with.
SELECT EXISTS (SELECT 1 FROM hooklane.event) OR EXISTS (SELECT 1 FROM hooklane.endpoint)
    OR EXISTS (SELECT 1 FROM hooklane.lane_name) OR EXISTS (SELECT 1 FROM hooklane.audit)

-- name: rows
-- All of a table in the file.
SELECT {columns} FROM {source}

-- name: lane_event
-- PostgreSQL keeps the partition with each event of a lane; a lane's own row knows it.
SELECT e.lane_id, e.seq, e.event_n, t.pid, e.tenant FROM hooklane_lane_event e JOIN hooklane_lane_tail t USING (lane_id)

-- name: lane_name
-- A lane with the seq that it has reached: its next event follows that one, also where the last ones are pruned.
SELECT lane_id, tenant, endpoint_id, key, pid, tail AS tail_min FROM hooklane_lane_tail

-- name: loose
-- Deliveries without order that are not done. PostgreSQL keeps only the number of those that are.
SELECT {columns} FROM {source} WHERE state <> 'delivered'

-- name: loose_delivered
-- How many are done, by endpoint.
SELECT tenant, endpoint_id, count(*) FROM hooklane_loose WHERE state = 'delivered' GROUP BY tenant, endpoint_id

-- name: breaker_turn
-- Breakers begin anew there, with turn 1: what they did before stands behind it.
SELECT endpoint_id, turn - max(turn) OVER (PARTITION BY endpoint_id) AS turn, tenant, state, until, at, by
FROM hooklane_breaker_turn

-- name: clear
-- What a new schema brings with it gives way to what the file has.
DELETE FROM hooklane.{table}

-- name: count_here
-- How many rows a table of the file has.
SELECT count(*) FROM hooklane_{source}

-- name: count_there
-- How many have arrived.
SELECT count(*) FROM hooklane.{table}

-- name: count_loose_there
-- How many deliveries without order have arrived, as rows and as numbers.
SELECT (SELECT count(*) FROM hooklane.loose) + (SELECT coalesce(sum(many), 0)::bigint FROM hooklane.loose_delivered)

-- name: last_number_here
-- The largest number that the file ever gave to a row of a table, also where that row is pruned.
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'hooklane_{source}'

-- name: last_inbox_row_here
-- The same for the rows of an inbox, which SQLite does not count: the largest that was pruned.
SELECT coalesce(max(row_id), 0) FROM hooklane_inbox_last

-- name: go_on_numbering
-- The next number follows the largest that was ever given: names, letters and counters still mean rows that are pruned.
SELECT setval(pg_get_serial_sequence('hooklane.{table}', '{column}'), greatest(max({column}), $1::bigint) + 1, false)
FROM hooklane.{table}

-- name: go_on_numbering_by
-- The same for a sequence of its own.
SELECT setval('hooklane.{sequence}', greatest(max(n), $1::bigint) + 1, false) FROM hooklane.{table}
