-- insert: write rows whose identity is new, with their handlings; the rest is a copy of what is there.
-- ARGV, flat because that is four times as quick: keep_ms, drop (0 or 1), then for each row: name, least place, received
-- at, source, own status or "", message, number of handlings, and for each: handler, itself, status, due, track or "",
-- seq or "", prev_seq or "".  Answers for each row its place, or false.
local keep_ms, drop, at = ARGV[1], ARGV[2] == '1', 3
local answers, n, last = {}, 0, tonumber(call('GET', p .. ':clock') or '0')
local rows, messages, stream = p .. ':row:', p .. ':msg:', p .. ':rows'
while at <= #ARGV do
    local name, received, source, own, handled = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], tonumber(ARGV[at + 6])
    local key, first = rows .. name, at + 7
    at, n = first + handled * 7, n + 1
    if not call('SET', messages .. name, ARGV[first - 2], 'NX') then
        call('HSET', key, 'k', 1) -- whoever is answered relies on it: it is not taken back any more
        answers[n] = false
    else
        local place = last + 1
        local least = tonumber(ARGV[first - 6])
        if least > place then place = least end
        last = place
        local digits = string.format('%016.0f', place)
        local member, group, is_open = digits .. '-' .. name, source, own == 'dead'
        answers[n] = digits
        local fields = { 'i', digits .. '|' .. handled .. '|' .. received .. '|' .. source }
        for h = first, at - 1, 7 do
            local handler, status = ARGV[h], ARGV[h + 2]
            local class = CLASS[status]
            fields[#fields + 1] = 'h' .. handler
            fields[#fields + 1] = ARGV[h + 1]
            group = group .. '\31' .. handler
            if class then
                is_open = true
                enter(p .. ':' .. class .. ':' .. source .. '\31' .. handler, member, ARGV[h + 3])
                if ARGV[h + 4] ~= '' then
                    call('HSET', p .. ':wait:' .. ARGV[h + 4], member,
                        table.concat({ status, ARGV[h + 3], ARGV[h + 5], ARGV[h + 6] }, '|'))
                end
            end
            count(source, handler, status, 1, received)
        end
        if own ~= '' then
            fields[#fields + 1] = 's'
            fields[#fields + 1] = own
            count(source, '', own, 1, received)
        end
        call('HSET', key, unpack(fields))
        call('XADD', stream, digits .. '-1', 'n', name, 'g', group)
        if not is_open then tidy(name, keep_ms, drop) end
    end
end
call('SET', p .. ':clock', string.format('%.0f', last))
flush()
return answers
