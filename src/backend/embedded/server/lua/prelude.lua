-- Makes what a script finds around it: the names that a server offers, none of which can be changed.
--
-- A table that must not change is an empty one in front of it. Errors of commands are raised as foreign values; whoever
-- catches one is shown what the server would show.
--
-- Gets the functions of the host; returns the script's globals, a table for the names of one call, and what runs a script.

local host = ...
local pcall, xpcall, rawset, setmetatable, pairs, type = pcall, xpcall, rawset, setmetatable, pairs, type

local closed = setmetatable({}, {__mode = 'k'})

local function protect(library)
  local front = setmetatable({}, {__index = library, __newindex = host.refuse, __metatable = false})
  closed[front] = true
  return front
end

local function caught(ok, ...)
  if ok then
    return true, ...
  end
  return false, host.shown((...))
end

local names = setmetatable({}, {__index = host.missing})

for _, name in pairs {
  'assert', 'error', 'getmetatable', 'ipairs', 'next', 'pairs', 'rawequal', 'rawget', 'select', 'setmetatable',
  'tonumber', 'tostring', 'type', 'unpack', '_VERSION',
} do
  rawset(names, name, _G[name])
end

math.random = host.random
math.randomseed = host.randomseed
for _, name in pairs {'math', 'string', 'table'} do
  rawset(names, name, protect(_G[name]))
end
rawset(names, 'redis', protect(host.redis))
rawset(names, 'os', nil)

local text = getmetatable('')
text.__index = names.string
text.__metatable = false

local globals = protect(names)
rawset(names, '_G', globals)

rawset(names, 'rawset', function(target, key, value)
  if closed[target] then
    host.refuse_raw()
  end
  return rawset(target, key, value)
end)

rawset(names, 'pcall', function(...)
  return caught(pcall(...))
end)

rawset(names, 'xpcall', function(body, handler)
  return xpcall(body, function(raised)
    return handler(host.raised(raised))
  end)
end)

rawset(names, 'loadstring', function(source, name)
  return host.load(globals, source, name)
end)

local explain = host.explain

-- Tells how a script ended, and what it returned: an array of nothing but itself comes in parts.
local function run(script)
  local ok, reply = xpcall(script, explain)
  return ok, reply
end

return globals, names, run
