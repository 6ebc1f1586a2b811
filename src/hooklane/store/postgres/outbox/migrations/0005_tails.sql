-- A counter that each event moves leaves an old row behind each time. Beside a transaction that is held open for an hour
-- (a backup) nobody may remove them, and the way past them grows with every event. So publishing updates nothing: it
-- locks the lane's row, which leaves none behind, and finds its end in lane_event, which only grows.

ALTER TABLE hooklane.lane_tail RENAME TO lane_name;
ALTER TABLE hooklane.lane_name RENAME COLUMN tail TO tail_min;
ALTER TABLE hooklane.lane_name DROP CONSTRAINT lane_tail_tail_check;
ALTER TABLE hooklane.lane_name ALTER COLUMN tail_min SET DEFAULT 0;
ALTER TABLE hooklane.lane_name RESET (fillfactor);
ALTER INDEX hooklane.lane_tail_pkey RENAME TO lane_name_pkey;
ALTER INDEX hooklane.lane_tail_endpoint_id_key_key RENAME TO lane_name_once;
ALTER INDEX hooklane.lane_tail_for_load RENAME TO lane_name_for_load;

-- Pruning writes tail_min where it removes the last event of a lane: one that started again at 1 would be dropped as
-- stale by its receiver.
CREATE VIEW hooklane.lane_tail AS
SELECT n.lane_id, n.tenant, n.endpoint_id, n.key, n.pid,
    greatest(n.tail_min, (SELECT max(e.seq) FROM hooklane.lane_event e WHERE e.lane_id = n.lane_id)) AS tail
FROM hooklane.lane_name n;

-- The lanes' ids and last seqs, in the order given; locked until the transaction ends. The seqs are read after the locks
-- are held, and each statement of a volatile function sees all that was committed before it: what the former holder
-- published is counted. (A stricter isolation sees the past; then the places that follow from it are taken, and whoever
-- inserts them is told to begin anew.)
-- A hint is a seq that the caller has seen in the lane, or 0: the search begins there, and the lane is not new.
-- All lock in one order, that of the bytes, whatever they ask for: so nobody waits for another crosswise. Where a lane is
-- new, all are made or locked in one pass: to make new ones first would be to wait crosswise for somebody who holds an
-- old one and comes to the new one later. (A conflict locks, and "where false" updates nothing.)
-- By index always: a plan that was made while the tables were small is kept when they are not.
CREATE FUNCTION hooklane.hold_lanes(
    tenants text[], endpoints text[], keys text[], pids integer[], hints bigint[], OUT ids bigint[], OUT tails bigint[]
) LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on
AS $$
DECLARE
    tail_mins bigint[];
BEGIN
    IF 0 = ANY(hints) AND EXISTS (
        SELECT 1 FROM unnest(endpoints, keys, hints) AS w (endpoint_id, key, hint) WHERE w.hint = 0 AND NOT EXISTS (
            SELECT 1 FROM hooklane.lane_name n WHERE n.endpoint_id = w.endpoint_id AND n.key = w.key))
    THEN
        INSERT INTO hooklane.lane_name AS n (tenant, endpoint_id, key, pid)
        SELECT w.tenant, w.endpoint_id, w.key, w.pid
        FROM unnest(tenants, endpoints, keys, pids) AS w (tenant, endpoint_id, key, pid)
        ORDER BY w.endpoint_id COLLATE "C", w.key COLLATE "C"
        ON CONFLICT (endpoint_id, key) DO UPDATE SET pid = n.pid WHERE false;
    END IF;
    SELECT coalesce(array_agg(h.lane_id ORDER BY h.at), '{}'), array_agg(h.tail_min ORDER BY h.at)
    INTO ids, tail_mins FROM (
        SELECT w.at, n.lane_id, n.tail_min FROM unnest(endpoints, keys) WITH ORDINALITY AS w (endpoint_id, key, at)
        JOIN hooklane.lane_name n USING (endpoint_id, key)
        ORDER BY n.endpoint_id COLLATE "C", n.key COLLATE "C" FOR NO KEY UPDATE OF n) h;
    IF cardinality(ids) <> cardinality(keys) THEN
        RAISE serialization_failure USING MESSAGE = 'a lane that the publisher has seen is not there';
    END IF;
    tails := ARRAY(
        SELECT greatest(w.tail_min, coalesce(
            (SELECT max(e.seq) FROM hooklane.lane_event e WHERE e.lane_id = w.lane_id AND e.seq >= nullif(w.hint, 0)),
            (SELECT max(e.seq) FROM hooklane.lane_event e WHERE e.lane_id = w.lane_id)))
        FROM unnest(ids, tail_mins, hints) WITH ORDINALITY AS w (lane_id, tail_min, hint, at) ORDER BY w.at);
END
$$;
