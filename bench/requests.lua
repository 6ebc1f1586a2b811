-- Requests that are ready to be sent, one after the other, from the file that is named after `--`; a NUL ends each.
local ready, place = {}, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  for one in string.gmatch(file:read("*a"), "([^%z]+)%z") do ready[#ready + 1] = one end
  file:close()
end

function request()
  place = place % #ready + 1
  return ready[place]
end
