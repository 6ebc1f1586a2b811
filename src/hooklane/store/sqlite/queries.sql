-- What is asked of a SQLite file, whatever is kept in it.

-- name: schema_table
-- Whether this file has tables of ours.
SELECT 1 FROM sqlite_master WHERE name = 'hooklane_schema'

-- name: tables_of_others
-- Tables that neither we nor SQLite itself have made: whoever keeps an outbox or an inbox beside them needs them.
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'hooklane^_%' ESCAPE '^'
    AND name NOT LIKE 'sqlite^_%' ESCAPE '^' ORDER BY name

-- name: schema_version
-- How far the migrations of a component have come.
SELECT version FROM hooklane_schema WHERE component = :component

-- name: create_schema_table
-- Which migrations were applied.
CREATE TABLE IF NOT EXISTS hooklane_schema (component TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT

-- name: set_schema_version
-- In the transaction of the migration itself.
INSERT INTO hooklane_schema VALUES (:component, :version)
ON CONFLICT (component) DO UPDATE SET version = excluded.version
