-- erase: a row, its handlings and its counts are gone.
function erase(row, fields, handlings)
    for handler, h in pairs(handlings) do
        count(row.S, handler, h[STATUS], -1, row.t)
        local class = CLASS[h[STATUS]]
        if class then
            call('ZREM', p .. ':' .. class .. ':' .. row.S .. '\31' .. handler, row.member)
            if h[TRACK] then call('HDEL', p .. ':wait:' .. h[TRACK], row.member) end
        end
    end
    if fields.s then count(row.S, '', fields.s, -1, row.t) end
    call('DEL', row.key)
end
