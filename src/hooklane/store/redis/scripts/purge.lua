-- purge: forget the payloads, not the ids, of up to A[3] rows as prune would find them; arguments and answer as there.
local purged, last = 0, A[4]
local entries = call('XRANGE', p .. ':rows', '(' .. last, A[6], 'COUNT', A[5])
for _, entry in ipairs(entries) do
    local names, first = listed(entry)
    for at = 0, #names / 22 - 1 do
        local name = string.sub(names, at * 22 + 1, at * 22 + 22)
        if name ~= GONE and purged < A[3] then
            local row = find(string.format('%016.0f', first + at) .. '-' .. name, '')
            if row and tonumber(row.t) < A[1] and (A[2] == '' or A[2] == row.S) and is_settled(row.key) then
                purged = purged + drop_payload(row.name)
            end
        end
    end
    if purged >= A[3] then break end
    last = entry[1]
end
return { purged, last, #entries < A[5] and (#entries == 0 or last == entries[#entries][1]) and 1 or 0 }
