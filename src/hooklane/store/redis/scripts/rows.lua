-- rows: the rows A[1] (members), each as {member, field, value, …}, or false for one that is gone.
local answers = {}
for n, member in ipairs(A[1]) do
    local row = find(member, '')
    answers[n] = false
    if row then
        local all = call('HGETALL', row.key)
        table.insert(all, 1, member)
        answers[n] = all
    end
end
return answers
