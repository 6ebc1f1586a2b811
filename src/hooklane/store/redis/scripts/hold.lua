-- hold: make the session A[2] the holder of the track A[1] for A[3] ms; nothing when another session is.
-- Answers {seq, at, tie, token, version, [member, status|due|seq|prev_seq]…}; with A[2] "" it only looks.
if A[2] ~= '' then
    local lock = p .. ':lock:' .. A[1]
    local holder = call('GET', lock)
    if holder and holder ~= A[2] then return false end
    call('SET', lock, A[2], 'PX', A[3])
end
local answer = call('HMGET', p .. ':track:' .. A[1], 'q', 'a', 'e', 'k', 'v')
for _, part in ipairs(call('HGETALL', p .. ':wait:' .. A[1])) do
    answer[#answer + 1] = part
end
return answer
