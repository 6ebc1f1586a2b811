-- What is asked of a caller's own connection.

-- name: nothing
-- A session of SQLAlchemy takes its connection from the pool when it is first used.
SELECT 1

-- name: identify_postgres
-- Never fails in a caller's transaction for want of a right: all three are open to every role by default.
SELECT current_database()::text, (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
    (SELECT system_identifier FROM pg_control_system())

-- fragment: unreadable
(({refusal} || left(random()::text, 0))::integer)

-- name: refuse_commit
-- A COMMIT has to compute the rows of such a cursor, and these cannot be. random() keeps the planner from computing
-- them at once; no character of it is shown.
DECLARE {guard} NO SCROLL CURSOR WITH HOLD FOR SELECT {unreadable}

-- name: refuse_commit_and_end
-- asyncpg is in autocommit outside of a transaction, and would keep what a handler writes when it has caught the error:
-- so its session is ended as well, right after the error was told.
DECLARE {guard} NO SCROLL CURSOR WITH HOLD FOR
SELECT CASE WHEN pg_terminate_backend(pg_backend_pid()) THEN {unreadable} END

-- name: let_commit
-- Nothing is computed when the cursor is closed first, and the transaction can be committed.
CLOSE {guard}
