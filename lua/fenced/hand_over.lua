-- Moves the lock from one hold to another of the same client, under the next fencing token, without the lock ever being free.
--
-- All but the token is as in the plain lock's hand_over. The token is drawn before the new hold is there: where that is refused the
-- lock is free, and the answer is the server's error.
--
-- KEYS[1] lock: hash with one field, the hold; its value is the hold's count
-- KEYS[2] counter: how many fencing tokens there were, which is the newest of them; it is kept
-- ARGV[1] from: the hold that ends, `clientId:holdNumber`
-- ARGV[2] to: the hold that begins, with a count of 1
-- ARGV[3] lease_ms: the new hold's life from now: exactly, when it moves; at least, when it had moved before (milliseconds)
-- ARGV[4] publish: `PUBLISH` or `SPUBLISH`
-- ARGV[5] channel: where those who wait listen
-- returns {1, fence, listeners}: the lock belongs to `to`, under this token, as text from 2^53 on, where Lua's numbers are not exact;
-- how many listeners the message reached, -1 without one
-- returns {-1, 0, -1}: gone; neither of the two is there, and nothing was created
-- publishes `0` on the channel when it leaves the lock a shorter life than it had, or free

local lock = KEYS[1]
local counter = KEYS[2]
local from = ARGV[1]
local to = ARGV[2]
local lease_ms = ARGV[3]
local publish = ARGV[4]
local channel = ARGV[5]

if redis.call('HEXISTS', lock, from) == 1 then
  local ttl_ms = redis.call('PTTL', lock)
  redis.call('HDEL', lock, to)
  local fence = redis.pcall('INCR', counter)
  if type(fence) == 'number' and fence >= 2^53 then
    fence = redis.pcall('GET', counter)
  end
  if type(fence) == 'table' then
    redis.call('HDEL', lock, from)
    redis.pcall(publish, channel, '0')
    return fence
  end
  local counted = redis.pcall('HINCRBY', lock, to, '1')
  redis.call('HDEL', lock, from)
  if type(counted) == 'table' then
    redis.pcall(publish, channel, '0')
    return counted
  end
  local timed = redis.pcall('PEXPIRE', lock, lease_ms)
  if type(timed) == 'table' then
    redis.call('HDEL', lock, to)
    redis.pcall(publish, channel, '0')
    return timed
  end
  if ttl_ms ~= -1 and ttl_ms <= tonumber(lease_ms) then
    return {1, fence, -1}
  end
  local listeners = redis.pcall(publish, channel, '0')
  if type(listeners) == 'table' then
    listeners = -1
  end
  return {1, fence, listeners}
end

if redis.call('HEXISTS', lock, to) == 1 then
  local fence = tonumber(redis.call('GET', counter)) or redis.call('INCR', counter)
  if fence >= 2^53 then
    fence = redis.call('GET', counter)
  end
  if redis.call('PTTL', lock) < tonumber(lease_ms) then
    redis.call('PEXPIRE', lock, lease_ms)
  end
  return {1, fence, -1}
end

return {-1, 0, -1}
