-- retract: take a row back that this session wrote and nobody else relies on; else make its handlings pending again.
-- {verb, member}
verbs.retract = {
    check = function() return true end,
    apply = function(w)
        local row = find(w[2], '')
        if not row then return end
        local all = call('HGETALL', row.key)
        local fields, handlings, is_used = {}, {}, false
        for at = 1, #all, 2 do
            fields[all[at]] = all[at + 1]
            if string.sub(all[at], 1, 1) == 'h' then
                local h = cmsgpack.unpack(all[at + 1])
                handlings[string.sub(all[at], 2)] = h
                if h[FENCE] > (h[STATUS] == 'in_progress' and 1 or 0) then is_used = true end
            end
        end
        if not fields.k and not is_used then
            erase(row, fields, handlings)
            call('XDEL', p .. ':rows', fields.i .. '-1')
            return
        end
        for handler, h in pairs(handlings) do
            if is_held(h, 1) and h[ATTEMPTS] == 1 then
                h[STATUS], h[ATTEMPTS], h[OWNER] = 'pending', 0, false
                put(row, handler, h, 'in_progress', A[2], A[3])
            end
        end
    end,
}
