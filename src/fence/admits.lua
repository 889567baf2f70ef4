-- Whether a write under this token is taken: it is not less than the greatest that was. If so, it is kept.
-- Tokens are compared as text, since a number has 53 bits here: the longer one is greater.
local function admits(newest, token)
  local kept = redis.call('GET', newest)
  if kept and (#kept > #token or (#kept == #token and kept > token)) then
    return false
  end
  redis.call('SET', newest, token)
  return true
end
