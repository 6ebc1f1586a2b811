-- insert: write rows whose identity is new, with their handlings; the rest is a copy of what is there.
-- A[1]: rows of name, least place, source, received at, message, payload, own status or false,
--       handlings of {handler, packed, unpacked index part {status, due, track, seq, prev}};  A[2] keep_ms, A[3] drop
-- Answers for each row its place, or false.
local answers, last = {}, tonumber(call('GET', p .. ':clock') or '0')
for n, new in ipairs(A[1]) do
    local key = p .. ':row:' .. new[1]
    local place = last + 1
    if new[2] > place then place = new[2] end
    local i = string.format('%016.0f', place)
    if call('HSETNX', key, 'i', i) == 0 then
        call('HSET', key, 'k', 1) -- whoever was answered relies on it: it is not taken back any more
        answers[n] = false
    else
        last, answers[n] = place, i
        local S, t, open = new[3], new[4], new[7] == 'dead' and 1 or 0
        local member = i .. '-' .. new[1]
        local fields = { 'S', S, 't', t, 'm', new[5], 'b', new[6] }
        local group = S
        if new[7] then
            fields[9], fields[10] = 's', new[7]
            count(S, '', new[7], 1, t)
        end
        for _, handling in ipairs(new[8]) do
            local handler, index = handling[1], handling[3]
            local class = CLASS[index[1]]
            fields[#fields + 1] = 'h' .. handler
            fields[#fields + 1] = handling[2]
            group = group .. '\31' .. handler
            if class then
                open = open + 1
                call('ZADD', p .. ':' .. class .. ':' .. S .. '\31' .. handler, index[2], member)
                if index[3] then
                    call('HSET', p .. ':wait:' .. index[3], member,
                        table.concat({ index[1], index[2], index[4] or '', index[5] or '' }, '|'))
                end
            end
            count(S, handler, index[1], 1, t)
        end
        if open > 0 then
            fields[#fields + 1] = 'o'
            fields[#fields + 1] = open
        end
        call('HSET', key, unpack(fields))
        call('XADD', p .. ':rows', i .. '-1', 'n', new[1], 'g', group)
        if open == 0 then tidy(key, A[2], A[3]) end
    end
end
call('SET', p .. ':clock', string.format('%.0f', last))
flush()
return answers
