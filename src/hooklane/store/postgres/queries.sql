-- What is asked of a PostgreSQL server, whatever is kept in it.

-- name: server
-- Whether this server will do, and whether a pooler stands between: that answers with a process number of its own.
SELECT pg_backend_pid(), current_setting('server_version_num')::int, pg_is_in_recovery(),
    current_setting('server_encoding')

-- name: encodings
-- In which encoding texts are kept, and in which this connection speaks.
SELECT current_setting('server_encoding'), current_setting('client_encoding')

-- name: run
-- A crash of one process restarts the others within the same postmaster, and discards the statistics.
SELECT (SELECT system_identifier FROM pg_control_system()), pg_postmaster_start_time(),
    (SELECT stats_reset FROM pg_stat_bgwriter)

-- name: waiting_commits
-- Commits of ours that wait for the synchronous standby: each holds a connection.
SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND wait_event = 'SyncRep'

-- name: wait_for_standby
-- The commit of this transaction will wait for what it has seen. It leaves no row behind and locks none: a row that all
-- lock would make one commit wait for the other's standby. The setting is read each time: a reload changes it.
SELECT pg_logical_emit_message(true, 'hooklane', '') IS NULL WHERE current_setting('synchronous_standby_names') <> ''

-- name: is_alive
-- A connection that lay idle may have been closed by the other side.
SELECT 1

-- name: schema_table
-- Whether this database has tables of ours. Needs no rights on an empty one.
SELECT to_regclass('hooklane.schema')::text

-- name: schema_version
-- How far the migrations of a component have come.
SELECT version FROM hooklane.schema WHERE component = :component

-- name: schema_lock
-- One process migrates at a time. The number reads "hooklane".
SELECT pg_advisory_xact_lock(x'686F6F6B6C616E65'::bigint)

-- name: take_time
-- What is done once takes as long as the tables are large: no limit of the role or the server ends it half-way, today
-- and at each next try. Some versions do not know all of these. They hold again after this transaction.
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')

-- name: create_schema
-- Where all our tables are.
CREATE SCHEMA IF NOT EXISTS hooklane

-- name: create_schema_table
-- Which migrations were applied.
CREATE TABLE IF NOT EXISTS hooklane.schema (component text PRIMARY KEY, version integer NOT NULL)

-- name: set_schema_version
-- In the transaction of the migration itself.
INSERT INTO hooklane.schema (component, version) VALUES (:component, :version)
ON CONFLICT (component) DO UPDATE SET version = excluded.version

-- name: examine
-- What an operator should know of this server: its clock, whether it follows another one, and what a commit waits for.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8, pg_is_in_recovery(),
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_replication)
