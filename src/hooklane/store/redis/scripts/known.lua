-- known: what is known about each of the rows A[1] (names).
-- Answers {place, message, own status, [handler, handling]…} or false for each.
local answers = {}
for n, name in ipairs(A[1]) do
    local key = p .. ':row:' .. name
    local fields = { 'i', 'm', 's' }
    for _, field in ipairs(call('HKEYS', key)) do
        if string.sub(field, 1, 1) == 'h' then fields[#fields + 1] = field end
    end
    local values = call('HMGET', key, unpack(fields))
    answers[n] = false
    if values[1] then
        local answer = { values[1], values[2], values[3] }
        for at = 4, #fields do
            answer[#answer + 1] = string.sub(fields[at], 2)
            answer[#answer + 1] = values[at]
        end
        answers[n] = answer
    end
end
return answers
