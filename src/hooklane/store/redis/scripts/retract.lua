-- retract: take a row back that this session wrote and no other relies on; else make its handlings pending again.
-- {verb, member}
verbs.retract = {
    check = function() return true end,
    apply = function(w)
        local row = find(w[2], '')
        if not row then return end
        local is_used = call('HEXISTS', row.key, 'k') == 1
        local all = handlings(row.key)
        for _, h in pairs(all) do
            if h[FENCE] > (h[STATUS] == 'in_progress' and 1 or 0) then is_used = true end
        end
        if not is_used then
            erase(row)
            local place = string.sub(row.member, 1, 16)
            local entry = call('XREVRANGE', p .. ':rows', place, '-', 'COUNT', 1)[1]
            if entry then
                local names, first = listed(entry)
                local at = (tonumber(place) - first) * 22
                if string.sub(names, at + 1, at + 22) == row.name then
                    relist(entry, string.sub(names, 1, at) .. GONE .. string.sub(names, at + 23))
                end
            end
            return
        end
        for handler, h in pairs(all) do
            if is_held(h, 1) and h[ATTEMPTS] == 1 then
                h[STATUS], h[ATTEMPTS] = 'pending', 0
                put(row, handler, h, 'in_progress', A[2], A[3])
            end
        end
    end,
}
