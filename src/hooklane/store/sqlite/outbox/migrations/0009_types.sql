-- Kinds of events: described for people, and checked at a publish where that is wished.
CREATE TABLE hooklane_type (
    tenant TEXT NOT NULL,
    type TEXT NOT NULL,
    description TEXT NOT NULL,
    schema BLOB,                -- JSON Schema 2020-12
    enforce INTEGER NOT NULL CHECK (enforce IN (0, 1)),
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, type)
) STRICT, WITHOUT ROWID;
INSERT INTO hooklane_counter (name, value) VALUES ('type', 0);
