-- counts: how many handlings are in which status, as {group, number, received at of the oldest} for each.
-- What is owed or dead is looked at; of what is settled the first that was counted is told.
local OLDEST = 50
local answers, all = {}, call('HGETALL', p .. ':count')
for at = 1, #all, 2 do
    local group, number = all[at], all[at + 1]
    local source, status, handler = string.match(group, '^(.-)\31(.-)\31(.*)$')
    local class, oldest = CLASS[status], nil
    if class and handler ~= '' then
        local members = call('ZRANGE', p .. ':' .. class .. ':' .. source .. '\31' .. handler, 0, 9999)
        table.sort(members)
        for n = 1, #members do
            if n > OLDEST and oldest then break end
            local row, h = find(members[n], handler)
            if h and h[STATUS] == status then
                local t = tonumber(row.t)
                if not oldest or t < oldest then oldest = t end
            end
        end
    end
    answers[#answers + 1] = { group, number, string.format('%.0f', oldest or tonumber(call('HGET', p .. ':since', group) or '0')) }
end
return answers
