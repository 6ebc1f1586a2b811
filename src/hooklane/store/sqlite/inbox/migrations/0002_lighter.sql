-- An event that is handled in the commit that stores it writes two pages of ours instead of five: what its handler did
-- is told by its row, ids are counted without sqlite_sequence, and only one row in 64 is in the index for pruning.

CREATE TABLE hooklane_inbox_row_lighter (
    id          INTEGER PRIMARY KEY,               -- see hooklane_inbox_last
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
    -- The nearly only one is asked for first: a list of more than two is built anew for each row.
    status      TEXT    NOT NULL CHECK (status = 'pending' OR status IN ('dead', 'conflict', 'ignored', 'too_old')),
    reason      TEXT,
    copies      INTEGER NOT NULL DEFAULT 1,
    received_at INTEGER NOT NULL,
    -- The handling that was settled in the commit that stored the row; NULL once it is a handling of its own.
    settled_by  TEXT,
    settled_as  TEXT    CHECK (settled_as = 'completed' OR settled_as IN ('stale', 'ignored')),
    settled_at  INTEGER,
    UNIQUE (source, tenant, event_id, variant)
) STRICT;

INSERT INTO hooklane_inbox_row_lighter
SELECT id, tenant, source, event_id, variant, type, key, seq, prev_seq, event_time, delivery_id, attempt, id_signed,
    fingerprint, body, headers, status, reason, copies, received_at, NULL, NULL, NULL
FROM hooklane_inbox_row ORDER BY id;

-- No id is used twice, also after pruning: a zombie must not meet it. One line: the largest id that was ever pruned.
CREATE TABLE hooklane_inbox_last (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    row_id INTEGER NOT NULL
) STRICT;

INSERT INTO hooklane_inbox_last
SELECT 1, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'hooklane_inbox_row'), 0);

-- The handlings move first: dropping the rows that they belong to would delete them.
CREATE TABLE hooklane_inbox_handling_lighter (
    row_id     INTEGER NOT NULL REFERENCES hooklane_inbox_row_lighter (id) ON DELETE CASCADE,
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

INSERT INTO hooklane_inbox_handling_lighter
SELECT row_id, handler, tenant, source, status, due_at, attempts, fence, owner, was, key, seq, prev_seq, error,
    traceback, settled_at
FROM hooklane_inbox_handling;

DROP TABLE hooklane_inbox_handling;
DROP TABLE hooklane_inbox_row;
ALTER TABLE hooklane_inbox_row_lighter RENAME TO hooklane_inbox_row;
ALTER TABLE hooklane_inbox_handling_lighter RENAME TO hooklane_inbox_handling;

-- Ids grow with time, so it is enough to ask every 64th row where the old ones end.
CREATE INDEX hooklane_inbox_row_for_prune ON hooklane_inbox_row (received_at) WHERE id & 63 = 0;

CREATE INDEX hooklane_inbox_handling_for_claim ON hooklane_inbox_handling (due_at)
    WHERE status IN ('pending', 'failed');
CREATE INDEX hooklane_inbox_handling_for_takeover ON hooklane_inbox_handling (due_at) WHERE status = 'in_progress';
CREATE INDEX hooklane_inbox_handling_for_track ON hooklane_inbox_handling (source, tenant, handler, key, seq)
    WHERE key IS NOT NULL AND status IN ('pending', 'in_progress', 'failed', 'held', 'dead');
CREATE INDEX hooklane_inbox_handling_for_gap ON hooklane_inbox_handling (due_at) WHERE status = 'held';
CREATE INDEX hooklane_inbox_handling_for_people ON hooklane_inbox_handling (status, source, row_id)
    WHERE status IN ('failed', 'dead', 'held');
