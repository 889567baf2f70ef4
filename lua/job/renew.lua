-- Lengthens attempts that run, each on its own record, in one call.
--
-- A record that is no hash has no attempt, so it answers for itself and does not keep the others from their renewal. The record's
-- time to live goes first: no lack of memory refuses that, nor then the attempt's.
-- A lease of -2 is no time: it only looks whether the attempts run.
--
-- KEYS[1] job...: one hash per attempt
-- ARGV[1] lease_ms: how long each shall last from now, at least; -2 asks for nothing (milliseconds)
-- ARGV[2] field...: the attempt to renew on the record of the same place, `clientId:holdNumber`
-- returns 1: every attempt lasts at least the lease
-- returns {status, ...}: one per record; 1 where the attempt lasts at least the lease, -1 where it does not run any more

local lease_ms = tonumber(ARGV[1])

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local statuses = {}
local all = true
for i, job in ipairs(KEYS) do
  local field = ARGV[i + 1]
  local read = redis.pcall('HMGET', job, 'run', 'until')
  if read[1] == field then
    if lease_ms > 0 then
      local ttl_ms = redis.call('PTTL', job)
      local life_ms = string.format('%.0f', math.max(ttl_ms, lease_ms))
      redis.call('PEXPIRE', job, life_ms)
      local until_ms = tonumber(read[2]) or 0
      if until_ms < now_ms + lease_ms then
        redis.call('HSET', job, 'until', string.format('%.0f', now_ms + lease_ms))
      end
    end
    statuses[i] = 1
  elseif not read.err or string.find(read.err, 'WRONGTYPE', 1, true) then
    statuses[i] = -1
    all = false
  else
    return read
  end
end
if all then
  return 1
end
return statuses
