-- remember: leave a tombstone, unless another session left one since this one looked.
-- {verb, name, tombstone, keep_ms, source, seen at}
verbs.remember = {
    check = function(w) return call('EXISTS', p .. ':digest:' .. w[2]) == 0 end,
    apply = function(w)
        call('SET', p .. ':digest:' .. w[2], w[3], 'PX', w[4])
        call('XADD', p .. ':digests', '*', 'n', w[2], 'S', w[5], 't', w[6])
    end,
}
