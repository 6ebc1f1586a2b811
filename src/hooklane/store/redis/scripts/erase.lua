-- erase: a row, its message, its handlings and its counts are gone; the caller relists the entry of p:rows.
function erase(row)
    local own = call('HGET', row.key, 's')
    for handler, h in pairs(handlings(row.key)) do
        count(row.S, handler, h[STATUS], -1, row.t)
        local class = CLASS[h[STATUS]]
        if class then
            leave(p .. ':' .. class .. ':' .. row.S .. '\31' .. handler, row.member)
            if h[TRACK] then call('HDEL', p .. ':wait:' .. h[TRACK], row.member) end
        end
    end
    if own then count(row.S, '', own, -1, row.t) end
    if own == 'dead' then leave(p .. ':dead:' .. row.S .. '\31', row.member) end
    call('DEL', row.key, p .. ':msg:' .. row.name)
end
