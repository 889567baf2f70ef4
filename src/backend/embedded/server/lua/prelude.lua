-- Makes what a script finds around it: the names that a server offers, none of which can be changed.
--
-- A table that must not change is an empty one in front of it. Errors of commands are raised as foreign values; whoever
-- catches one is shown what the server would show.
--
-- Gets the functions of the host; returns the script's globals, and what runs a script with its keys and arguments: any
-- number of keys, or one.

local host = ...
local pcall, xpcall, rawset, getmetatable, setmetatable = pcall, xpcall, rawset, getmetatable, setmetatable
local pairs, type, unpack = pairs, type, unpack

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

-- A plain array of up to this many comes in parts, which is faster than to be asked for each.
local MOST_PARTS = 16

local function told(ok, reply)
  if not ok or type(reply) ~= 'table' or getmetatable(reply) ~= nil then
    return ok, false, reply
  end
  if reply.err ~= nil or reply.ok ~= nil then
    return true, false, reply
  end
  -- Most have three or four.
  local first, second, third, fourth = reply[1], reply[2], reply[3], reply[4]
  if first ~= nil and second ~= nil and third ~= nil then
    if fourth == nil then
      return true, true, first, second, third
    end
    if reply[5] == nil then
      return true, true, first, second, third, fourth
    end
  end
  local parts = 0
  while reply[parts + 1] ~= nil do
    parts = parts + 1
    if parts > MOST_PARTS then
      return true, false, reply
    end
  end
  return true, true, unpack(reply, 1, parts)
end

-- Tells how a script ended: whether well, whether its reply comes in parts, and the reply or the error.
local function run(script, count, ...)
  local words = {...}
  local keys, args = {}, {}
  for i = 1, count do
    keys[i] = words[i]
  end
  for i = count + 1, #words do
    args[i - count] = words[i]
  end
  names.KEYS, names.ARGV = keys, args
  return told(xpcall(script, explain))
end

-- The same with one key, which most scripts have: nothing has to be divided.
local function run_on_one(script, key, ...)
  names.KEYS, names.ARGV = {key}, {...}
  return told(xpcall(script, explain))
end

return globals, run, run_on_one
