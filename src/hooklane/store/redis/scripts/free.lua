-- free: a handling that was held may be claimed, from w[4] on. One that moved meanwhile stays as it is.
-- {verb, member, handler, now}
verbs.free = {
    check = function(w)
        local row, h = find(w[2], w[3])
        return true, row and h and { row, h }
    end,
    apply = function(w, found)
        if not found or found[2][STATUS] ~= 'held' then return end
        found[2][STATUS], found[2][DUE] = 'pending', w[4]
        put(found[1], w[3], found[2], 'held', A[2], A[3])
    end,
}
