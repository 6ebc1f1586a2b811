-- rows: the rows A[1] (members), each as {member, message, field, value, …}, or false for one that is gone.
local answers = {}
for n, member in ipairs(A[1]) do
    local row = find(member, '')
    answers[n] = false
    if row then
        local all = call('HGETALL', row.key)
        answers[n] = { member, call('GET', p .. ':msg:' .. row.name), unpack(all) }
    end
end
return answers
