-- One row per event of a source: the raw bytes that were verified. Only a purge and the copy count touch it again.
CREATE TABLE hooklane_inbox_row (
    id          INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice, also after pruning: a zombie must not meet it
    tenant      TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    variant     TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    key         TEXT,
    seq         INTEGER,
    prev_seq    INTEGER,
    event_time  INTEGER,
    delivery_id TEXT,
    attempt     INTEGER,
    id_signed   INTEGER NOT NULL,
    fingerprint BLOB    NOT NULL,
    body        BLOB,                              -- NULL once purged
    headers     TEXT    NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('pending', 'dead', 'conflict', 'ignored', 'too_old')),
    reason      TEXT,
    copies      INTEGER NOT NULL DEFAULT 1,
    received_at INTEGER NOT NULL,
    UNIQUE (source, tenant, event_id, variant)
) STRICT;

CREATE INDEX hooklane_inbox_row_for_prune ON hooklane_inbox_row (received_at);

-- One handling per row and handler. due_at: when it may be claimed (again); the end of the lease of one in progress.
CREATE TABLE hooklane_inbox_handling (
    row_id     INTEGER NOT NULL REFERENCES hooklane_inbox_row (id) ON DELETE CASCADE,
    handler    TEXT    NOT NULL,
    tenant     TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN
        ('pending', 'in_progress', 'completed', 'failed', 'dead', 'held', 'stale', 'ignored')),
    due_at     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    fence      INTEGER NOT NULL DEFAULT 0,
    owner      TEXT,
    was        TEXT,                               -- the status that the last claim found
    key        TEXT,
    seq        INTEGER,
    prev_seq   INTEGER,
    error      TEXT,
    traceback  TEXT,
    settled_at INTEGER,
    PRIMARY KEY (row_id, handler)
) STRICT, WITHOUT ROWID;

CREATE INDEX hooklane_inbox_handling_for_claim ON hooklane_inbox_handling (due_at)
    WHERE status IN ('pending', 'failed');
CREATE INDEX hooklane_inbox_handling_for_takeover ON hooklane_inbox_handling (due_at) WHERE status = 'in_progress';
CREATE INDEX hooklane_inbox_handling_for_track ON hooklane_inbox_handling (source, tenant, handler, key, seq)
    WHERE key IS NOT NULL AND status IN ('pending', 'in_progress', 'failed', 'held', 'dead');
CREATE INDEX hooklane_inbox_handling_for_gap ON hooklane_inbox_handling (due_at) WHERE status = 'held';
CREATE INDEX hooklane_inbox_handling_for_people ON hooklane_inbox_handling (status, source, row_id)
    WHERE status IN ('failed', 'dead', 'held');

-- How far a handler is with a key: the last applied seq, the newest event time, or the current state. Never pruned.
CREATE TABLE hooklane_inbox_cursor (
    tenant  TEXT    NOT NULL,
    source  TEXT    NOT NULL,
    handler TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    seq     INTEGER NOT NULL DEFAULT 0,
    at      INTEGER,
    tie     TEXT,
    token   TEXT,
    PRIMARY KEY (source, tenant, handler, key)
) STRICT, WITHOUT ROWID;

-- What arrived under an id that nobody signed: the same bytes under another id are the same event.
CREATE TABLE hooklane_inbox_digest (
    tenant   TEXT    NOT NULL,
    source   TEXT    NOT NULL,
    digest   BLOB    NOT NULL,
    event_id TEXT    NOT NULL,
    seen_at  INTEGER NOT NULL,
    PRIMARY KEY (source, tenant, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX hooklane_inbox_digest_for_forget ON hooklane_inbox_digest (seen_at);

-- One line: when this inbox was last alive, so that retention does not count the time it lay still.
CREATE TABLE hooklane_inbox_heartbeat (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    seen_at    INTEGER NOT NULL,
    down_ms    INTEGER NOT NULL,
    down_until INTEGER NOT NULL
) STRICT;
