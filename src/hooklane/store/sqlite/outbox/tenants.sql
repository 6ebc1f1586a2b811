-- Tenants on SQLite. What each publish asks of them is in `publish.sql`.

-- name: tenants
-- A page of those that are not wholly deleted.
SELECT doc FROM hooklane_tenant WHERE id > :after AND state <> 'deleted' ORDER BY id LIMIT :limit

-- name: stored_bytes
-- The length of a body is in its row's header: no body is read.
SELECT coalesce(sum(length(data)), 0) FROM hooklane_event WHERE tenant = :tenant
