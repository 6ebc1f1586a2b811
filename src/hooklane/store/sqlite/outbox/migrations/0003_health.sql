-- How the endpoints do: the last turn of each breaker, for every worker and for people.
CREATE TABLE hooklane_health (
    endpoint_id TEXT PRIMARY KEY REFERENCES hooklane_endpoint (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    turn INTEGER NOT NULL CHECK (turn > 0),
    state TEXT NOT NULL CHECK (state IN ('closed', 'open', 'probing', 'ramping')),
    until INTEGER NOT NULL,
    probes INTEGER NOT NULL,
    by TEXT NOT NULL,
    rev INTEGER NOT NULL    -- from the counter, for those who poll
) STRICT, WITHOUT ROWID;
INSERT INTO hooklane_counter (name, value) VALUES ('health', 0);
