-- Tenants are rows: one that was never created is refused. `default` always is.
CREATE TABLE IF NOT EXISTS hooklane_tenant (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'draining', 'cancelling', 'deleted')),
    doc BLOB NOT NULL,              -- the tenant as JSON
    rev INTEGER NOT NULL,           -- from the endpoints' counter, for those who poll
    endpoint_rev INTEGER NOT NULL   -- of its endpoint that changed last: a publisher reads no other tenant's
) STRICT;
CREATE INDEX IF NOT EXISTS hooklane_tenant_for_poll ON hooklane_tenant (rev);

-- Those whose data is here already. Event by event would take long: one look for each tenant.
INSERT OR IGNORE INTO hooklane_tenant (id, state, doc, rev, endpoint_rev)
WITH RECURSIVE used (id) AS (
    SELECT min(tenant) FROM hooklane_event
    UNION ALL SELECT (SELECT min(tenant) FROM hooklane_event WHERE tenant > used.id) FROM used WHERE used.id IS NOT NULL)
SELECT id, 'active', CAST(json_object('id', id, 'created_at', 0) AS BLOB), 0,
    coalesce((SELECT max(rev) FROM hooklane_endpoint WHERE tenant = id), 0)
FROM (SELECT 'default' AS id UNION SELECT id FROM used WHERE id IS NOT NULL UNION SELECT tenant FROM hooklane_endpoint)
WHERE true;

CREATE INDEX IF NOT EXISTS hooklane_endpoint_of_tenant ON hooklane_endpoint (tenant);
-- A process of an older hooklane that changes an endpoint tells the publishers of this one by the same rows.
CREATE TRIGGER IF NOT EXISTS hooklane_endpoint_created AFTER INSERT ON hooklane_endpoint
BEGIN UPDATE hooklane_tenant SET endpoint_rev = NEW.rev WHERE id = NEW.tenant; END;
CREATE TRIGGER IF NOT EXISTS hooklane_endpoint_changed AFTER UPDATE ON hooklane_endpoint
BEGIN UPDATE hooklane_tenant SET endpoint_rev = NEW.rev WHERE id = NEW.tenant; END;

-- Which servers take publishes: a limit for all of them together is shared out by their count.
CREATE TABLE IF NOT EXISTS hooklane_server (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL DEFAULT 'default',
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
