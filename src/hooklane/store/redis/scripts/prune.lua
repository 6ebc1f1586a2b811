-- prune: remove up to A[3] rows received before A[1] that owe nothing and are not dead, of the source A[2] or of all ("").
-- A[4] the entry of p:rows to begin after; A[5] how many entries to look at; A[6] the place where to stop
-- Answers {removed, last entry looked at, 1 when there is no more}.
local removed, last = 0, A[4]
local entries = call('XRANGE', p .. ':rows', '(' .. last, A[6] .. '-1', 'COUNT', A[5])
for _, entry in ipairs(entries) do
    if removed >= A[3] then break end
    last = entry[1]
    local place, name, group = string.sub(entry[1], 1, -3), entry[2][2], entry[2][4]
    local member = string.format('%016.0f', tonumber(place)) .. '-' .. name
    local key = p .. ':row:' .. name
    local found = call('HMGET', key, 'i', 't', 'S', 'o', 's')
    if not found[1] or found[1] ~= string.sub(member, 1, 16) then
        -- It expired by itself: its counts are still to be taken back. What expires was completed, as a rule.
        call('XDEL', p .. ':rows', entry[1])
        local source = nil
        for part in string.gmatch(group .. '\31', '([^\31]*)\31') do
            if source then count(source, part, 'completed', -1, 0) else source = part end
        end
    elseif tonumber(found[2]) < A[1] and (A[2] == '' or A[2] == found[3])
        and tonumber(found[4] or '0') <= 0 and found[5] ~= 'dead' then
        local all, fields, handlings = call('HGETALL', key), {}, {}
        for at = 1, #all, 2 do
            fields[all[at]] = all[at + 1]
            if string.sub(all[at], 1, 1) == 'h' then handlings[string.sub(all[at], 2)] = cmsgpack.unpack(all[at + 1]) end
        end
        erase({ key = key, member = member, S = found[3], t = found[2] }, fields, handlings)
        call('XDEL', p .. ':rows', entry[1])
        removed = removed + 1
    end
end
flush()
return { removed, last, (#entries < A[5] and (#entries == 0 or last == entries[#entries][1])) and 1 or 0 }
