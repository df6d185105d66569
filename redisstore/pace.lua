-- The plain takes of gcra and leaky-queue, many at a time: one limit each, of
-- which nothing was given back, no debt, no later start. What take.lua does for all
-- limits this does for these at a third of the cost. What it meets beside them
-- it leaves alone.
--
-- ARGV[1]  the time in microseconds, or '' for the server's own
-- ARGV[2]  for each of KEYS one byte: which of the pairs of limit and cost that
--          follow, counted from 1
-- ARGV[3…] the pairs: five doubles (the fraction's denominator; how far ahead the
--          time may run, and how far the cost moves it, each microseconds and
--          fraction), how many milliseconds a key lives (0: work it out), the
--          limit's text, a zero byte, and 8 more for Since
--
-- Answers the time in seconds and microseconds, and for each of KEYS 17 bytes: 1 allowed, 0 denied or X left
-- alone, and the state before.
local read, write, call, try, keys = struct.unpack, struct.pack, redis.call, redis.pcall, KEYS
local cut, byte = string.sub, string.byte
local NEVER = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local now, longer, time = ARGV[1], 2, nil
if now == '' then
  time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  time, now, longer = {'0', now}, tonumber(now), 3600000
end
local which, out, seen = ARGV[2], {}, {}
local at, den, to, tof, by, byf, life, text, size = 0 -- of the pair at hand
for i = 1, #keys do
  local n = byte(which, i)
  if n ~= at then
    at = n
    if seen[n] then
      den, to, tof, by, byf, life, text, size = unpack(seen[n])
    else
      text = ARGV[n + 2]
      den, to, tof, by, byf, life, size = read('<dddddd', text)
      text = cut(text, size)
      size = #text
      life = life > 0 and tostring(life + longer)
      if ARGV[4] then seen[n] = {den, to, tof, by, byf, life, text, size} end
    end
  end
  local key = keys[i]
  local v = try('GET', key)
  local us, f, words, fine = 0, 0, NEVER, true
  if v then
    fine = false
    if #v == size + 16 and cut(v, 1, size) == text then -- an error has no length
      local l0, h0, l1, h1 = read('<I4I4I4I4', v, size + 1)
      if h0 < 2097152 and l1 < 1073741824 and h1 == 0 then
        us, f, words, fine = l0 + h0 * 4294967296 - now, l1, cut(v, size + 1), true
        if us < 0 then us, f = 0, 0 end
      end
    end
  end
  if fine then
    us, f = us + by, f + byf
    if f >= den then us, f = us + 1, f - den end
    if us < to or us == to and f <= tof then
      out[i] = '1' .. words
      local ms = life
      if not ms then
        ms = us / 1000 + 1 + longer
        ms = ms - ms % 1
      end
      us = now + us
      local low = us % 4294967296
      call('SET', key, text .. write('<I4I4I4I4', low, (us - low) / 4294967296, f, 0), 'PX', ms)
    else
      out[i] = '0' .. words
    end
  else
    out[i] = 'X' .. NEVER
  end
end
time[3] = out[2] and table.concat(out) or out[1]
return time
