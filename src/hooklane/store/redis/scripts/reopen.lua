-- reopen: owe a handling again, attempts from zero, with a higher fence, unless a lease on it lives or the payload is gone.
-- {verb, member, handler, now, the status that it must have or ''}
verbs.reopen = {
    check = function(w)
        local row, h = find(w[2], w[3])
        local as_seen = h and (w[5] == '' or h[STATUS] == w[5])
        local is_taken = h and h[STATUS] == 'in_progress' and h[DUE] > w[4]
        return as_seen and not is_taken and has_payload(row.name), { row, h }
    end,
    apply = function(w, found)
        local row, h = found[1], found[2]
        local from = h[STATUS]
        h[STATUS], h[DUE], h[ATTEMPTS], h[FENCE], h[SETTLED] = 'pending', w[4], 0, h[FENCE] + 1, false
        put(row, w[3], h, from, A[2], A[3])
    end,
}
