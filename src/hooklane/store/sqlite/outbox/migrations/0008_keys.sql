-- API keys, and the sessions and portal links that were made with them: of the secrets themselves only digests.
CREATE TABLE hooklane_api_key (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    scopes TEXT NOT NULL,       -- words with a space between them
    tenant TEXT,                -- NULL: all tenants
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE hooklane_session (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('page', 'link', 'portal')),
    digest BLOB NOT NULL UNIQUE,
    made_with TEXT NOT NULL,    -- the key's id; no reference, since HOOKLANE_API_KEY has no row
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    tenant TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX hooklane_session_by_expiry ON hooklane_session (expires_at);
CREATE INDEX hooklane_session_by_key ON hooklane_session (made_with);
INSERT INTO hooklane_counter (name, value) VALUES ('api_key', 0);
