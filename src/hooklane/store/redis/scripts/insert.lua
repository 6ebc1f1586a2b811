-- insert: write rows whose identity is new, with their handlings; the rest is a copy of what is there.
-- ARGV, flat because that is four times as quick as MessagePack: keep_ms, drop (0 or 1), number of kinds, the kinds, then
-- for each row its name, the number of its kind, its message. Rows that came together mostly are of one kind, which is:
-- number of handlings, least place, received at, source, own status or "", and for each handling: handler, itself,
-- status, due, track or "", seq or "", prev_seq or "".  Answers for each row its place, or false.
local keep_ms, drop, kinds, at = ARGV[1], ARGV[2] == '1', {}, 4
for k = 1, tonumber(ARGV[3]) do
    local handled, received, source, own = tonumber(ARGV[at]), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local kind = { least = tonumber(ARGV[at + 1]), n = 0, t = received, fields = {}, enters = {}, waits = {}, counts = {} }
    kind.tail = '|' .. handled .. '|' .. received .. '|' .. source
    kind.group, kind.is_open = source, own == 'dead'
    at = at + 5
    for _ = 1, handled do
        local handler, status, due, track = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
        local class = CLASS[status]
        table.insert(kind.fields, 'h' .. handler)
        table.insert(kind.fields, ARGV[at + 1])
        kind.group = kind.group .. '\31' .. handler
        table.insert(kind.counts, { source, handler, status })
        if class then
            kind.is_open = true
            table.insert(kind.enters, { p .. ':' .. class .. ':' .. source .. '\31' .. handler, due, {}, 0 })
            if track ~= '' then
                local line = table.concat({ status, due, ARGV[at + 5], ARGV[at + 6] }, '|')
                table.insert(kind.waits, { p .. ':wait:' .. track, line })
            end
        end
        at = at + 7
    end
    if own ~= '' then
        table.insert(kind.fields, 's')
        table.insert(kind.fields, own)
        table.insert(kind.counts, { source, '', own })
        if own == 'dead' then table.insert(kind.enters, { p .. ':dead:' .. source .. '\31', received, {}, 0 }) end
    end
    kinds[k] = kind
end

local answers, n, last = {}, 0, tonumber(call('GET', p .. ':clock') or '0')
local rows, messages, stream = p .. ':row:', p .. ':msg:', p .. ':rows'
local names, first, listing = {}, nil, nil
local function list()
    if #names > 0 then call('XADD', stream, first, 'n', table.concat(names), 'g', listing.group) end
    names = {}
end
while at <= #ARGV do
    local name, kind, message = ARGV[at], kinds[tonumber(ARGV[at + 1])], ARGV[at + 2]
    at, n = at + 3, n + 1
    if not call('SET', messages .. name, message, 'NX') then
        call('HSET', rows .. name, 'k', 1) -- the sender that is answered relies on it: it is not taken back any more
        answers[n] = false
    else
        last = last + 1
        if kind.least > last then last = kind.least end
        local place = string.format('%016.0f', last)
        answers[n] = place
        call('HSET', rows .. name, 'i', place .. kind.tail, unpack(kind.fields))
        -- One entry for all that stand next to each other: it is the dearest write otherwise.
        if kind ~= listing then
            list()
            first, listing = place, kind
        end
        names[#names + 1] = name
        kind.n = kind.n + 1
        if kind.is_open then
            local member = place .. '-' .. name
            for e = 1, #kind.enters do
                local into = kind.enters[e]
                local words, size = into[3], into[4]
                words[size + 1], words[size + 2] = into[2], member
                into[4] = size + 2
            end
            for _, wait in ipairs(kind.waits) do call('HSET', wait[1], member, wait[2]) end
        else
            tidy(name, keep_ms, drop)
        end
    end
end
list()
for _, kind in ipairs(kinds) do
    if kind.n > 0 then
        for _, of in ipairs(kind.counts) do count(of[1], of[2], of[3], kind.n, kind.t) end
        for _, into in ipairs(kind.enters) do
            for from = 1, into[4], 1000 do call('ZADD', into[1], unpack(into[3], from, math.min(from + 999, into[4]))) end
        end
    end
end
call('SET', p .. ':clock', string.format('%.0f', last))
flush()
return answers
