-- cover: complete a handling that no worker is at, because another one's fetch covers it.
-- {verb, member, handler, now}
verbs.cover = {
    check = function(w)
        local row, h = find(w[2], w[3])
        return true, row and h and { row, h }
    end,
    apply = function(w, found)
        if not found then return end
        local row, h = found[1], found[2]
        local from = h[STATUS]
        if from ~= 'pending' and from ~= 'failed' then return end
        h[STATUS], h[SETTLED], h[ERROR], h[TRACEBACK] = 'completed', w[4], false, false
        put(row, w[3], h, from, A[2], A[3])
    end,
}
