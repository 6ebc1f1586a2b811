-- Attempts stand by the age of their event. By lane, each one of a commit was on a page of its own, and most of what a
-- server wrote was those pages; now they are neighbours, as events are mostly delivered soon after they came.
CREATE TABLE hooklane_attempt_by_age (
    event_at INTEGER NOT NULL,  -- when the event was created
    lane_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    took_ms REAL NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    failure TEXT,
    said TEXT,                  -- what the receiver says that it did
    detail BLOB,                -- JSON, for failures
    PRIMARY KEY (event_at, lane_id, seq, started_at, attempt)
) STRICT, WITHOUT ROWID;
-- An attempt is only ever read beside its event, and goes with it: each has one.
INSERT INTO hooklane_attempt_by_age
SELECT e.created_at, a.* FROM hooklane_attempt a
JOIN hooklane_lane_event p ON p.lane_id = a.lane_id AND p.seq = a.seq JOIN hooklane_event e ON e.n = p.event_n
UNION ALL SELECT e.created_at, a.* FROM hooklane_attempt a
JOIN hooklane_loose l ON l.n = -a.lane_id JOIN hooklane_event e ON e.n = l.event_n
ORDER BY 1, 2, 3, 4, 5;
DROP TABLE hooklane_attempt;
ALTER TABLE hooklane_attempt_by_age RENAME TO hooklane_attempt;
