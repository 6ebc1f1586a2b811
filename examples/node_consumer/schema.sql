-- What a consumer must store. Both rows are written in the transaction of the effect.
CREATE TABLE IF NOT EXISTS webhook_seen (
    id      text PRIMARY KEY,                    -- webhook-id: the same in all copies of an event
    seen_at timestamptz NOT NULL DEFAULT now()   -- may go after 30 days
);
CREATE TABLE IF NOT EXISTS webhook_lane (
    key text PRIMARY KEY,
    seq bigint NOT NULL                          -- the last one that was applied; never removed
);

-- The effect: money, where a second time and another order both show.
CREATE TABLE IF NOT EXISTS account (
    id    text PRIMARY KEY,
    cents bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS entry (
    n       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account text NOT NULL,
    seq     bigint,
    cents   bigint NOT NULL,
    balance bigint NOT NULL
);
