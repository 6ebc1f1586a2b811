-- settle: give a handling up by hand: what was dead, held, failed or pending ends with a note.
-- {verb, member, handler, status, note, now, the status that it must have or ''}
verbs.settle = {
    check = function(w)
        local row, h = find(w[2], w[3])
        local as_seen = h and (w[7] == '' or h[STATUS] == w[7])
        return as_seen and CLASS[h[STATUS]] and h[STATUS] ~= 'in_progress', { row, h }
    end,
    apply = function(w, found)
        local row, h = found[1], found[2]
        local from = h[STATUS]
        h[STATUS], h[ERROR], h[SETTLED], h[FENCE] = w[4], w[5], w[6], h[FENCE] + 1
        put(row, w[3], h, from, A[2], A[3])
    end,
}
