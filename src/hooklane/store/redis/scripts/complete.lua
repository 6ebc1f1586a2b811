-- complete: settle a handling for the holder of its fence.
-- {verb, member, handler, fence, status, now}
verbs.complete = {
    check = function(w)
        local row, h = find(w[2], w[3])
        return is_held(h, w[4]), { row, h }
    end,
    apply = function(w, found)
        local row, h = found[1], found[2]
        h[STATUS], h[SETTLED], h[ERROR], h[TRACEBACK] = w[5], w[6], false, false
        put(row, w[3], h, 'in_progress', A[2], A[3])
    end,
}
