-- One row per event of a source: the raw bytes that were verified. Only a purge and the copy count touch it again.
CREATE TABLE hooklane.inbox_row (
    id          bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant      text    NOT NULL,
    source      text    NOT NULL,
    event_id    text    NOT NULL,
    variant     text    NOT NULL,
    type        text    NOT NULL,
    key         text,
    seq         bigint,
    prev_seq    bigint,
    event_time  bigint,
    delivery_id text,
    attempt     bigint,
    id_signed   integer NOT NULL,
    fingerprint bytea   NOT NULL,
    body        bytea,                              -- NULL once purged
    headers     text    NOT NULL,
    status      text    NOT NULL CHECK (status IN ('pending', 'dead', 'conflict', 'ignored', 'too_old')),
    reason      text,
    copies      bigint NOT NULL DEFAULT 1,
    received_at bigint NOT NULL,
    UNIQUE (source, tenant, event_id, variant)
);

CREATE INDEX inbox_row_for_prune ON hooklane.inbox_row (received_at);

-- One handling per row and handler. due_at: when it may be claimed (again); the end of the lease of one in progress.
CREATE TABLE hooklane.inbox_handling (
    row_id     bigint NOT NULL REFERENCES hooklane.inbox_row (id) ON DELETE CASCADE,
    handler    text    NOT NULL,
    tenant     text    NOT NULL,
    source     text    NOT NULL,
    status     text    NOT NULL CHECK (status IN
        ('pending', 'in_progress', 'completed', 'failed', 'dead', 'held', 'stale', 'ignored')),
    due_at     bigint NOT NULL,
    attempts   bigint NOT NULL,
    fence      bigint NOT NULL DEFAULT 0,
    owner      text,
    was        text,                               -- the status that the last claim found
    key        text,
    seq        bigint,
    prev_seq   bigint,
    error      text,
    traceback  text,
    settled_at bigint,
    PRIMARY KEY (row_id, handler)
);

CREATE INDEX inbox_handling_for_claim ON hooklane.inbox_handling (due_at)
    WHERE status IN ('pending', 'failed');
CREATE INDEX inbox_handling_for_takeover ON hooklane.inbox_handling (due_at) WHERE status = 'in_progress';
CREATE INDEX inbox_handling_for_track ON hooklane.inbox_handling (source, tenant, handler, key, seq)
    WHERE key IS NOT NULL AND status IN ('pending', 'in_progress', 'failed', 'held', 'dead');
CREATE INDEX inbox_handling_for_gap ON hooklane.inbox_handling (due_at) WHERE status = 'held';
CREATE INDEX inbox_handling_for_people ON hooklane.inbox_handling (status, source, row_id)
    WHERE status IN ('failed', 'dead', 'held');

-- How far a handler is with a key: the last applied seq, the newest event time, or the current state. Never pruned.
CREATE TABLE hooklane.inbox_cursor (
    tenant  text    NOT NULL,
    source  text    NOT NULL,
    handler text    NOT NULL,
    key     text    NOT NULL,
    seq     bigint NOT NULL DEFAULT 0,
    at      bigint,
    tie     text COLLATE "C",                      -- compared byte by byte, as everywhere else
    token   text,
    PRIMARY KEY (source, tenant, handler, key)
);

-- What arrived under an id that nobody signed: the same bytes under another id are the same event.
CREATE TABLE hooklane.inbox_digest (
    tenant   text    NOT NULL,
    source   text    NOT NULL,
    digest   bytea   NOT NULL,
    event_id text    NOT NULL,
    seen_at  bigint NOT NULL,
    PRIMARY KEY (source, tenant, digest)
);

CREATE INDEX inbox_digest_for_forget ON hooklane.inbox_digest (seen_at);

-- One line: when this inbox was last alive, so that retention does not count the time it lay still.
CREATE TABLE hooklane.inbox_heartbeat (
    one        integer PRIMARY KEY CHECK (one = 1),
    seen_at    bigint NOT NULL,
    down_ms    bigint NOT NULL,
    down_until bigint NOT NULL
);
