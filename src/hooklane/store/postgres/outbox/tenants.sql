-- Tenants on PostgreSQL. What each publish asks of them is in `publish.sql`.

-- name: tenants
-- A page of those that are not wholly deleted, in the order of the bytes.
SELECT doc FROM hooklane.tenant WHERE id COLLATE "C" > :after AND state <> 'deleted'
ORDER BY id COLLATE "C" LIMIT :limit::bigint

-- name: stored_bytes
-- The length of a body stands beside it: no body is read.
SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM hooklane.event WHERE tenant = :tenant
