-- attach: owe a row that is there with its payload to one more handler; its own status is over.
-- {verb, member, handler, handling}
verbs.attach = {
    check = function(w)
        local row, h = find(w[2], w[3])
        return row and not h and has_payload(row.name)
    end,
    apply = function(w)
        local row = find(w[2], '') -- anew: another attachment of this commit may have counted itself
        call('HSET', row.key, 'i', table.concat({ string.sub(row.member, 1, 16), row.n + 1, row.t, row.S }, '|'))
        put(row, w[3], w[4], nil, A[2], A[3])
        local own = call('HGET', row.key, 's')
        if own then
            call('HDEL', row.key, 's')
            count(row.S, '', own, -1, row.t)
            if own == 'dead' then leave(p .. ':dead:' .. row.S .. '\31', row.member) end
        end
    end,
}
