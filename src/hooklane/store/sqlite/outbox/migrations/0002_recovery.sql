-- Recovery: the sealed audit log, plans and jobs, redeliveries, and what retention leaves behind.

-- Each line is sealed to the one before it. Lines from before this migration stay, outside the chain.
ALTER TABLE hooklane_audit ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
CREATE TABLE hooklane_audit_chain (
    place TEXT PRIMARY KEY CHECK (place IN ('anchor', 'head')),
    tenant TEXT NOT NULL DEFAULT 'default',
    n INTEGER NOT NULL,
    seal BLOB NOT NULL
) STRICT;
INSERT INTO hooklane_audit_chain (place, n, seal)
SELECT place, (SELECT coalesce(max(n), 0) FROM hooklane_audit), zeroblob(32)
FROM (SELECT 'anchor' AS place UNION ALL SELECT 'head');

-- A plan, and once it was run a job. The document says everything; the columns are for finding it.
CREATE TABLE hooklane_job (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    job_id TEXT UNIQUE,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX hooklane_job_running ON hooklane_job (created_at) WHERE state = 'running';

CREATE TABLE hooklane_member (
    plan_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    lane_id INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    key TEXT,
    seq INTEGER,
    place INTEGER NOT NULL,
    state TEXT NOT NULL,
    version TEXT NOT NULL,
    letter TEXT,
    reason TEXT,
    waiting INTEGER NOT NULL,
    progress TEXT NOT NULL DEFAULT 'planned',
    result TEXT NOT NULL DEFAULT '',
    redelivery INTEGER,     -- where it is sent again: the redelivery lane and the place in it
    pos INTEGER,
    PRIMARY KEY (plan_id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX hooklane_member_released ON hooklane_member (plan_id, n) WHERE progress = 'released';
CREATE INDEX hooklane_member_sent_again ON hooklane_member (tenant, event_id)
    WHERE progress = 'released' AND redelivery IS NOT NULL;
CREATE UNIQUE INDEX hooklane_member_of_redelivery ON hooklane_member (redelivery, pos) WHERE redelivery IS NOT NULL;

-- A line of delivered events that are sent again: its own head and tail, and no lane's head moves with it.
CREATE TABLE hooklane_redelivery (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    line TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    head INTEGER NOT NULL DEFAULT 1,
    tail INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'retrying', 'blocked', 'cancelled')),
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    UNIQUE (plan_id, line)
) STRICT;
CREATE INDEX hooklane_redelivery_owed ON hooklane_redelivery (pid) WHERE state IN ('active', 'retrying');

-- What pruned rows add to the ledger: it must add up after them as before.
CREATE TABLE hooklane_past (
    tenant TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('lane', 'loose')),
    state TEXT NOT NULL,
    many INTEGER NOT NULL,
    PRIMARY KEY (tenant, endpoint_id, kind, state)
) STRICT, WITHOUT ROWID;

CREATE INDEX hooklane_dead_letter_skipped ON hooklane_dead_letter (tenant, died_at, id) WHERE state = 'skipped';
ALTER TABLE hooklane_recovered ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
-- The answer that a repeated publish gets once its event was pruned.
ALTER TABLE hooklane_idempotency ADD COLUMN answer BLOB;
CREATE INDEX hooklane_idempotency_for_pruning ON hooklane_idempotency (created_at);
INSERT INTO hooklane_counter (name, value) VALUES ('attempts_pruned', 0);
