-- Kinds of events: described for people, and checked at a publish where that is wished.
CREATE TABLE hooklane.type (
    tenant text NOT NULL,
    type text NOT NULL,
    description text NOT NULL,
    schema bytea,               -- JSON Schema 2020-12
    enforce boolean NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    PRIMARY KEY (tenant, type)
);
INSERT INTO hooklane.counter (name, value) VALUES ('type', 0);
