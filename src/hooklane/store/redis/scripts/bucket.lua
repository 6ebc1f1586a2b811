-- What every script of the inbox begins with. KEYS[1] = p, the prefix of a bucket such as "hl:{3}": its hash tag puts
-- all keys below into one slot of a cluster. Scripts use no command that Redis 6.2 does not have.
--
--   p:row:<name>            hash    one row. <name> is a digest of its identity (source, tenant, event id, variant)
--     i  its place: 16 digits, larger for later rows       t  received at, ms            S  source
--     m  the message without its payload, MessagePack      b  payload: body and headers; absent once purged
--     s  status of the row itself, unless pending          c  copies, unless 1           k  1: a copy was answered
--     o  handlings that are owed or dead                   h<handler>  a handling, MessagePack (see H below)
--   p:rows                  stream  every row in order of arrival: <i>-1 -> n <name>, g source and handlers
--   p:due|lease|held|dead:<source>\31<handler>   zset  handlings in that state; member <i>-<name>, score due_at
--   p:count                 hash    <source>\31<status>\31<handler> -> how many
--   p:since                 hash    the same -> received at, of the first one counted
--   p:clock                 string  the largest place given out
--   p:track:<name>          hash    n name, q seq, a at, e tie, k state token, v version
--   p:wait:<track name>     hash    what is owed to a track: <i>-<name> -> status|due|seq|prev_seq
--   p:lock:<track name>     string  the session that holds the track; expires
--   p:digest:<name>         string  tombstone of some bytes: MessagePack of event id and time; expires
--   p:digests               stream  every tombstone in order: n <name>, S source, t seen at
--   p:meta                  hash    layout and number of buckets (bucket 0 only)
--   p:beat                  hash    the heartbeat (bucket 0 only)
local p, call = KEYS[1], redis.call
local A = cmsgpack.unpack(ARGV[1])

-- Places in a handling.
local STATUS, FENCE, ATTEMPTS, DUE, TRACK, KEY, SEQ, PREV, ERROR, TRACEBACK, SETTLED, OWNER = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
local CLASS = { pending = 'due', failed = 'due', in_progress = 'lease', held = 'held', dead = 'dead' }

local counted = {}
local function count(source, handler, status, n, t)
    local group = source .. '\31' .. status .. '\31' .. handler
    local entry = counted[group]
    if not entry then
        entry = { 0, t }
        counted[group] = entry
    end
    entry[1] = entry[1] + n
end

-- Counts are written once per group and script, not once per row.
local function flush()
    for group, entry in pairs(counted) do
        if entry[1] ~= 0 then
            if call('HINCRBY', p .. ':count', group, entry[1]) <= 0 then
                call('HDEL', p .. ':count', group)
                call('HDEL', p .. ':since', group)
            elseif entry[1] > 0 then
                call('HSETNX', p .. ':since', group, entry[2])
            end
        end
    end
end

-- A row and one of its handlings by the row's member <i>-<name>; nil when it is not (or no longer) that row.
local function find(member, handler)
    local name = string.sub(member, 18)
    local key = p .. ':row:' .. name
    local found = call('HMGET', key, 'i', 'S', 't', 'h' .. handler)
    if not found[1] or found[1] ~= string.sub(member, 1, 16) then return nil end
    local row = { key = key, member = member, S = found[2], t = found[3] }
    return row, found[4] and cmsgpack.unpack(found[4])
end

-- Settled rows expire by themselves, and may lose their payload at once; what is owed or dead never does.
local function tidy(key, keep_ms, drop)
    call('PEXPIRE', key, keep_ms)
    if drop then call('HDEL', key, 'b') end
end

-- Write handling h, which was in status `from`, and keep every index in step.
local function put(row, handler, h, from, keep_ms, drop)
    local pair, to = row.S .. '\31' .. handler, h[STATUS]
    local old, new = CLASS[from], CLASS[to]
    if old and old ~= new then call('ZREM', p .. ':' .. old .. ':' .. pair, row.member) end
    if new then call('ZADD', p .. ':' .. new .. ':' .. pair, h[DUE], row.member) end
    call('HSET', row.key, 'h' .. handler, cmsgpack.pack(h))
    if h[TRACK] then
        local wait = p .. ':wait:' .. h[TRACK]
        if new then
            call('HSET', wait, row.member, table.concat({ to, h[DUE], h[SEQ] or '', h[PREV] or '' }, '|'))
        elseif old then
            call('HDEL', wait, row.member)
        end
    end
    if from ~= to then
        if from then count(row.S, handler, from, -1, row.t) end
        count(row.S, handler, to, 1, row.t)
    end
    if (old == nil) ~= (new == nil) then
        if call('HINCRBY', row.key, 'o', new and 1 or -1) == 0 then
            tidy(row.key, keep_ms, drop)
        else
            call('PERSIST', row.key)
        end
    end
end

-- Take a handling: lease, higher fence, one more attempt.
local function take(row, handler, h, owner, lease_until, keep_ms, drop)
    local from = h[STATUS]
    h[STATUS], h[DUE], h[OWNER] = 'in_progress', lease_until, owner
    h[FENCE], h[ATTEMPTS] = h[FENCE] + 1, h[ATTEMPTS] + 1
    put(row, handler, h, from, keep_ms, drop)
end

local function is_held(h, fence)
    return h and h[STATUS] == 'in_progress' and h[FENCE] == fence
end
