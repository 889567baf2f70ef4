-- Tells the job's record and the server's time. Changes nothing.
--
-- KEYS[1] job: hash, the job's record
-- returns {ttl_ms, now_ms, field, value, ...}: what is known; -1 where the record has no TTL; field and value are text
-- returns {-2, now_ms}: nothing is known

local job = KEYS[1]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl_ms = redis.call('PTTL', job)
if ttl_ms == -2 then
  return {-2, now_ms}
end
local answer = redis.call('HGETALL', job)
table.insert(answer, 1, now_ms)
table.insert(answer, 1, ttl_ms)
return answer
