-- Ends the attempt that runs as a failure, but only while it is one of those that were seen before.
--
-- KEYS[1] job: hash, the job's record
-- ARGV[1] publish: `PUBLISH` or `SPUBLISH`
-- ARGV[2] channel: where those who wait listen
-- ARGV[3] field...: the attempts that were seen; one that came later is left alone
-- returns listeners: ended; how many listeners the message reached
-- returns {1, -1}: ended, but the server refused to publish
-- returns {-1, -1}: gone; none of them runs
-- publishes `0` on the channel when an attempt ended

local job = KEYS[1]
local publish = ARGV[1]
local channel = ARGV[2]

local run = redis.call('HGET', job, 'run')
for i = 3, #ARGV do
  local field = ARGV[i]
  if run == field then
    redis.call('HDEL', job, 'run', 'until', 'since')
    local listeners = redis.pcall(publish, channel, '0')
    if type(listeners) == 'table' then
      return {1, -1}
    end
    return listeners
  end
end
return {-1, -1}
