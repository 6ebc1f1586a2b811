-- known: what is known about each of the rows A[1] (names).
-- Answers {head, message, own status, [handler, handling]…} or false for each.
local answers = {}
for n, name in ipairs(A[1]) do
    local all = call('HGETALL', p .. ':row:' .. name)
    local message = call('GET', p .. ':msg:' .. name)
    answers[n] = false
    if message and #all > 0 then
        local answer = { false, message, false }
        for at = 1, #all, 2 do
            if all[at] == 'i' then
                answer[1] = all[at + 1]
            elseif all[at] == 's' then
                answer[3] = all[at + 1]
            elseif string.sub(all[at], 1, 1) == 'h' then
                answer[#answer + 1] = string.sub(all[at], 2)
                answer[#answer + 1] = all[at + 1]
            end
        end
        if answer[1] then answers[n] = answer end
    end
end
return answers
