-- Tells whose token has the key, and for how long. Changes nothing.
--
-- KEYS[1] lock: string, the token of the holder
-- returns {ttl_ms, token}: held; -1 where the key has no TTL
-- returns {-2}: free

local lock = KEYS[1]

local token = redis.call('GET', lock)
if not token then
  return {-2}
end
local ttl_ms = redis.call('PTTL', lock)
return {ttl_ms, token}
