-- copies: add to the number of copies that arrived; A[1]: pairs of member and number.
for _, pair in ipairs(A[1]) do
    local row = find(pair[1], '')
    if row then
        call('HSETNX', row.key, 'c', 1)
        call('HINCRBY', row.key, 'c', pair[2])
    end
end
return 1
