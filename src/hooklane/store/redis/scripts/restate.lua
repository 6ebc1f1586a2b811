-- restate: change the status of a row itself, and the reason, while it is what it was when that was decided.
-- {verb, member, status, reason, the status that it must have}
verbs.restate = {
    check = function(w)
        local row = find(w[2], '')
        return row and call('HGET', row.key, 's') == w[5], row
    end,
    apply = function(w, row)
        call('HSET', row.key, 's', w[3], 'r', w[4])
        count(row.S, '', w[5], -1, row.t)
        count(row.S, '', w[3], 1, row.t)
        if w[5] == 'dead' then leave(p .. ':dead:' .. row.S .. '\31', row.member) end
        if is_settled(row.key) then tidy(row.name, A[2], A[3]) end
    end,
}
