-- Kinds of events.

-- name: enforced_types
-- What publishers check, of all tenants.
{event_type} WHERE enforce AND schema IS NOT NULL ORDER BY tenant, type
