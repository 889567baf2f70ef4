-- Lengthens the life of many holds, each on its own key, in one call.
--
-- A key that is not a hash holds nothing, so it answers for itself and does not keep the others from their renewal. A hold
-- without a TTL (somebody stripped it) gets the lease; otherwise a TTL only grows.
-- A lease of -2 is less than any TTL, and than the -1 of a key without one: it only looks whether the holds are there.
--
-- KEYS[1] lock...: one hash per hold
-- ARGV[1] lease_ms: how long each hold shall last from now, at least; -2 asks for nothing (milliseconds)
-- ARGV[2] field...: the hold to renew on the key of the same place, `clientId:holdNumber`
-- returns {status, ...}: one per key; 1 where the hold lasts at least the lease, -1 where it is not there

local lease_ms = ARGV[1]

local statuses = {}
for i, lock in ipairs(KEYS) do
  local field = ARGV[i + 1]
  local there = redis.pcall('HEXISTS', lock, field)
  if there == 1 then
    if redis.call('PTTL', lock) < tonumber(lease_ms) then
      redis.call('PEXPIRE', lock, lease_ms)
    end
    statuses[i] = 1
  elseif there == 0 or string.find(there.err, 'WRONGTYPE', 1, true) then
    statuses[i] = -1
  else
    return there
  end
end
return statuses
