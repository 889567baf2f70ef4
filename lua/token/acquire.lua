-- Takes the free key for a token, keeps it for the token that has it already, or tells how long somebody else may have it.
--
-- What is sent first of all is the plain `SET NX PX`, which says nothing to those whom it refuses. This is for every later sending:
-- it finds what a first one without an answer got, and tells whoever waits for how long. A key without a TTL is given one only
-- where the caller asks for that: it may be somebody's who wants it so.
--
-- KEYS[1] lock: string, the token of the holder
-- ARGV[1] token: the hold that asks
-- ARGV[2] lease_ms: how long the hold shall last from now, at least (milliseconds)
-- ARGV[3] orphan_ms?: the TTL that somebody else's key is given which has none; left out where it is left alone (milliseconds)
-- returns 1: held
-- returns {0, retry_in_ms, 0, 0}: busy; the key's TTL as it is, -1 where it has none
-- returns {0, retry_in_ms, 0, 1}: busy; the key had no TTL, and has this one from now on

local lock = KEYS[1]
local token = ARGV[1]
local lease_ms = ARGV[2]
local orphan_ms = ARGV[3]

local holder = redis.call('GET', lock)
if not holder then
  redis.call('SET', lock, token, 'PX', lease_ms)
  return 1
end

local ttl_ms = redis.call('PTTL', lock)
if holder == token then
  if ttl_ms < tonumber(lease_ms) then
    redis.call('PEXPIRE', lock, lease_ms)
  end
  return 1
end
if ttl_ms == -1 and orphan_ms then
  redis.call('PEXPIRE', lock, orphan_ms)
  return {0, tonumber(orphan_ms), 0, 1}
end
return {0, ttl_ms, 0, 0}
