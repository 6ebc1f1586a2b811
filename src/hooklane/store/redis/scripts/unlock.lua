-- unlock: a session lets go of a track.
-- {verb, track, token}
verbs.unlock = {
    check = function() return true end,
    apply = function(w)
        local lock = p .. ':lock:' .. w[2]
        if call('GET', lock) == w[3] then call('DEL', lock) end
    end,
}
