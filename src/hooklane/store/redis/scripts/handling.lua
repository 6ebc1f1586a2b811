-- handling: the handling of A[2] (a handler) on the row A[1] (its member), or false.
local row, h = find(A[1], A[2])
return row and h and cmsgpack.pack(h)
