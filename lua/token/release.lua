-- Deletes the key of a token that still has it, and says whether it is free by itself or somebody else's where it does not.
--
-- It serves a forced release, too: that names the token which was seen. The key goes before the message, and a message that the
-- server refuses (no right to the channel) is no reason to fail: the lock is free by then.
--
-- KEYS[1] lock: string, the token of the holder
-- ARGV[1] token: the hold to release
-- ARGV[2] publish?: `PUBLISH` or `SPUBLISH`; left out where nobody is told
-- ARGV[3] channel?: where those who wait listen
-- returns listeners: freed; how many listeners the message reached, 0 where nobody is told
-- returns {1, 0, -1}: freed, but the server refused to publish
-- returns {-1, 0, -1}: gone; somebody else has it
-- returns {-2, 0, -1}: expired; nobody has it
-- publishes `0` on the channel when it frees the lock

local lock = KEYS[1]
local token = ARGV[1]
local publish = ARGV[2]
local channel = ARGV[3]

local listeners = 0
local holder = redis.call('GET', lock)
if holder == token then
  redis.call('DEL', lock)
  if publish then
    listeners = redis.pcall(publish, channel, '0')
    if type(listeners) == 'table' then
      return {1, 0, -1}
    end
  end
  return listeners
end
if holder then
  return {-1, 0, -1}
end
return {-2, 0, -1}
