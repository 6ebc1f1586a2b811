-- API keys, and the sessions and portal links that were made with them: of the secrets themselves only digests.
CREATE TABLE hooklane.api_key (
    id text PRIMARY KEY,
    name text NOT NULL,
    digest bytea NOT NULL UNIQUE,
    scopes text NOT NULL,       -- words with a space between them
    tenant text,                -- NULL: all tenants
    created_at bigint NOT NULL,
    expires_at bigint,
    last_used_at bigint
);
CREATE TABLE hooklane.session (
    id text PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('page', 'link', 'portal')),
    digest bytea NOT NULL UNIQUE,
    made_with text NOT NULL,    -- the key's id; no reference, since HOOKLANE_API_KEY has no row
    name text NOT NULL,
    scopes text NOT NULL,
    tenant text,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX session_by_expiry ON hooklane.session (expires_at);
CREATE INDEX session_by_key ON hooklane.session (made_with);
INSERT INTO hooklane.counter (name, value) VALUES ('api_key', 0);
