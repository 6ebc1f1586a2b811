-- A lane ends where its last event is. To publish wrote the end into the lane's row too, which with many lanes cost a page of
-- its own for each event. From here on `tail` says how far a lane has come at the least, and the view how far it has come.
CREATE VIEW hooklane_lane_end AS
SELECT lane_id, tenant, endpoint_id, key, pid, max(tail, coalesce(
    (SELECT max(seq) FROM hooklane_lane_event e WHERE e.lane_id = t.lane_id), 0)) AS tail
FROM hooklane_lane_tail t;

-- Whoever deletes the last event of a lane leaves its seq behind: a lane that started again at 1 would be dropped as stale.
CREATE TRIGGER hooklane_lane_end_stays AFTER DELETE ON hooklane_lane_event
WHEN NOT EXISTS (SELECT 1 FROM hooklane_lane_event WHERE lane_id = OLD.lane_id AND seq > OLD.seq)
BEGIN UPDATE hooklane_lane_tail SET tail = OLD.seq WHERE lane_id = OLD.lane_id AND tail < OLD.seq; END;

-- A process of an older hooklane counts on from `tail` when it publishes: it finds there where the lane ends.
CREATE TRIGGER hooklane_lane_end_told BEFORE INSERT ON hooklane_lane_tail
BEGIN UPDATE hooklane_lane_tail SET tail = (SELECT e.tail FROM hooklane_lane_end e WHERE e.lane_id = hooklane_lane_tail.lane_id)
WHERE endpoint_id = NEW.endpoint_id AND key = NEW.key; END;
