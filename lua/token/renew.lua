-- Lengthens the life of many tokens, each on its own key, in one call.
--
-- A key that is no string holds no token, so it answers for itself and does not keep the others from their renewal. A token
-- without a TTL (somebody stripped it) gets the lease; otherwise a TTL only grows.
-- A lease of -2 is less than any TTL, and than the -1 of a key without one: it only looks whether the tokens are there.
--
-- KEYS[1] lock...: one string per hold
-- ARGV[1] lease_ms: how long each hold shall last from now, at least; -2 asks for nothing (milliseconds)
-- ARGV[2] token...: the hold to renew on the key of the same place
-- returns 1: every hold lasts at least the lease
-- returns {status, ...}: one per key; 1 where the hold lasts at least the lease, -1 where it is not there

local lease_ms = ARGV[1]

local statuses = {}
local all = true
for i, lock in ipairs(KEYS) do
  local token = ARGV[i + 1]
  local holder = redis.pcall('GET', lock)
  if holder == token then
    if redis.call('PTTL', lock) < tonumber(lease_ms) then
      redis.call('PEXPIRE', lock, lease_ms)
    end
    statuses[i] = 1
  elseif type(holder) ~= 'table' or string.find(holder.err, 'WRONGTYPE', 1, true) then
    statuses[i] = -1
    all = false
  else
    return holder
  end
end
if all then
  return 1
end
return statuses
