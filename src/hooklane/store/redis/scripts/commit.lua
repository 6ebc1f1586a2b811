-- commit: the writes of one session, A[1], all of them or none. Each is {verb, …}; its verb's file says the rest.
-- A[2] keep_ms, A[3] drop.  Answers 0, or the number of the first write whose condition does not hold any more.
local checked = {}
for n, write in ipairs(A[1]) do
    local ok, what = verbs[write[1]].check(write)
    if not ok then return n end
    checked[n] = what or false
end
for n, write in ipairs(A[1]) do
    verbs[write[1]].apply(write, checked[n])
end
flush()
return 0
