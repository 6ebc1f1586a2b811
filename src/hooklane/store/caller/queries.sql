-- What is asked of a caller's own connection.

-- name: nothing
-- A session of SQLAlchemy takes its connection from the pool when it is first used.
SELECT 1

-- name: identify_postgres
-- Never fails in a caller's transaction for want of a right: all three are open to every role by default.
SELECT current_database()::text, (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
    (SELECT system_identifier FROM pg_control_system())
