-- One line: what the clock said at the last look, so that one that was set back is noticed and nothing waits for it.
CREATE TABLE hooklane_inbox_clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL
) STRICT;

INSERT INTO hooklane_inbox_clock (one, at) VALUES (1, 0);
