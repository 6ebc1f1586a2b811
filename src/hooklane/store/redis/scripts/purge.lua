-- purge: forget the payloads, not the ids, of up to A[3] rows as prune would find them; arguments and answer as there.
local purged, last = 0, A[4]
local entries = call('XRANGE', p .. ':rows', '(' .. last, A[6] .. '-1', 'COUNT', A[5])
for _, entry in ipairs(entries) do
    if purged >= A[3] then break end
    last = entry[1]
    local key = p .. ':row:' .. entry[2][2]
    local found = call('HMGET', key, 't', 'S', 'o', 's')
    if found[1] and tonumber(found[1]) < A[1] and (A[2] == '' or A[2] == found[2])
        and tonumber(found[3] or '0') <= 0 and found[4] ~= 'dead' then
        purged = purged + call('HDEL', key, 'b')
    end
end
return { purged, last, (#entries < A[5] and (#entries == 0 or last == entries[#entries][1])) and 1 or 0 }
