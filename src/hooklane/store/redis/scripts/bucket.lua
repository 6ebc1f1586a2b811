-- What every script of the inbox begins with. KEYS[1] = p, the prefix of a bucket such as "hl:{3}": its hash tag puts
-- all keys below into one slot of a cluster. Scripts use no command that Redis 6.2 does not have.
--
--   p:row:<name>            hash    one row. <name> is a digest of its identity (source, account, event id, variant)
--     i  <place>|<handlings>|<received at, ms>|<source>; the place: 16 digits, larger for later rows
--     s  status of the row itself, unless pending          c  copies, unless 1
--     r  why it is in that status, where a person said so
--     k  1: a copy was answered, so the row is relied on   h<handler>  a handling, MessagePack, in the order below
--   p:msg:<name>            string  the message: length of its head (4 bytes), head, payload; without payload once purged
--   p:rows                  stream  every row in order of arrival. Rows of one kind that came together are one entry:
--                                     <place of the first>-0 -> n their names, 22 letters each, g source and handlers
--   p:left                  hash    <place of the first> -> its names, those that are gone as dots
--   p:due|lease|held|dead:<source>\31<handler>   zset  handlings in that state; member <place>-<name>, score due_at
--                                     (dead rows that have no handling: under no handler)
--   p:count                 hash    <source>\31<status>\31<handler> -> how many
--   p:since                 hash    the same -> received at, of the first one counted
--   p:clock                 string  the largest place given out
--   p:clock:<host>          string  what time it was there at the last look; expires
--   p:track:<name>          hash    n name, q seq, a at, e tie, k state token, v version
--   p:wait:<track name>     hash    what is owed to a track: <place>-<name> -> status|due|seq|prev_seq
--   p:lock:<track name>     string  the session that holds the track; expires
--   p:digest:<name>         string  tombstone of some bytes: MessagePack of event id and time; expires
--   p:digests               stream  every tombstone in order: n <name>, S source, t seen at
--   p:meta                  hash    layout and number of buckets (bucket 0 only)
--   p:beat                  hash    the heartbeat (bucket 0 only)
local p, call = KEYS[1], redis.call

-- Places in a handling.
local STATUS, FENCE, ATTEMPTS, DUE, TRACK, KEY, SEQ, PREV, ERROR, TRACEBACK, SETTLED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
local CLASS = { pending = 'due', failed = 'due', in_progress = 'lease', held = 'held', dead = 'dead' }

-- Indexes and counts are written once per key and script, not once per row: see flush.
local counted, added, removed = {}, {}, {}

local function count(source, handler, status, n, t)
    local group = source .. '\31' .. status .. '\31' .. handler
    local entry = counted[group]
    if entry then
        entry[1] = entry[1] + n
    else
        counted[group] = { n, t }
    end
end

local function enter(key, member, score)
    local of = added[key]
    if not of then
        of = {}
        added[key] = of
    end
    of[member] = score
    if removed[key] then removed[key][member] = nil end
end

local function leave(key, member)
    local of = removed[key]
    if not of then
        of = {}
        removed[key] = of
    end
    of[member] = true
    if added[key] then added[key][member] = nil end
end

local function flush()
    for key, members in pairs(removed) do
        local words = {}
        for member in pairs(members) do words[#words + 1] = member end
        for at = 1, #words, 1000 do call('ZREM', key, unpack(words, at, math.min(at + 999, #words))) end
    end
    for key, members in pairs(added) do
        local words, n = {}, 0
        for member, score in pairs(members) do
            words[n + 1], words[n + 2] = score, member
            n = n + 2
        end
        for at = 1, n, 1000 do call('ZADD', key, unpack(words, at, math.min(at + 999, n))) end
    end
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

-- A row and one of its handlings by the row's member <place>-<name>; nil when it is not (or no longer) that row.
local function find(member, handler)
    local name = string.sub(member, 18)
    local key = p .. ':row:' .. name
    local found = call('HMGET', key, 'i', 'h' .. handler)
    if not found[1] or string.sub(found[1], 1, 16) ~= string.sub(member, 1, 16) then return nil end
    local n, t, S = string.match(found[1], '^%d+|(%d+)|(%-?%d+)|(.*)$')
    local row = { key = key, name = name, member = member, S = S, t = t, n = tonumber(n) }
    return row, found[2] and cmsgpack.unpack(found[2])
end

-- The handlings of a row, by handler.
local function handlings(key)
    local found, all = {}, call('HGETALL', key)
    for at = 1, #all, 2 do
        if string.sub(all[at], 1, 1) == 'h' then found[string.sub(all[at], 2)] = cmsgpack.unpack(all[at + 1]) end
    end
    return found
end

-- Whether a row owes nothing and is not dead.
local function is_settled(key)
    if call('HGET', key, 's') == 'dead' then return false end
    for _, h in pairs(handlings(key)) do
        if CLASS[h[STATUS]] then return false end
    end
    return true
end

-- The length of a message without its payload, by its beginning.
local function head_of(message)
    local a, b, c, d = string.byte(message, 1, 4)
    return 4 + ((a * 256 + b) * 256 + c) * 256 + d
end

local function has_payload(name)
    local key = p .. ':msg:' .. name
    local length = call('STRLEN', key)
    return length > 0 and length > head_of(call('GETRANGE', key, 0, 3))
end

local function drop_payload(name)
    if not has_payload(name) then return 0 end
    local key = p .. ':msg:' .. name
    local message = call('GET', key)
    call('SET', key, string.sub(message, 1, head_of(message)), 'KEEPTTL')
    return 1
end

-- Settled rows expire by themselves, and may lose their payload at once; what is owed or dead never does.
local function tidy(name, keep_ms, drop)
    call('PEXPIRE', p .. ':row:' .. name, keep_ms)
    call('PEXPIRE', p .. ':msg:' .. name, keep_ms)
    if drop then drop_payload(name) end
end

-- Write handling h, which was in status `from`, and keep every index in step.
local function put(row, handler, h, from, keep_ms, drop)
    local pair, to = row.S .. '\31' .. handler, h[STATUS]
    local old, new = CLASS[from], CLASS[to]
    if old and old ~= new then leave(p .. ':' .. old .. ':' .. pair, row.member) end
    if new then enter(p .. ':' .. new .. ':' .. pair, row.member, h[DUE]) end
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
    if old and not new then
        if row.n == 1 or is_settled(row.key) then tidy(row.name, keep_ms, drop) end
    elseif new and not old then
        call('PERSIST', row.key)
        call('PERSIST', p .. ':msg:' .. row.name)
    end
end

-- Take a handling: lease, higher fence, one more attempt.
local function take(row, handler, h, lease_until)
    local from = h[STATUS]
    h[STATUS], h[DUE] = 'in_progress', lease_until
    h[FENCE], h[ATTEMPTS] = h[FENCE] + 1, h[ATTEMPTS] + 1
    put(row, handler, h, from)
end

-- The names in an entry of p:rows, those that are gone as dots, and the place of the first.
local GONE = string.rep('.', 22)
local function listed(entry)
    local first = string.match(entry[1], '^%d+')
    return call('HGET', p .. ':left', first) or entry[2][2], tonumber(first)
end

-- Note that some rows of an entry are gone; the entry goes with the last of them.
local function relist(entry, names)
    local first = string.match(entry[1], '^%d+')
    if string.find(names, '[^.]') then
        call('HSET', p .. ':left', first, names)
    else
        call('XDEL', p .. ':rows', entry[1])
        call('HDEL', p .. ':left', first)
    end
end

local function is_held(h, fence)
    return h and h[STATUS] == 'in_progress' and h[FENCE] == fence
end
