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
local read, write, cut = struct.unpack, struct.pack, string.sub
local floor, call, try = math.floor, redis.call, redis.pcall
local T21, T30, T32 = 2097152, 1073741824, 4294967296
local NEVER = string.rep('\0', 16)
local now, longer = ARGV[1], 2
if now == '' then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now, longer = tonumber(now), 3600000
end
local which, pairs_, out = ARGV[2], {}, {}
for i = 1, #KEYS do
  local n = string.byte(which, i)
  local p = pairs_[n]
  if not p then
    local s = ARGV[n + 2]
    p = {read('<dddddd', s)}
    p[7] = cut(s, p[7])
    p[8] = #p[7]
    p[9] = p[6] > 0 and string.format('%.0f', p[6] + longer)
    pairs_[n] = p
  end
  local key, size = KEYS[i], p[8]
  local v = try('GET', key)
  local us, f, words, fine = 0, 0, NEVER, true
  if v then
    fine = false
    if type(v) == 'string' and #v == size + 16 and cut(v, 1, size) == p[7] then
      local l0, h0, l1, h1 = read('<I4I4I4I4', v, size + 1)
      if h0 < T21 and l1 < T30 and h1 == 0 then
        us, f, words, fine = l0 + h0 * T32 - now, l1, cut(v, size + 1), true
        if us < 0 then us, f = 0, 0 end
      end
    end
  end
  if fine then
    us, f = us + p[4], f + p[5]
    if f >= p[1] then us, f = us + 1, f - p[1] end
    if us < p[2] or us == p[2] and f <= p[3] then
      out[i] = '1' .. words
      local at = now + us
      local up = floor(at / T32)
      call('SET', key, p[7] .. write('<I4I4I4I4', at - up * T32, up, f, 0), 'PX', p[9] or string.format('%.0f', us / 1000 + 1 + longer))
    else
      out[i] = '0' .. words
    end
  else
    out[i] = 'X' .. NEVER
  end
end
return {string.format('%.0f', now), table.concat(out)}
