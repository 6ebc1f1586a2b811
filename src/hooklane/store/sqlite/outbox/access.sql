-- Who may call: API keys, sessions and portal links.

-- name: next_key_rev
-- Processes that remember the keys read them again.
UPDATE hooklane_counter SET value = value + :step WHERE name = 'api_key' RETURNING value

-- name: key_rev
-- Whether the keys are still those that a process remembers.
SELECT value FROM hooklane_counter WHERE name = 'api_key'

-- name: add_key
-- A new key.
INSERT INTO hooklane_api_key (id, name, digest, scopes, tenant, created_at, expires_at)
VALUES (:id, :name, :digest, :scopes, :tenant, :created_at, :expires_at)

-- name: api_keys
-- All keys: there are few, and each process that answers calls remembers them.
SELECT id, name, digest, scopes, tenant, created_at, expires_at, last_used_at FROM hooklane_api_key
ORDER BY created_at, id

-- name: remove_key
-- Revoked for good.
DELETE FROM hooklane_api_key WHERE id = :id RETURNING id

-- name: remove_sessions_of_key
-- A revoked key takes what was opened with it along.
DELETE FROM hooklane_session WHERE made_with = :id

-- name: note_keys_used
-- Now and then, for all keys that were used since.
UPDATE hooklane_api_key SET last_used_at = max(:at, coalesce(last_used_at, 0))
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: add_session
-- Someone logged in, or a portal link was made or opened.
INSERT INTO hooklane_session (id, kind, digest, made_with, name, scopes, tenant, created_at, expires_at)
VALUES (:id, :kind, :digest, :made_with, :name, :scopes, :tenant, :created_at, :expires_at)

-- name: remove_expired_sessions
-- With each new session some old ones go.
DELETE FROM hooklane_session WHERE id IN
    (SELECT id FROM hooklane_session WHERE expires_at <= :now ORDER BY expires_at LIMIT 100)

-- name: session
-- The one that a cookie or a link names.
SELECT id, kind, digest, made_with, name, scopes, tenant, created_at, expires_at FROM hooklane_session
WHERE digest = :digest

-- name: extend_session
-- Still in use.
UPDATE hooklane_session SET expires_at = max(expires_at, :until) WHERE id = :id

-- name: remove_session
-- Logged out.
DELETE FROM hooklane_session WHERE id = :id RETURNING id

-- name: rewrite_file
-- What was overwritten or deleted stays in no page.
VACUUM

-- name: empty_log
-- Nor in the log.
PRAGMA wal_checkpoint(TRUNCATE)
