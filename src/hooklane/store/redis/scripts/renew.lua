-- renew: a longer lease (until A[4]) on the handling of A[2] on the row A[1], for the holder of the fence A[3] only.
local row, h = find(A[1], A[2])
if not is_held(h, A[3]) then return 0 end
h[DUE] = A[4]
put(row, A[2], h, 'in_progress')
flush()
return 1
