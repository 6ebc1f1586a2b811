-- A hundred events per request, over 1,000 keys. The bodies are made once: making one costs more than sending it.
local bodies, count = {}, 0

function init()
  for body = 0, 49 do
    local events = {}
    for n = 1, 100 do
      local order = body * 100 + n
      events[n] = string.format('{"type":"order.created","key":"customer:%d","data":{"order":%d,"total":"19.90","currency":"EUR"}}', (order * 7919) % 1000, order)
    end
    bodies[body] = '{"events":[' .. table.concat(events, ',') .. ']}'
  end
end

function request()
  count = count + 1
  return wrk.format("POST", "/api/v1/events/batch", { ["Content-Type"] = "application/json" }, bodies[count % 50])
end
