-- fail: record a failure (failed, dead, held or pending again) for the holder of the fence.
-- {verb, member, handler, fence, status, due, error, traceback, now, attempts or false}
verbs.fail = {
    check = function(w)
        local row, h = find(w[2], w[3])
        return is_held(h, w[4]), { row, h }
    end,
    apply = function(w, found)
        local row, h = found[1], found[2]
        h[STATUS], h[DUE], h[ERROR], h[TRACEBACK] = w[5], w[6], w[7], w[8]
        h[SETTLED] = w[5] == 'dead' and w[9]
        if w[10] then h[ATTEMPTS] = w[10] end
        put(row, w[3], h, 'in_progress', A[2], A[3])
    end,
}
