-- Moves the key from one token to another of the same client, without the key ever being free.
--
-- The time is set first: that is allowed when the server is out of memory, and after a first write the rest of a script is too.
-- Where the new token is refused after that, the old one still has the key. Nobody else may enter. But who waits was told a time,
-- and sleeps for it: where the lock ends sooner now, a message has them ask again. One that is refused is no reason to fail.
--
-- KEYS[1] lock: string, the token of the holder
-- ARGV[1] from: the hold that ends
-- ARGV[2] to: the hold that begins
-- ARGV[3] lease_ms: the new hold's life from now: exactly, when it moves; at least, when it had moved before (milliseconds)
-- ARGV[4] publish?: `PUBLISH` or `SPUBLISH`; left out where nobody is told
-- ARGV[5] channel?: where those who wait listen
-- returns 1: the lock belongs to `to`, and there was nothing to tell
-- returns {1, listeners}: the same; how many listeners the message reached, -1 where the server refused to publish
-- returns {-1, -1}: gone; somebody else has it
-- returns {-2, -1}: expired; nobody has it, and nothing was created
-- publishes `0` on the channel when it leaves the lock a shorter life than it had

local lock = KEYS[1]
local from = ARGV[1]
local to = ARGV[2]
local lease_ms = ARGV[3]
local publish = ARGV[4]
local channel = ARGV[5]

local holder = redis.call('GET', lock)
if holder == from then
  local ttl_ms = redis.call('PTTL', lock)
  redis.call('PEXPIRE', lock, lease_ms)
  redis.call('SET', lock, to, 'PX', lease_ms)
  if not publish or ttl_ms ~= -1 and ttl_ms <= tonumber(lease_ms) then
    return 1
  end
  local listeners = redis.pcall(publish, channel, '0')
  if type(listeners) == 'table' then
    listeners = -1
  end
  return {1, listeners}
end

if holder == to then
  if redis.call('PTTL', lock) < tonumber(lease_ms) then
    redis.call('PEXPIRE', lock, lease_ms)
  end
  return 1
end

if holder then
  return {-1, -1}
end
return {-2, -1}
