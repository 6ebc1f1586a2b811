-- A key is often a new one (an order, a session), so a lane that is made must cost little more than one that is there. What
-- this transaction made, it holds already, and nothing stands in it: it is neither locked nor searched for its end.

-- The lanes' ids and last seqs, in the order given; locked until the transaction ends. The seqs are read after the locks
-- are held, and each statement of a volatile function sees all that was committed before it: what the former holder
-- published is counted. (A stricter isolation sees the past; then the places that follow from it are taken, and whoever
-- inserts them is told to begin anew.)
-- A hint is a seq that the caller has seen in the lane, or 0: the search begins there, and the lane is not new.
-- All lock in one order, that of the bytes, whatever they ask for: so nobody waits for another crosswise. Where one may be
-- new, all are made or locked in one pass: to make new ones first would be to wait crosswise for somebody who holds an
-- old one and comes to the new one later. (A conflict locks, and "where false" updates nothing.)
-- By index always: a plan that was made while the tables were small is kept when they are not.
CREATE OR REPLACE FUNCTION hooklane.hold_lanes(
    tenants text[], endpoints text[], keys text[], pids integer[], hints bigint[], OUT ids bigint[], OUT tails bigint[]
) LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on
AS $$
DECLARE
    tail_mins bigint[];
    made bigint[] := '{}';
BEGIN
    IF 0 = ANY(hints) THEN
        WITH fresh AS (
            INSERT INTO hooklane.lane_name AS n (tenant, endpoint_id, key, pid)
            SELECT w.tenant, w.endpoint_id, w.key, w.pid
            FROM unnest(tenants, endpoints, keys, pids) AS w (tenant, endpoint_id, key, pid)
            ORDER BY w.endpoint_id COLLATE "C", w.key COLLATE "C"
            ON CONFLICT (endpoint_id, key) DO UPDATE SET pid = n.pid WHERE false RETURNING n.lane_id
        ) SELECT coalesce(array_agg(f.lane_id ORDER BY f.lane_id), '{}') INTO made FROM fresh f;
        SELECT coalesce(array_agg(n.lane_id ORDER BY w.at), '{}'), array_agg(n.tail_min ORDER BY w.at)
        INTO ids, tail_mins FROM unnest(endpoints, keys) WITH ORDINALITY AS w (endpoint_id, key, at)
        JOIN hooklane.lane_name n USING (endpoint_id, key);
    ELSE
        SELECT coalesce(array_agg(h.lane_id ORDER BY h.at), '{}'), array_agg(h.tail_min ORDER BY h.at)
        INTO ids, tail_mins FROM (
            SELECT w.at, n.lane_id, n.tail_min FROM unnest(endpoints, keys) WITH ORDINALITY AS w (endpoint_id, key, at)
            JOIN hooklane.lane_name n USING (endpoint_id, key)
            ORDER BY n.endpoint_id COLLATE "C", n.key COLLATE "C" FOR NO KEY UPDATE OF n) h;
    END IF;
    IF cardinality(ids) <> cardinality(keys) THEN
        RAISE serialization_failure USING MESSAGE = 'a lane that the publisher has seen is not there';
    END IF;
    IF cardinality(made) = cardinality(keys) THEN
        tails := array_fill(0::bigint, ARRAY[cardinality(keys)]);
        RETURN;
    END IF;
    tails := ARRAY(
        SELECT CASE WHEN made[width_bucket(w.lane_id, made)] = w.lane_id THEN 0 ELSE greatest(w.tail_min, coalesce(
            (SELECT max(e.seq) FROM hooklane.lane_event e WHERE e.lane_id = w.lane_id AND e.seq >= nullif(w.hint, 0)),
            (SELECT max(e.seq) FROM hooklane.lane_event e WHERE e.lane_id = w.lane_id))) END
        FROM unnest(ids, tail_mins, hints) WITH ORDINALITY AS w (lane_id, tail_min, hint, at) ORDER BY w.at);
END
$$;
