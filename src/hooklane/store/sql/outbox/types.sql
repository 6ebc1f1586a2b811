-- Kinds of events.

-- fragment: event_type
SELECT tenant, type, created_at, changed_at, description, schema, enforce FROM hooklane.type

-- name: next_type_rev
-- Processes that take publishes read what is enforced again.
UPDATE hooklane.counter SET value = value + :step::bigint WHERE name = 'type' RETURNING value

-- name: type_rev
-- Whether what is enforced is still what a process remembers.
SELECT value FROM hooklane.counter WHERE name = 'type'

-- name: save_type
-- Create or replace; a type stays as old as it is.
INSERT INTO hooklane.type (tenant, type, created_at, changed_at, description, schema, enforce)
VALUES (:tenant, :type, :created_at, :changed_at, :description, :schema, :enforce)
ON CONFLICT (tenant, type) DO UPDATE SET changed_at = excluded.changed_at, description = excluded.description,
    schema = excluded.schema, enforce = excluded.enforce

-- name: remove_type
-- Events of it stay.
DELETE FROM hooklane.type WHERE tenant = :tenant AND type = :type RETURNING type

-- name: event_types
-- Those of a tenant.
{event_type} WHERE tenant = :tenant ORDER BY type

-- name: event_type
-- One of them.
{event_type} WHERE tenant = :tenant AND type = :type
