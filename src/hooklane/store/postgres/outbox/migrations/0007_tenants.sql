-- Tenants are rows: one that was never created is refused. `default` always is.
CREATE TABLE IF NOT EXISTS hooklane.tenant (
    id text PRIMARY KEY,
    state text NOT NULL CHECK (state IN ('active', 'suspended', 'draining', 'cancelling', 'deleted')),
    doc bytea NOT NULL,             -- the tenant as JSON
    rev bigint NOT NULL,            -- from the endpoints' counter, for those who poll
    endpoint_rev bigint NOT NULL    -- of its endpoint that changed last: a publisher reads no other tenant's
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS tenant_for_poll ON hooklane.tenant (rev);

-- Those whose data is here already. Event by event would take long: one look for each tenant.
INSERT INTO hooklane.tenant (id, state, doc, rev, endpoint_rev)
WITH RECURSIVE used (id) AS (
    SELECT min(tenant) FROM hooklane.event
    UNION ALL SELECT (SELECT min(e.tenant) FROM hooklane.event e WHERE e.tenant > used.id) FROM used
    WHERE used.id IS NOT NULL)
SELECT id, 'active', convert_to(json_build_object('id', id, 'created_at', 0)::text, 'UTF8'), 0,
    coalesce((SELECT max(p.rev) FROM hooklane.endpoint p WHERE p.tenant = id), 0)
FROM (SELECT 'default' AS id UNION SELECT id FROM used WHERE id IS NOT NULL UNION SELECT tenant FROM hooklane.endpoint) known
ON CONFLICT DO NOTHING;

CREATE INDEX IF NOT EXISTS endpoint_of_tenant ON hooklane.endpoint (tenant);
-- A process of an older hooklane that changes an endpoint tells the publishers of this one by the same rows.
CREATE OR REPLACE FUNCTION hooklane.endpoint_moves_tenant() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE hooklane.tenant SET endpoint_rev = NEW.rev WHERE id = NEW.tenant;
    RETURN NULL;
END
$$;
DROP TRIGGER IF EXISTS endpoint_moves_tenant ON hooklane.endpoint;
CREATE TRIGGER endpoint_moves_tenant AFTER INSERT OR UPDATE ON hooklane.endpoint
    FOR EACH ROW EXECUTE FUNCTION hooklane.endpoint_moves_tenant();

-- Which servers take publishes: a limit for all of them together is shared out by their count.
CREATE TABLE IF NOT EXISTS hooklane.server (
    id text PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    until bigint NOT NULL
) WITH (fillfactor = 50);
