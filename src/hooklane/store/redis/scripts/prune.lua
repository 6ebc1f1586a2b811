-- prune: remove up to A[3] rows received before A[1] that owe nothing and are not dead, of the source A[2] or of all ("").
-- A[4] the entry of p:rows to begin after; A[5] how many entries to look at; A[6] the place where to stop
-- Answers {removed, last entry that was looked at to its end, 1 when there is no more}.
local gone, last = 0, A[4]
local entries = call('XRANGE', p .. ':rows', '(' .. last, A[6], 'COUNT', A[5])
for _, entry in ipairs(entries) do
    local names, first = listed(entry)
    local left, changed = {}, false
    for at = 0, #names / 22 - 1 do
        local name = string.sub(names, at * 22 + 1, at * 22 + 22)
        left[at + 1] = name
        if name ~= GONE and gone < A[3] then
            local row = find(string.format('%016.0f', first + at) .. '-' .. name, '')
            if not row then
                -- It expired by itself: its counts are still to be taken back. What expires was completed, as a rule.
                local source = nil
                for part in string.gmatch(entry[2][4] .. '\31', '([^\31]*)\31') do
                    if source then count(source, part, 'completed', -1, 0) else source = part end
                end
                left[at + 1], changed = GONE, true
            elseif tonumber(row.t) < A[1] and (A[2] == '' or A[2] == row.S) and is_settled(row.key) then
                erase(row)
                gone = gone + 1
                left[at + 1], changed = GONE, true
            end
        end
    end
    if changed then relist(entry, table.concat(left)) end
    if gone >= A[3] then break end
    last = entry[1]
end
flush()
return { gone, last, #entries < A[5] and (#entries == 0 or last == entries[#entries][1]) and 1 or 0 }
