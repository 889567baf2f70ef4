-- Takes the free lock under the next fencing token, raises the count of a hold that has it, or tells how long to wait.
--
-- The counter moves only where the free key is taken, and before anything else: what is refused there changes nothing, and a
-- token that nobody gets is a gap, which does no harm. While a hold lives nobody else moves the counter, so as it stands it is
-- the token of that hold, and a repetition reads it again. All else is as in the plain lock's acquire.
--
-- KEYS[1] lock: hash with one field, the hold; its value is the hold's count
-- KEYS[2] counter: how many fencing tokens there were, which is the newest of them; it is kept
-- ARGV[1] field: the hold that asks, `clientId:holdNumber`
-- ARGV[2] lease_ms: how long the hold shall last from now, at least (milliseconds)
-- ARGV[3] holds_after?: what the count shall be afterwards, at least; left out for an outermost acquisition, 1 (count)
-- returns {1, 0, holds, fence}: held, so many times, under this token; as text from 2^53 on, where Lua's numbers are not exact
-- returns {0, retry_in_ms, 0, 0}: busy; the key's TTL as it is, -1 where it has none
-- returns {-1, 0, 0, 0}: gone; the outer hold is not there any more, and nothing was created in its place

local lock = KEYS[1]
local counter = KEYS[2]
local field = ARGV[1]
local lease_ms = ARGV[2]
local holds_after = tonumber(ARGV[3]) or 1

local ttl_ms = redis.call('PTTL', lock)

if ttl_ms == -2 then
  if holds_after > 1 then
    return {-1, 0, 0, 0}
  end
  local fence = redis.call('INCR', counter)
  if fence >= 2^53 then
    fence = redis.call('GET', counter)
  end
  redis.call('HINCRBY', lock, field, '1')
  local timed = redis.pcall('PEXPIRE', lock, lease_ms)
  if type(timed) == 'table' then
    redis.call('DEL', lock)
    return timed
  end
  return {1, 0, 1, fence}
end

local holds = tonumber(redis.call('HGET', lock, field))
if not holds then
  return {0, ttl_ms, 0, 0}
end

-- Somebody deleted the counter, or another kind of lock made the hold: from here on it counts anew.
local fence = tonumber(redis.call('GET', counter)) or redis.call('INCR', counter)
if fence >= 2^53 then
  fence = redis.call('GET', counter)
end
if holds < holds_after then
  holds = redis.call('HINCRBY', lock, field, holds_after - holds)
end
if ttl_ms < tonumber(lease_ms) then
  redis.call('PEXPIRE', lock, lease_ms)
end
return {1, 0, holds, fence}
