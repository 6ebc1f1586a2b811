-- The sender's tables. A body is written once and never updated; what moves is small and stands elsewhere.

CREATE FUNCTION hooklane.now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

CREATE TABLE hooklane.endpoint (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    doc bytea NOT NULL,         -- the endpoint as JSON
    rev bigint NOT NULL,        -- from the counter below, for those who poll
    changed_at bigint NOT NULL DEFAULT hooklane.now_ms()
);
CREATE INDEX endpoint_for_poll ON hooklane.endpoint (rev);

-- Its row lock is held until the commit, so revisions become visible in their order.
CREATE TABLE hooklane.counter (
    name text PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    value bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO hooklane.counter (name, value) VALUES ('endpoint', 0);

CREATE SEQUENCE hooklane.event_n AS bigint;
CREATE TABLE hooklane.event (
    n bigint PRIMARY KEY,
    tenant text NOT NULL,
    id text NOT NULL,
    type text NOT NULL,
    key text,
    data bytea NOT NULL,
    created_at bigint NOT NULL,
    replay_of text,
    stamps bytea NOT NULL,      -- JSON: where it stands, as [endpoint, lane, seq or null] each
    CONSTRAINT event_id_once UNIQUE (tenant, id)
);

-- What may not be used twice: an idempotency key or an event's own id.
CREATE TABLE hooklane.idempotency (
    tenant text NOT NULL,
    name text NOT NULL,
    digest bytea NOT NULL,
    event_n bigint NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX idempotency_for_pruning ON hooklane.idempotency (created_at);

-- Written by publish only, and never pruned: a lane that started again at 1 would be dropped as stale.
CREATE TABLE hooklane.lane_tail (
    lane_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    endpoint_id text NOT NULL,
    key text NOT NULL,
    pid integer NOT NULL,
    tail bigint NOT NULL CHECK (tail > 0),
    UNIQUE (endpoint_id, key)
) WITH (fillfactor = 70);
CREATE INDEX lane_tail_for_load ON hooklane.lane_tail (pid);

-- xid is the transaction that wrote the row: a snapshot tells exactly which of them a reader has not seen yet.
CREATE TABLE hooklane.lane_event (
    lane_id bigint NOT NULL,
    seq bigint NOT NULL,
    event_n bigint NOT NULL,
    pid integer NOT NULL,
    tenant text NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (lane_id, seq)
);
CREATE INDEX lane_event_for_poll ON hooklane.lane_event (xid);

-- Written by the owner, by fold, and by recovery where the head is dead. No row means: head 1, nothing tried.
CREATE TABLE hooklane.lane (
    lane_id bigint PRIMARY KEY,
    tenant text NOT NULL,
    head bigint NOT NULL CHECK (head > 0),
    acked bigint NOT NULL DEFAULT 0 CHECK (acked < head),
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'retrying', 'blocked')),
    attempts integer NOT NULL DEFAULT 0,
    next_at bigint NOT NULL DEFAULT 0,
    rev bigint NOT NULL DEFAULT 0,
    reason text,
    since bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX lane_needing_attention ON hooklane.lane (state, since) WHERE state <> 'active';

-- Insert only, and folded into lane every few seconds: an update for each ack would cost five times as much.
CREATE TABLE hooklane.ack (
    pid integer NOT NULL,
    lane_id bigint NOT NULL,
    head bigint NOT NULL,
    tenant text NOT NULL,
    at bigint NOT NULL
);
CREATE INDEX ack_of_lane ON hooklane.ack (lane_id, head);

-- Events without order. Inserted by publish, removed by the fenced ack: a row that is queued or retrying is owed.
CREATE SEQUENCE hooklane.loose_n AS bigint;
CREATE TABLE hooklane.loose (
    n bigint PRIMARY KEY,
    tenant text NOT NULL,
    endpoint_id text NOT NULL,
    pid integer NOT NULL,
    event_n bigint NOT NULL,
    state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'retrying', 'dead', 'skipped', 'cancelled')),
    attempts integer NOT NULL DEFAULT 0,
    next_at bigint NOT NULL DEFAULT 0,
    rev bigint NOT NULL DEFAULT 0,
    reason text,
    since bigint NOT NULL DEFAULT 0,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX loose_owed ON hooklane.loose (pid) WHERE state IN ('queued', 'retrying');
CREATE INDEX loose_for_poll ON hooklane.loose (xid);

-- How many loose deliveries are done, since their rows are gone: a line per commit, summed up by tidy.
CREATE TABLE hooklane.loose_delivered (
    tenant text NOT NULL,
    endpoint_id text NOT NULL,
    many bigint NOT NULL
);

-- What a lane passed over, from seq to upto: on record, and with a reason.
CREATE TABLE hooklane.skipped (
    lane_id bigint NOT NULL,
    seq bigint NOT NULL,
    upto bigint NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('skipped', 'cancelled')),
    note text NOT NULL,
    actor text NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (lane_id, seq)
);

CREATE TABLE hooklane.dead_letter (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    endpoint_id text NOT NULL,
    lane_id bigint NOT NULL,
    seq bigint NOT NULL,
    event_n bigint NOT NULL,
    attempts integer NOT NULL,
    reason text NOT NULL,
    died_at bigint NOT NULL,
    note text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed', 'skipped', 'cancelled')),
    closed_at bigint
);
CREATE INDEX dead_letter_open ON hooklane.dead_letter (tenant, died_at, id) WHERE state = 'open';
CREATE INDEX dead_letter_of_lane ON hooklane.dead_letter (lane_id, seq);

-- Wake-ups for the owner: lanes that a person recovered.
CREATE TABLE hooklane.recovered (
    tenant text NOT NULL,
    lane_id bigint NOT NULL,
    pid integer NOT NULL,
    at bigint NOT NULL DEFAULT hooklane.now_ms(),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX recovered_for_poll ON hooklane.recovered (xid);

CREATE TABLE hooklane.attempt (
    lane_id bigint NOT NULL,
    seq bigint NOT NULL,
    started_at bigint NOT NULL,
    attempt integer NOT NULL,
    tenant text NOT NULL,
    took_ms double precision NOT NULL,
    outcome text NOT NULL,
    status integer,
    failure text,
    said text,                  -- what the receiver says that it did
    detail bytea,               -- JSON, for failures
    PRIMARY KEY (lane_id, seq, started_at, attempt)
);

CREATE TABLE hooklane.part (
    pid integer PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    owner text,
    epoch bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 25);
INSERT INTO hooklane.part (pid) SELECT generate_series(0, 255);

CREATE TABLE hooklane.worker (
    id text PRIMARY KEY,
    tenant text NOT NULL DEFAULT 'default',
    lease_until bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE hooklane.audit (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    note text NOT NULL
);
