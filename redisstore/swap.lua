-- Looks at counts, and writes them if they still are what they were when the
-- caller looked: what take.lua can't do, Go does, and swaps the result in.
--
-- ARGV[1]  the time in microseconds, or '' for the server's own
-- ARGV[2]  'look', or 'swap'
-- ARGV[3…] for a swap, for each of KEYS: what it was, what it shall be, for how
--          many milliseconds ('0': as it was)
--
-- Answers the time, 1 when all was written and 0 otherwise, and what KEYS hold.
local now = ARGV[1]
if now == '' then
  local t = redis.call('TIME')
  now = string.format('%.0f', t[1] * 1000000 + t[2])
end
local answer, same = {now, '1'}, true
for i, key in ipairs(KEYS) do
  local v = redis.call('GET', key) or ''
  answer[2 + i] = v
  same = same and (ARGV[2] == 'look' or v == ARGV[3 * i])
end
if ARGV[2] == 'look' or not same then
  answer[2] = '0'
  return answer
end
for i, key in ipairs(KEYS) do
  if ARGV[3 * i + 2] ~= '0' then
    redis.call('SET', key, ARGV[3 * i + 1], 'PX', ARGV[3 * i + 2])
  end
end
return answer
