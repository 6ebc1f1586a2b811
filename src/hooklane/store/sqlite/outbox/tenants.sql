-- Tenants on SQLite. What each publish asks of them is in `publish.sql`.

-- name: tenant
-- One tenant as a document.
SELECT doc FROM hooklane_tenant WHERE id = :id

-- name: tenants
-- A page of those that are not wholly deleted.
SELECT doc FROM hooklane_tenant WHERE id > :after AND state <> 'deleted' ORDER BY id LIMIT :limit

-- name: tenants_since
-- What a process that remembers tenants has not seen yet.
SELECT doc FROM hooklane_tenant WHERE rev > :rev ORDER BY rev

-- name: endpoint_rev
-- Up to which revision a reader of this snapshot has seen everything.
SELECT value FROM hooklane_counter WHERE name = 'endpoint'

-- name: write_tenant
-- Create or replace; its endpoints are as they were.
INSERT INTO hooklane_tenant (id, state, doc, rev, endpoint_rev) VALUES (:id, :state, :doc, :rev, :rev)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, doc = excluded.doc, rev = excluded.rev

-- name: emptied_tenants
-- Deleted tenants that have no endpoint left: nothing is owed to any.
SELECT doc FROM hooklane_tenant t WHERE state IN ('draining', 'cancelling')
AND NOT EXISTS (SELECT 1 FROM hooklane_endpoint e WHERE e.tenant = t.id)

-- name: stored_bytes
-- The length of a body is in its row's header: no body is read.
SELECT coalesce(sum(length(data)), 0) FROM hooklane_event WHERE tenant = :tenant

-- name: greet
-- This server takes publishes.
INSERT INTO hooklane_server (id, until) VALUES (:id, {now} + :until_ms)
ON CONFLICT (id) DO UPDATE SET until = excluded.until

-- name: forget_servers
-- Those that were not heard of for long.
DELETE FROM hooklane_server WHERE until < {now} - 3600000

-- name: count_servers
-- How many take publishes now.
SELECT count(*) FROM hooklane_server WHERE until > {now}
