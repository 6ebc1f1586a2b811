-- A publish as one statement that is the whole transaction, where every place is in a lane and every name is new.

-- Nothing is written unless each tenant is there and its endpoints are still those by which the places were found. The settings count from their
-- evaluation on, and every insert needs the row that evaluates them.
-- fragment: start
WITH start AS MATERIALIZED (
    SELECT ARRAY(SELECT nextval('hooklane.event_n') FROM generate_series(1, :many::bigint)) AS ns,
        set_config('synchronous_commit', 'on', true), set_config('lock_timeout', :lock_wait::text, true)
    WHERE :tenant_count::bigint = (
        SELECT count(*) FROM (
            SELECT unnest(:publishing::text::text[]) AS id, unnest(:revs::text::bigint[]) AS rev
        ) w JOIN hooklane.tenant t ON t.id = w.id AND t.endpoint_rev = w.rev AND t.state IN ('active', 'suspended'))
)

-- Names come before lanes, as in the longer way, and in its order. One that is taken violates its key.
-- fragment: named
, named AS (
    INSERT INTO hooklane.idempotency (tenant, name, digest, event_n, created_at)
    SELECT d.tenant, d.name, substring(:digests::bytea, d.starts, d.size), s.ns[d.at], d.created_at
    FROM start s CROSS JOIN LATERAL (
        SELECT unnest(:name_tenants::text::text[]) AS tenant, unnest(:names::text::text[]) AS name,
            unnest(:name_starts::text::integer[]) AS starts, unnest(:name_sizes::text::integer[]) AS size,
            unnest(:name_ats::text::integer[]) AS at, unnest(:name_created::text::bigint[]) AS created_at
    ) d RETURNING 1
)

-- fragment: ask_lanes
, asked AS MATERIALIZED (
    SELECT :tenants::text::text[] AS tenants, :endpoints::text::text[] AS endpoints, :keys::text::text[] AS keys,
        :pids::text::integer[] AS pids, :hints::text::bigint[] AS hints FROM start

-- fragment: hold_asked
), known AS MATERIALIZED (
    SELECT h.ids, h.tails FROM asked a
    CROSS JOIN LATERAL hooklane.hold_lanes(a.tenants, a.endpoints, a.keys, a.pids, a.hints) h
)

-- fragment: after_names
WHERE (SELECT count(*) FROM named) > 0

-- fragment: stamp
'["' || p.endpoint_id || '",' || p.lane_id || ',' || p.seq || ']'

-- Where each event has one place, as nearly always, both stand in one row, and nothing is joined. The data of all events
-- comes as one piece, to be cut: asyncpg asks of each element of a list whether it is a list.
-- fragment: place_one_each
, placed AS MATERIALIZED (
    SELECT p.*, substring(:datas::bytea, p.starts, p.size) AS data,
        s.ns[p.at] AS n, k.ids[p.lane_at] AS lane_id, k.tails[p.lane_at] + p.nth AS seq
    FROM known k CROSS JOIN start s CROSS JOIN LATERAL (
        SELECT unnest(:lane_ats::text::integer[]) AS lane_at, unnest(:nths::text::bigint[]) AS nth,
            unnest(:place_pids::text::integer[]) AS pid, unnest(:place_endpoints::text::text[]) AS endpoint_id,
            unnest(:event_tenants::text::text[]) AS tenant, unnest(:ids::text::text[]) AS id,
            unnest(:types::text::text[]) AS type, unnest(:event_keys::text::text[]) AS key,
            unnest(:starts::text::integer[]) AS starts, unnest(:sizes::text::integer[]) AS size,
            unnest(:ats::text::bigint[]) AS created_at,
            unnest(:replays::text::text[]) AS replay_of, generate_series(1, :many::bigint) AS at
    ) p
), in_lanes AS (
    INSERT INTO hooklane.lane_event (lane_id, seq, event_n, pid, tenant)
    SELECT p.lane_id, p.seq, p.n, p.pid, p.tenant FROM placed p
), stored AS (
    INSERT INTO hooklane.event (n, tenant, id, type, key, data, created_at, replay_of, stamps)
    SELECT p.n, p.tenant, p.id, p.type, p.key, p.data, p.created_at, p.replay_of,
        convert_to('[' || {stamp} || ']', 'UTF8')
    FROM placed p
)

-- fragment: place_many_each
, placed AS MATERIALIZED (
    SELECT p.event_at, p.pid, p.tenant, p.at, k.ids[p.lane_at] AS lane_id,
        k.tails[p.lane_at] + p.nth AS seq, p.endpoint_id
    FROM unnest(:event_ats::text::integer[], :lane_ats::text::integer[], :nths::text::bigint[],
        :place_pids::text::integer[], :place_tenants::text::text[], :place_endpoints::text::text[])
        WITH ORDINALITY AS p (event_at, lane_at, nth, pid, tenant, endpoint_id, at)
    CROSS JOIN known k
), in_lanes AS (
    INSERT INTO hooklane.lane_event (lane_id, seq, event_n, pid, tenant)
    SELECT p.lane_id, p.seq, s.ns[p.event_at], p.pid, p.tenant FROM placed p CROSS JOIN start s
), stamped AS MATERIALIZED (
    SELECT p.event_at, string_agg({stamp}, ',' ORDER BY p.at) AS stamps FROM placed p GROUP BY p.event_at
), stored AS (
    INSERT INTO hooklane.event (n, tenant, id, type, key, data, created_at, replay_of, stamps)
    SELECT s.ns[e.at], e.tenant, e.id, e.type, e.key, substring(:datas::bytea, e.starts, e.size), e.created_at,
        e.replay_of, convert_to('[' || coalesce(p.stamps, '') || ']', 'UTF8')
    FROM unnest(:event_tenants::text::text[], :ids::text::text[], :types::text::text[], :event_keys::text::text[],
        :starts::text::integer[], :sizes::text::integer[], :ats::text::bigint[], :replays::text::text[])
        WITH ORDINALITY AS e (tenant, id, type, key, starts, size, created_at, replay_of, at)
    CROSS JOIN start s LEFT JOIN stamped p ON p.event_at = e.at
)

-- fragment: tell
SELECT (SELECT count(*) FROM start), pg_current_xact_id()::text, (SELECT ids FROM known), (SELECT tails FROM known)

-- name: publish_one_each
-- Each event has one place, none has a name.
{start} {ask_lanes} {hold_asked} {place_one_each} {tell}

-- name: publish_one_each_named
-- Each event has one place, some have names.
{start} {named} {ask_lanes} {after_names} {hold_asked} {place_one_each} {tell}

-- name: publish_many_each
-- Events with any number of places, none has a name.
{start} {ask_lanes} {hold_asked} {place_many_each} {tell}

-- name: publish_many_each_named
-- Events with any number of places, some have names.
{start} {named} {ask_lanes} {after_names} {hold_asked} {place_many_each} {tell}
