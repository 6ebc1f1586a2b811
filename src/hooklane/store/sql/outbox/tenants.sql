-- Tenants. What each publish asks of them is in the `publish.sql` of the back-end.

-- name: tenant
-- One tenant as a document.
SELECT doc FROM hooklane.tenant WHERE id = :id

-- name: tenants_since
-- What a process that remembers tenants has not seen yet.
SELECT doc FROM hooklane.tenant WHERE rev > :rev::bigint ORDER BY rev

-- name: endpoint_rev
-- Up to which revision a reader of this snapshot has seen everything: its lock is held until the commit.
SELECT value FROM hooklane.counter WHERE name = 'endpoint'

-- name: write_tenant
-- Create or replace; its endpoints are as they were.
INSERT INTO hooklane.tenant (id, state, doc, rev, endpoint_rev)
VALUES (:id, :state, :doc, :rev::bigint, :rev::bigint)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, doc = excluded.doc, rev = excluded.rev

-- name: emptied_tenants
-- Deleted tenants that have no endpoint left: nothing is owed to any.
SELECT doc FROM hooklane.tenant t WHERE state IN ('draining', 'cancelling')
AND NOT EXISTS (SELECT 1 FROM hooklane.endpoint e WHERE e.tenant = t.id)

-- name: greet
-- This server takes publishes.
INSERT INTO hooklane.server (id, until) VALUES (:id, {now} + :until_ms::bigint)
ON CONFLICT (id) DO UPDATE SET until = excluded.until

-- name: forget_servers
-- Those that were not heard of for long.
DELETE FROM hooklane.server WHERE until < {now} - 3600000

-- name: count_servers
-- How many take publishes now.
SELECT count(*) FROM hooklane.server WHERE until > {now}
