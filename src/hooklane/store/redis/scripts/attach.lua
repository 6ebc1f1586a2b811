-- attach: owe a row that is there to one more handler.
-- {verb, member, handler, handling}
verbs.attach = {
    check = function(w)
        local row, h = find(w[2], w[3])
        return row and not h, row
    end,
    apply = function(w, row)
        call('HSET', row.key, 'i', table.concat({ string.sub(row.member, 1, 16), row.n + 1, row.t, row.S }, '|'))
        put(row, w[3], w[4], nil, A[2], A[3])
    end,
}
