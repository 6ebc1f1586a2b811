-- Who may call: API keys, sessions and portal links.

-- name: rewrite_file
-- What was overwritten or deleted stays in no page.
VACUUM

-- name: empty_log
-- Nor in the log.
PRAGMA wal_checkpoint(TRUNCATE)
