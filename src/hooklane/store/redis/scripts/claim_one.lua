-- claim_one: take the handling of A[2] on the row A[1] (its member) unless it is settled or a lease on it lives at A[3].
-- A[4] end of the new lease.  Answers as claim does, or false.
local row, h = find(A[1], A[2])
if not h then return false end
local was, due = h[STATUS], h[DUE]
if not CLASS[was] or was == 'dead' or (was == 'in_progress' and due > A[3]) then return false end
take(row, A[2], h, A[4])
flush()
return { A[1], A[2], cmsgpack.pack(h), was, string.format('%.0f', due), call('GET', p .. ':msg:' .. row.name), row.t, row.S }
