-- Begins an attempt at the present period's work, or says why not.
--
-- The period is the server's: its start in milliseconds since 1970, by the server's clock. A record whose period is at most one
-- period ahead of the clock stands (the clock was set back across a boundary); one further ahead is a clock that was wrong, and is
-- forgotten. An attempt whose beginning is in the future, since the clock was set back beneath it, has as long from now on as it had
-- altogether: whoever renews it keeps it, and one that died does not stay for as long as the clock was wrong. An attempt is counted
-- here, before the work, so that one that dies was counted. The time to live of a record that is there is set before anything else:
-- no lack of memory refuses that, nor then what follows.
--
-- KEYS[1] job: hash, the job's record
-- ARGV[1] field: the hold that asks, `clientId:holdNumber`
-- ARGV[2] lease_ms: how long the attempt shall last from now, at least (milliseconds)
-- ARGV[3] every_ms: the length of a period (milliseconds)
-- ARGV[4] offset_ms: when in a period's length the first period after 1970 began (milliseconds)
-- ARGV[5] within_ms: how long after its start a period's work may still be begun (milliseconds)
-- ARGV[6] max_attempts: how many attempts a period has (count)
-- ARGV[7] keep_ms: how long the record stays after the last change, at least (milliseconds)
-- returns {1, 0, attempt, start_ms, now_ms, last_ms}: begun; `last_ms` is the start of the last period with a success, 0 for none
-- returns {0, retry_in_ms, attempt, start_ms, now_ms, since_ms, by}: busy; another attempt runs, of this period or an older one
-- returns {2, 0, attempt, start_ms, now_ms, at_ms, by}: done; the period had its success
-- returns {3, 0, attempt, start_ms, now_ms}: exhausted; all attempts of the period are spent
-- returns {4, 0, attempt, start_ms, now_ms}: late; the period is too old to begin its work

local job = KEYS[1]
local field = ARGV[1]
local lease_ms = tonumber(ARGV[2])
local every_ms = tonumber(ARGV[3])
local offset_ms = tonumber(ARGV[4])
local within_ms = tonumber(ARGV[5])
local max_attempts = tonumber(ARGV[6])
local keep_ms = tonumber(ARGV[7])

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local start_ms = math.floor((now_ms - offset_ms) / every_ms) * every_ms + offset_ms

local read = redis.call('HMGET', job, 'start', 'attempts', 'run', 'until', 'since', 'by', 'at', 'last')
local known_ms = tonumber(read[1]) or 0
local attempt = tonumber(read[2]) or 0
local run = read[3]
local until_ms = tonumber(read[4]) or 0
local since_ms = tonumber(read[5]) or 0
local last_ms = tonumber(read[8]) or 0

local ttl_ms = redis.call('PTTL', job)
local life_ms = string.format('%.0f', math.max(ttl_ms, keep_ms, lease_ms))

if run and since_ms > now_ms then
  until_ms = now_ms + math.max(until_ms - since_ms, 0)
  since_ms = now_ms
  redis.call('PEXPIRE', job, life_ms)
  redis.call('HSET', job, 'until', string.format('%.0f', until_ms), 'since', string.format('%.0f', since_ms))
end
if run == field then
  redis.call('PEXPIRE', job, life_ms)
  redis.call('HSET', job, 'until', string.format('%.0f', math.max(until_ms, now_ms + lease_ms)))
  return {1, 0, attempt, known_ms, now_ms, last_ms}
end
if run and until_ms > now_ms then
  return {0, until_ms - now_ms, attempt, known_ms, now_ms, since_ms, run}
end

local fresh = known_ms < start_ms or known_ms > start_ms + every_ms
if fresh then
  attempt = 0
else
  start_ms = known_ms
  if read[6] then
    return {2, 0, attempt, start_ms, now_ms, tonumber(read[7]) or 0, read[6]}
  end
  if attempt >= max_attempts then
    return {3, 0, attempt, start_ms, now_ms}
  end
end
if now_ms - start_ms > within_ms then
  return {4, 0, attempt, start_ms, now_ms}
end

attempt = attempt + 1
if ttl_ms ~= -2 then
  redis.call('PEXPIRE', job, life_ms)
  if fresh then
    redis.call('HDEL', job, 'by', 'at')
  end
end
redis.call('HSET', job, 'start', string.format('%.0f', start_ms), 'attempts', attempt, 'run', field,
  'until', string.format('%.0f', now_ms + lease_ms), 'since', string.format('%.0f', now_ms))
if ttl_ms == -2 then
  local timed = redis.pcall('PEXPIRE', job, life_ms)
  if type(timed) == 'table' then
    redis.call('DEL', job)
    return timed
  end
end
return {1, 0, attempt, start_ms, now_ms, last_ms}
