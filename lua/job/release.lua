-- Ends an attempt: with the period's success, with a failure, or as one that never began and is not counted.
--
-- A success counts as long as nobody else began meanwhile, also after the lease: the work was done, and nobody did it twice. A
-- second sending of a success finds its own name on the record. An old copy of the begin may have run in a later period, under the
-- same name: that attempt is nobody's and is given back, and the success of the earlier period is not its. A success is written
-- before the attempt is over: what is refused there leaves the attempt as it was. The time to live goes before both, since no
-- lack of memory refuses that, nor then what follows.
--
-- KEYS[1] job: hash, the job's record
-- ARGV[1] field: the hold to end, `clientId:holdNumber`
-- ARGV[2] note: `success`, `failure` or `unused`
-- ARGV[3] start_ms: the period that the attempt was for, 0 where nobody worked for any (milliseconds)
-- ARGV[4] keep_ms: how long the record stays, at least (milliseconds)
-- ARGV[5] publish: `PUBLISH` or `SPUBLISH`
-- ARGV[6] channel: where those who wait listen
-- returns listeners: ended as the note says; how many listeners the message reached
-- returns {1, 0, listeners}: ended, -1 where the server refused to publish; -2 where it had ended with this success before
-- returns {-1, 0, listeners}: gone; that attempt does not run any more, and its success is not the one on the record
-- publishes `0` on the channel when an attempt ended

local job = KEYS[1]
local field = ARGV[1]
local note = ARGV[2]
local start_ms = ARGV[3]
local keep_ms = tonumber(ARGV[4])
local publish = ARGV[5]
local channel = ARGV[6]

local read = redis.call('HMGET', job, 'run', 'by', 'start')
if read[1] ~= field then
  if note == 'success' and read[2] == field and read[3] == start_ms then
    return {1, 0, -2}
  end
  return {-1, 0, -1}
end

local ttl_ms = redis.call('PTTL', job)
local life_ms = string.format('%.0f', math.max(ttl_ms, keep_ms))
redis.call('PEXPIRE', job, life_ms)
local nobodys = start_ms ~= '0' and start_ms ~= read[3]
if note == 'success' and not nobodys then
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('HSET', job, 'by', field, 'at', string.format('%.0f', now_ms), 'last', start_ms)
end
redis.call('HDEL', job, 'run', 'until', 'since')
if note == 'unused' or nobodys then
  redis.call('HINCRBY', job, 'attempts', '-1')
end
local listeners = redis.pcall(publish, channel, '0')
if type(listeners) == 'table' then
  listeners = -1
end
if nobodys and note == 'success' then
  return {-1, 0, listeners}
end
if listeners == -1 then
  return {1, 0, -1}
end
return listeners
