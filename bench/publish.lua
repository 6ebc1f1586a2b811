-- One event per request. Arguments after `--`: how many keys, a prefix for idempotency keys (or "-" for none), a prefix
-- for keys that are new in this run (or "-" for the same keys in each), and how many events such a key gets.
local count, keys, prefix, fresh, per = 0, 1000, "-", "-", 1

function init(args)
  keys = tonumber(args[1]) or keys
  prefix = args[2] or prefix
  fresh = args[3] or fresh
  per = tonumber(args[4]) or per
end

local function key()
  -- A prime step walks over all keys, so that neighbours in time are not neighbours in the index.
  if fresh == "-" then return string.format("customer:%d", (count * 7919) % keys) end
  -- The later events of a new key come a thousand keys after its first.
  local turn = count - 1
  return string.format("order:%s%d", fresh, math.floor(turn / (1000 * per)) * 1000 + turn % 1000)
end

function request()
  count = count + 1
  local body = string.format('{"type":"order.created","key":"%s","data":{"order":%d,"total":"19.90","currency":"EUR"}}', key(), count)
  local headers = { ["Content-Type"] = "application/json" }
  if prefix ~= "-" then headers["Idempotency-Key"] = prefix .. count end
  return wrk.format("POST", "/api/v1/events", headers, body)
end
