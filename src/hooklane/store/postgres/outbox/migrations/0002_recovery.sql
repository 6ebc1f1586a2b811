-- Recovery: the sealed audit log, plans and jobs, redeliveries, and what retention leaves behind.

-- Each line is sealed to the one before it. Lines from before this migration stay, outside the chain.
ALTER TABLE hooklane.audit ALTER COLUMN n DROP IDENTITY;
ALTER TABLE hooklane.audit ADD COLUMN seal bytea NOT NULL DEFAULT '\x';
-- The row lock of the head is held until the commit: lines are numbered, and become visible, in their order.
CREATE TABLE hooklane.audit_chain (
    place text PRIMARY KEY CHECK (place IN ('anchor', 'head')),
    tenant text NOT NULL DEFAULT 'default',
    n bigint NOT NULL,
    seal bytea NOT NULL
) WITH (fillfactor = 50);
INSERT INTO hooklane.audit_chain (place, n, seal)
SELECT place, (SELECT coalesce(max(n), 0) FROM hooklane.audit), decode(repeat('00', 32), 'hex')
FROM (VALUES ('anchor'), ('head')) AS ends (place);

-- A plan, and once it was run a job. The document says everything; the columns are for finding it.
CREATE TABLE hooklane.job (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    job_id text UNIQUE,
    state text NOT NULL,
    created_at bigint NOT NULL,
    ended_at bigint,
    doc bytea NOT NULL
);
CREATE INDEX job_running ON hooklane.job (created_at) WHERE state = 'running';

CREATE TABLE hooklane.member (
    plan_id text NOT NULL,
    n bigint NOT NULL,
    tenant text NOT NULL,
    event_id text NOT NULL,
    type text NOT NULL,
    endpoint_id text NOT NULL,
    lane_id bigint NOT NULL,
    pid integer NOT NULL,
    key text,
    seq bigint,
    place bigint NOT NULL,
    state text NOT NULL,
    version text NOT NULL,
    letter text,
    reason text,
    waiting bigint NOT NULL,
    progress text NOT NULL DEFAULT 'planned',
    result text NOT NULL DEFAULT '',
    redelivery bigint,          -- where it is sent again: the redelivery lane and the place in it
    pos bigint,
    PRIMARY KEY (plan_id, n)
);
CREATE INDEX member_released ON hooklane.member (plan_id, n) WHERE progress = 'released';
CREATE INDEX member_sent_again ON hooklane.member (tenant, event_id)
    WHERE progress = 'released' AND redelivery IS NOT NULL;
CREATE UNIQUE INDEX member_of_redelivery ON hooklane.member (redelivery, pos) WHERE redelivery IS NOT NULL;

-- A line of delivered events that are sent again: its own head and tail, and no lane's head moves with it.
CREATE TABLE hooklane.redelivery (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    plan_id text NOT NULL,
    line text NOT NULL,
    endpoint_id text NOT NULL,
    pid integer NOT NULL,
    head bigint NOT NULL DEFAULT 1,
    tail bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'retrying', 'blocked', 'cancelled')),
    attempts integer NOT NULL DEFAULT 0,
    next_at bigint NOT NULL DEFAULT 0,
    reason text,
    UNIQUE (plan_id, line)
) WITH (fillfactor = 70);
CREATE INDEX redelivery_owed ON hooklane.redelivery (pid) WHERE state IN ('active', 'retrying');

-- What pruned rows add to the ledger: it must add up after them as before.
CREATE TABLE hooklane.past (
    tenant text NOT NULL,
    endpoint_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('lane', 'loose')),
    state text NOT NULL,
    many bigint NOT NULL,
    PRIMARY KEY (tenant, endpoint_id, kind, state)
);

CREATE INDEX dead_letter_skipped ON hooklane.dead_letter (tenant, died_at, id) WHERE state = 'skipped';
-- The answer that a repeated publish gets once its event was pruned.
ALTER TABLE hooklane.idempotency ADD COLUMN answer bytea;
INSERT INTO hooklane.counter (name, value) VALUES ('attempts_pruned', 0);
