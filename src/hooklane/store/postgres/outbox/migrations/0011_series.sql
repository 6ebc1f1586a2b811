-- What the dashboard shows beside the lanes: figures over time, the turns of breakers, and whose a dead letter is.

-- A ring of figures: each process keeps its own row of a slot (`step_s` long, from `at` on) and overwrites it while the
-- slot lasts; readers add the processes up. `by` is an endpoint, or '' for all of the tenant.
CREATE TABLE hooklane.series (
    tenant text NOT NULL,
    step_s integer NOT NULL,
    by text NOT NULL,
    at bigint NOT NULL,
    process text NOT NULL,
    doc bytea NOT NULL,         -- JSON
    PRIMARY KEY (tenant, step_s, by, at, process)
) WITH (fillfactor = 70);
CREATE INDEX series_for_pruning ON hooklane.series (step_s, at);

CREATE TABLE hooklane.breaker_turn (
    endpoint_id text NOT NULL REFERENCES hooklane.endpoint (id) ON DELETE CASCADE,
    turn bigint NOT NULL,
    tenant text NOT NULL,
    state text NOT NULL,
    until bigint NOT NULL,
    at bigint NOT NULL,
    by text NOT NULL,
    PRIMARY KEY (endpoint_id, turn)
);

ALTER TABLE hooklane.dead_letter ADD COLUMN assignee text NOT NULL DEFAULT '';
