-- Moves the lock from one hold to another of the same client, without the lock ever being free.
--
-- The old field goes first: deleting is allowed when the server is out of memory, and after a first write the rest of a
-- script is too. Whatever is refused after that leaves the lock free and answers with the server's error; a hold that
-- nobody believes in, or one without a TTL, never stays. Nobody else may enter, so nobody is told.
--
-- KEYS[1] lock: hash with one field, the hold; its value is the hold's count
-- ARGV[1] from: the hold that ends, `clientId:holdNumber`
-- ARGV[2] to: the hold that begins, with a count of 1
-- ARGV[3] lease_ms: the new hold's life from now: exactly, when it moves; at least, when it had moved before (milliseconds)
-- returns {1}: the lock belongs to `to`
-- returns {-1}: gone; neither of the two is there, and nothing was created

local lock = KEYS[1]
local from = ARGV[1]
local to = ARGV[2]
local lease_ms = tonumber(ARGV[3])

if redis.call('HEXISTS', lock, from) == 1 then
  redis.call('HDEL', lock, from)
  redis.call('HINCRBY', lock, to, 1)
  local timed = redis.pcall('PEXPIRE', lock, lease_ms)
  if type(timed) == 'table' then
    redis.call('HDEL', lock, to)
    return timed
  end
  return {1}
end

if redis.call('HEXISTS', lock, to) == 1 then
  if redis.call('PTTL', lock) < lease_ms then
    redis.call('PEXPIRE', lock, lease_ms)
  end
  return {1}
end

return {-1}
