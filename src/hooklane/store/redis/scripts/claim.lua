-- claim: take up to A[4] handlings that are due at A[2]; lease until A[3].
-- A[1] "due" (pending or to be retried) or "lease" (in progress, and the lease ran out); A[5] pairs of source and handler
-- Answers {member, handler, handling as taken, status before, due before, message, received at, source} for each.
local found = {}
for _, pair in ipairs(A[5]) do
    local key = p .. ':' .. A[1] .. ':' .. pair[1] .. '\31' .. pair[2]
    local due = call('ZRANGEBYSCORE', key, '-inf', A[2], 'WITHSCORES', 'LIMIT', 0, A[4])
    for at = 1, #due, 2 do
        found[#found + 1] = { due[at], tonumber(due[at + 1]), pair[2], key }
    end
end
if #A[5] > 1 then
    table.sort(found, function(a, b)
        if a[2] ~= b[2] then return a[2] < b[2] end
        if a[1] ~= b[1] then return a[1] < b[1] end
        return a[3] < b[3]
    end)
end
local answers = {}
for at = 1, math.min(#found, A[4]) do
    local member, handler = found[at][1], found[at][3]
    local row, h = find(member, handler)
    if not h then
        leave(found[at][4], member) -- its row was deleted by hand
    else
        local was, due = h[STATUS], h[DUE]
        take(row, handler, h, A[3])
        answers[#answers + 1] = { member, handler, cmsgpack.pack(h), was, string.format('%.0f', due),
            call('GET', p .. ':msg:' .. row.name), row.t, row.S }
    end
end
flush()
return answers
