-- Who may call: API keys, sessions and portal links.

-- name: next_key_rev
-- Processes that remember the keys read them again.
UPDATE hooklane.counter SET value = value + :step::bigint WHERE name = 'api_key' RETURNING value

-- name: key_rev
-- Whether the keys are still those that a process remembers.
SELECT value FROM hooklane.counter WHERE name = 'api_key'

-- name: add_key
-- A new key.
INSERT INTO hooklane.api_key (id, name, digest, scopes, tenant, created_at, expires_at)
VALUES (:id, :name, :digest, :scopes, :tenant, :created_at, :expires_at)

-- name: api_keys
-- All keys: there are few, and each process that answers calls remembers them.
SELECT id, name, digest, scopes, tenant, created_at, expires_at, last_used_at FROM hooklane.api_key
ORDER BY created_at, id

-- name: remove_key
-- Revoked for good.
DELETE FROM hooklane.api_key WHERE id = :id RETURNING id

-- name: remove_sessions_of_key
-- A revoked key takes what was opened with it along.
DELETE FROM hooklane.session WHERE made_with = :id

-- name: note_keys_used
-- Now and then, for all keys that were used since.
UPDATE hooklane.api_key SET last_used_at = {greatest}(:at::bigint, coalesce(last_used_at, 0))
WHERE id = ANY(:ids::text[])

-- name: add_session
-- Someone logged in, or a portal link was made or opened.
INSERT INTO hooklane.session (id, kind, digest, made_with, name, scopes, tenant, created_at, expires_at)
VALUES (:id, :kind, :digest, :made_with, :name, :scopes, :tenant, :created_at, :expires_at)

-- name: remove_expired_sessions
-- With each new session some old ones go.
DELETE FROM hooklane.session WHERE id IN
    (SELECT id FROM hooklane.session WHERE expires_at <= :now::bigint ORDER BY expires_at LIMIT 100)

-- name: session
-- The one that a cookie or a link names.
SELECT id, kind, digest, made_with, name, scopes, tenant, created_at, expires_at FROM hooklane.session
WHERE digest = :digest

-- name: extend_session
-- Still in use.
UPDATE hooklane.session SET expires_at = {greatest}(expires_at, :until::bigint) WHERE id = :id

-- name: remove_session
-- Logged out.
DELETE FROM hooklane.session WHERE id = :id RETURNING id
