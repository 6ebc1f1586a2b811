-- unclaim: a claim of a session that rolls back is as it was, but for the fence.
-- {verb, member, handler, fence, status, due}
verbs.unclaim = {
    check = function() return true end,
    apply = function(w)
        local row, h = find(w[2], w[3])
        if not is_held(h, w[4]) then return end
        h[STATUS], h[DUE], h[ATTEMPTS] = w[5], w[6], h[ATTEMPTS] - 1
        put(row, w[3], h, 'in_progress', A[2], A[3])
    end,
}
