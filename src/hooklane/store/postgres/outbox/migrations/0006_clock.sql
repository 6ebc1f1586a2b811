-- The latest time at which a worker looked at the clock: where it says less the next time, it was set back.
INSERT INTO hooklane.counter (name, value) VALUES ('clock', 0) ON CONFLICT DO NOTHING;
