-- One event per request. Arguments after `--`: how many keys, a prefix for idempotency keys (or "-" for none).
local count, keys, prefix = 0, 1000, "-"

function init(args)
  keys = tonumber(args[1]) or keys
  prefix = args[2] or prefix
end

function request()
  count = count + 1
  -- A prime step walks over all keys, so that neighbours in time are not neighbours in the index.
  local key = (count * 7919) % keys
  local body = string.format('{"type":"order.created","key":"customer:%d","data":{"order":%d,"total":"19.90","currency":"EUR"}}', key, count)
  local headers = { ["Content-Type"] = "application/json" }
  if prefix ~= "-" then headers["Idempotency-Key"] = prefix .. count end
  return wrk.format("POST", "/api/v1/events", headers, body)
end
