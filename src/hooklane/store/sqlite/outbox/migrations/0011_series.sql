-- What the dashboard shows beside the lanes: figures over time, the turns of breakers, and whose a dead letter is.

-- A ring of figures: each process keeps its own row of a slot (`step_s` long, from `at` on) and overwrites it while the
-- slot lasts; readers add the processes up. `by` is an endpoint, or '' for all of the tenant.
CREATE TABLE hooklane_series (
    tenant TEXT NOT NULL,
    step_s INTEGER NOT NULL,
    by TEXT NOT NULL,
    at INTEGER NOT NULL,
    process TEXT NOT NULL,
    doc BLOB NOT NULL,      -- JSON
    PRIMARY KEY (tenant, step_s, by, at, process)
) STRICT, WITHOUT ROWID;
CREATE INDEX hooklane_series_for_pruning ON hooklane_series (step_s, at);

CREATE TABLE hooklane_breaker_turn (
    endpoint_id TEXT NOT NULL REFERENCES hooklane_endpoint (id) ON DELETE CASCADE,
    turn INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL,
    until INTEGER NOT NULL,
    at INTEGER NOT NULL,
    by TEXT NOT NULL,
    PRIMARY KEY (endpoint_id, turn)
) STRICT, WITHOUT ROWID;

ALTER TABLE hooklane_dead_letter ADD COLUMN assignee TEXT NOT NULL DEFAULT '';
