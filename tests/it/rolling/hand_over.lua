-- Moves the lock from one hold to another of the same client, without the lock ever being free.
--
-- The new field comes before the old one goes: a hash without fields is no key, and a node of a cluster that is giving the
-- slot away refuses whatever a script asks of a key that is not there. First of all a field goes that is not there: deleting
-- is allowed when the server is out of memory, and after a first write the rest of a script is too. Whatever is refused after
-- that leaves the lock free and answers with the server's error; a hold that nobody believes in, or one without a TTL, never
-- stays. Nobody else may enter. But who waits was told a time, and sleeps for it: where the lock ends sooner now, a message
-- has them ask again. One that is refused is no reason to fail.
--
-- KEYS[1] lock: hash with one field, the hold; its value is the hold's count
-- ARGV[1] from: the hold that ends, `clientId:holdNumber`
-- ARGV[2] to: the hold that begins, with a count of 1
-- ARGV[3] lease_ms: the new hold's life from now: exactly, when it moves; at least, when it had moved before (milliseconds)
-- ARGV[4] publish: `PUBLISH` or `SPUBLISH`
-- ARGV[5] channel: where those who wait listen
-- returns {1, listeners}: the lock belongs to `to`; how many listeners the message reached, -1 where there was none
-- returns {-1, -1}: gone; neither of the two is there, and nothing was created
-- publishes `0` on the channel when it leaves the lock a shorter life than it had

local lock = KEYS[1]
local from = ARGV[1]
local to = ARGV[2]
local lease_ms = ARGV[3]
local publish = ARGV[4]
local channel = ARGV[5]

if redis.call('HEXISTS', lock, from) == 1 then
  local ttl_ms = redis.call('PTTL', lock)
  redis.call('HDEL', lock, to)
  local counted = redis.pcall('HINCRBY', lock, to, '1')
  redis.call('HDEL', lock, from)
  if type(counted) == 'table' then
    return counted
  end
  local timed = redis.pcall('PEXPIRE', lock, lease_ms)
  if type(timed) == 'table' then
    redis.call('HDEL', lock, to)
    return timed
  end
  if ttl_ms ~= -1 and ttl_ms <= tonumber(lease_ms) then
    return {1, -1}
  end
  local listeners = redis.pcall(publish, channel, '0')
  if type(listeners) == 'table' then
    listeners = -1
  end
  return {1, listeners}
end

if redis.call('HEXISTS', lock, to) == 1 then
  if redis.call('PTTL', lock) < tonumber(lease_ms) then
    redis.call('PEXPIRE', lock, lease_ms)
  end
  return {1, -1}
end

return {-1, -1}
