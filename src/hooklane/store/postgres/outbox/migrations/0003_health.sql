-- How the endpoints do: the last turn of each breaker, for every worker and for people.
CREATE TABLE hooklane.health (
    endpoint_id text PRIMARY KEY REFERENCES hooklane.endpoint (id) ON DELETE CASCADE,
    tenant text NOT NULL,
    turn bigint NOT NULL CHECK (turn > 0),
    state text NOT NULL CHECK (state IN ('closed', 'open', 'probing', 'ramping')),
    until bigint NOT NULL,
    probes integer NOT NULL,
    by text NOT NULL,
    xid xid8 NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX health_for_poll ON hooklane.health (xid);
