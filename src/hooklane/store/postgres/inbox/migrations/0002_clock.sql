-- One line: what the database's clock said at the last look, so that one that was set back is noticed and nothing waits
-- for it.
CREATE TABLE hooklane.inbox_clock (
    one integer PRIMARY KEY CHECK (one = 1),
    at  bigint NOT NULL
);

INSERT INTO hooklane.inbox_clock (one, at) VALUES (1, 0);
