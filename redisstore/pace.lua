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
-- Answers the time, and for each of KEYS 17 bytes: 1 allowed, 0 denied or X left
-- alone, and the state before.
local read, write, cut, byte, text_of = struct.unpack, struct.pack, string.sub, string.byte, string.format
local floor, call, try = math.floor, redis.call, redis.pcall
local T21, T30, T32 = 2097152, 1073741824, 4294967296
local NEVER = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local now, longer = ARGV[1], 2
if now == '' then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now, longer = tonumber(now), 3600000
end
local which, out, seen = ARGV[2], {}, {}
local at, den, to, tof, by, byf, life, text, size = 0 -- of the pair at hand
for i = 1, #KEYS do
  local n = byte(which, i)
  if n ~= at then
    at = n
    if seen[n] then
      den, to, tof, by, byf, life, text, size = unpack(seen[n])
    else
      local s = ARGV[n + 2]
      den, to, tof, by, byf, life, size = read('<dddddd', s)
      text = cut(s, size)
      size = #text
      life = life > 0 and text_of('%.0f', life + longer)
      if ARGV[4] then seen[n] = {den, to, tof, by, byf, life, text, size} end
    end
  end
  local key = KEYS[i]
  local v = try('GET', key)
  local us, f, words, fine = 0, 0, NEVER, true
  if v then
    fine = false
    if type(v) == 'string' and #v == size + 16 and cut(v, 1, size) == text then
      local l0, h0, l1, h1 = read('<I4I4I4I4', v, size + 1)
      if h0 < T21 and l1 < T30 and h1 == 0 then
        us, f, words, fine = l0 + h0 * T32 - now, l1, cut(v, size + 1), true
        if us < 0 then us, f = 0, 0 end
      end
    end
  end
  if fine then
    us, f = us + by, f + byf
    if f >= den then us, f = us + 1, f - den end
    if us < to or us == to and f <= tof then
      out[i] = '1' .. words
      local until_ = now + us
      local up = floor(until_ / T32)
      call('SET', key, text .. write('<I4I4I4I4', until_ - up * T32, up, f, 0), 'PX', life or text_of('%.0f', us / 1000 + 1 + longer))
    else
      out[i] = '0' .. words
    end
  else
    out[i] = 'X' .. NEVER
  end
end
return {text_of('%.0f', now), table.concat(out)}
