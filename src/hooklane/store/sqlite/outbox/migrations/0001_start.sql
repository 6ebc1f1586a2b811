-- The sender's tables. A body is written once and never updated; what moves is small and stands elsewhere.

CREATE TABLE hooklane_endpoint (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    doc BLOB NOT NULL,      -- the endpoint as JSON
    rev INTEGER NOT NULL    -- from the counter below, for those who poll
) STRICT;
CREATE INDEX hooklane_endpoint_for_poll ON hooklane_endpoint (rev);

CREATE TABLE hooklane_counter (
    name TEXT PRIMARY KEY,
    tenant TEXT NOT NULL DEFAULT 'default',
    value INTEGER NOT NULL
) STRICT;
INSERT INTO hooklane_counter (name, value) VALUES ('endpoint', 0);

CREATE TABLE hooklane_event (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    key TEXT,
    data BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    replay_of TEXT,
    stamps BLOB NOT NULL,   -- JSON: where it stands, as [endpoint, lane, seq or null] each
    UNIQUE (tenant, id)
) STRICT;

-- What may not be used twice: an idempotency key or an event's own id.
CREATE TABLE hooklane_idempotency (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL,
    event_n INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- Written by publish only, and never pruned: a lane that started again at 1 would be dropped as stale.
CREATE TABLE hooklane_lane_tail (
    lane_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    key TEXT NOT NULL,
    pid INTEGER NOT NULL,
    tail INTEGER NOT NULL CHECK (tail > 0),
    UNIQUE (endpoint_id, key)
) STRICT;

-- AUTOINCREMENT: SQLite commits in order, so a reader that knows n has seen all before it, also after pruning.
CREATE TABLE hooklane_lane_event (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    lane_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event_n INTEGER NOT NULL,
    UNIQUE (lane_id, seq)
) STRICT;

-- Written by the owner, and by recovery where the head is dead. No row means: head 1, nothing tried.
CREATE TABLE hooklane_lane (
    lane_id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    head INTEGER NOT NULL CHECK (head > 0),
    acked INTEGER NOT NULL DEFAULT 0 CHECK (acked < head),
    state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'retrying', 'blocked')),
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL DEFAULT 0,
    rev INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    since INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX hooklane_lane_needing_attention ON hooklane_lane (state, since) WHERE state <> 'active';

CREATE TABLE hooklane_loose (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    event_n INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'retrying', 'delivered', 'dead', 'skipped', 'cancelled')),
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL DEFAULT 0,
    rev INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    since INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX hooklane_loose_owed ON hooklane_loose (pid) WHERE state IN ('queued', 'retrying');

-- What a lane passed over, from seq to upto: on record, and with a reason.
CREATE TABLE hooklane_skipped (
    lane_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    upto INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('skipped', 'cancelled')),
    note TEXT NOT NULL,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (lane_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE hooklane_dead_letter (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    lane_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event_n INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    died_at INTEGER NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed', 'skipped', 'cancelled')),
    closed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX hooklane_dead_letter_open ON hooklane_dead_letter (tenant, died_at, id) WHERE state = 'open';
CREATE INDEX hooklane_dead_letter_of_lane ON hooklane_dead_letter (lane_id, seq);

-- Wake-ups for the owner: lanes that a person recovered.
CREATE TABLE hooklane_recovered (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    lane_id INTEGER NOT NULL
) STRICT;

CREATE TABLE hooklane_attempt (
    lane_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    took_ms REAL NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    failure TEXT,
    said TEXT,              -- what the receiver says that it did
    detail BLOB,            -- JSON, for failures
    PRIMARY KEY (lane_id, seq, started_at, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE hooklane_part (
    pid INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL DEFAULT 'default',
    owner TEXT,
    epoch INTEGER NOT NULL DEFAULT 0
) STRICT;
WITH RECURSIVE pids (pid) AS (SELECT 0 UNION ALL SELECT pid + 1 FROM pids WHERE pid < 255)
INSERT INTO hooklane_part (pid) SELECT pid FROM pids;

CREATE TABLE hooklane_worker (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL DEFAULT 'default',
    lease_until INTEGER NOT NULL
) STRICT;

CREATE TABLE hooklane_audit (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;
