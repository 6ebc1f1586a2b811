-- forget: remove up to A[3] tombstones that are older than A[1], of the source A[2] or of all ("").
-- A[4] the entry of p:digests to begin after; A[5] how many entries to look at.  Answers as prune does.
local forgotten, last = 0, A[4]
local entries = call('XRANGE', p .. ':digests', '(' .. last, '+', 'COUNT', A[5])
for _, entry in ipairs(entries) do
    if forgotten >= A[3] then break end
    last = entry[1]
    local name, source, seen = entry[2][2], entry[2][4], entry[2][6]
    if tonumber(seen) < A[1] and (A[2] == '' or A[2] == source) then
        forgotten = forgotten + call('DEL', p .. ':digest:' .. name)
        call('XDEL', p .. ':digests', entry[1])
    end
end
return { forgotten, last, (#entries < A[5] and (#entries == 0 or last == entries[#entries][1])) and 1 or 0 }
