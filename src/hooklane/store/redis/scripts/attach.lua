-- attach: owe a row that is there to one more handler.
-- {verb, member, handler, handling}
verbs.attach = {
    check = function(w)
        local row, h = find(w[2], w[3])
        return row and not h, row
    end,
    apply = function(w, row)
        put(row, w[3], w[4], nil, A[2], A[3])
    end,
}
