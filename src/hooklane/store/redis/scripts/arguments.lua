-- arguments: all but insert get theirs as one MessagePack.
local A = cmsgpack.unpack(ARGV[1])
