-- track: what a session made of a track that it held, unless another session changed it since.
-- {verb, track, version, name, seq, at or false, tie, token or false}
verbs.track = {
    check = function(w)
        return tonumber(call('HGET', p .. ':track:' .. w[2], 'v') or '0') == w[3]
    end,
    apply = function(w)
        local key = p .. ':track:' .. w[2]
        call('HSET', key, 'n', w[4], 'q', w[5], 'v', w[3] + 1)
        if w[6] then call('HSET', key, 'a', w[6], 'e', w[7]) end
        if w[8] then call('HSET', key, 'k', w[8]) end
    end,
}
