-- keep_clock: note that the clock of the host A[1] says A[2], for A[4] ms. Where that is more than A[3] ms behind what was
-- noted, all that waits and all leases move by as much, but not before now.  Answers by how much.
local noted = p .. ':clock:' .. A[1]
local by = tonumber(call('GET', noted) or '0') - A[2]
call('SET', noted, string.format('%.0f', A[2]), 'PX', A[4])
if by <= A[3] then return 0 end
local seen, all = {}, call('HKEYS', p .. ':count')
for at = 1, #all do
    local source, status, handler = string.match(all[at], '^(.-)\31(.-)\31(.*)$')
    local class = CLASS[status]
    local key = class and class ~= 'dead' and p .. ':' .. class .. ':' .. source .. '\31' .. handler
    if key and not seen[key] then
        seen[key] = true
        for _, member in ipairs(call('ZRANGEBYSCORE', key, '(' .. string.format('%.0f', A[2]), '+inf')) do
            local row, h = find(member, handler)
            if h then
                h[DUE] = math.max(A[2], h[DUE] - by)
                put(row, handler, h, h[STATUS])
            end
        end
    end
end
flush()
return by
