-- Takes the free lock, raises the count of a hold that has it already, or tells how long somebody else still may have it.
--
-- The count is written before the time: where the server is out of memory the first write decides, and the count is the
-- one that it refuses, so that a refused call changes nothing. A new hold whose time cannot be set is taken back, since
-- it would stay for ever. An own hold without a TTL (somebody stripped it) gets the lease; otherwise the TTL only grows.
--
-- KEYS[1] lock: hash with one field, the hold; its value is the hold's count
-- ARGV[1] field: the hold that asks, `clientId:holdNumber`
-- ARGV[2] lease_ms: how long the hold shall last from now, at least (milliseconds)
-- ARGV[3] holds_after: what the count shall be afterwards, at least; 1 for an outermost acquisition (count)
-- returns {1, 0, holds, 0}: held, `holds` times
-- returns {0, retry_in_ms, 0, 0}: busy; the key's TTL as it is, -1 where it has none
-- returns {-1, 0, 0, 0}: gone; the outer hold is not there any more, and nothing was created in its place

local lock = KEYS[1]
local field = ARGV[1]
local lease_ms = tonumber(ARGV[2])
local holds_after = tonumber(ARGV[3])

local ttl_ms = redis.call('PTTL', lock)

if ttl_ms == -2 then
  if holds_after > 1 then
    return {-1, 0, 0, 0}
  end
  redis.call('HINCRBY', lock, field, 1)
  local timed = redis.pcall('PEXPIRE', lock, lease_ms)
  if type(timed) == 'table' then
    redis.call('DEL', lock)
    return timed
  end
  return {1, 0, 1, 0}
end

local holds = tonumber(redis.call('HGET', lock, field))
if not holds then
  return {0, ttl_ms, 0, 0}
end

if holds < holds_after then
  holds = redis.call('HINCRBY', lock, field, holds_after - holds)
end
if ttl_ms < lease_ms then
  redis.call('PEXPIRE', lock, lease_ms)
end
return {1, 0, holds, 0}
