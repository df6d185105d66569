-- Takes of any number of limits, one after the other. All numbers are whole and
-- below 2^53, so that doubles hold them exactly; products that may pass it are
-- compared in halves.
--
-- ARGV[1]  the time in microseconds, or '' for the server's own
-- ARGV[2]  how many limits follow: ARGV[3] and on, each as ask.go writes it
-- then     one ask for each of KEYS, in their order
--
-- Answers the time, then for each ask one character and the state before:
--   1 allowed, 0 denied, C kept by another limit (or by none: what follows is how
--   the value begins), W time is not in the window
--   that came with the limit, E an error, S skipped because of one of these

local floor, max, min = math.floor, math.max, math.min
local byte, cut, rep = string.byte, string.sub, string.rep
local read, write = struct.unpack, struct.pack
local T14, T21, T30, T32 = 16384, 2097152, 1073741824, 4294967296
local T24, T48, T53 = 16777216, 281474976710656, 9007199254740992
local NEVER = rep('\0', 8)
local SINCE_LIFE = 87300000 -- ms: record.sinceLife
local HEAD = 1025 -- the longest text of a limit and what ends it

local now, longer = nil, 2
if ARGV[1] == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now, longer = tonumber(ARGV[1]), 3600000 -- this time does not go by as keys expire
end
now = max(0, min(now, 4503599627370496))

local function integer(n) return string.format('%.0f', n) end

local function word(n) return write('<I4i4', n % T32, floor(n / T32)) end

local function number(v, at)
  local lo, hi = read('<I4i4', v, at) -- a civil window may have begun before 1970
  return lo + hi * T32
end

-- Each algorithm has three functions. look finds what counts now in the words of
-- v from p on (v is nil when there are none) and says whether the ask fits.
-- charge gives the words to keep and for how many microseconds; refuse the
-- same for a denied ask, or nil when it leaves no trace. seen is what Go needs of
-- the state before.

local pace, fixed, sliding, log, permits, nothing = {}, {}, {}, {}, {}, {}

-- kind 1
-- pace: gcra and leaky-queue. Times are pairs: microseconds and f/den of one.

function pace.limit(s)
  local l = {pace, read('<dddddddddddd', s, 2)}
  l.den, l.full, l.fullf, l.reach, l.reachf, l.head, l.headf = l[2], l[3], l[4], l[5], l[6], l[7], l[8]
  l.unseen, l.grid, l.one, l.onef, l.most, l.text = l[9], l[10], l[11], l[12], l[13], cut(s, l[14])
  return l
end

function pace.ask(a, s, p) a.test, a.testf, a.span, a.spanf = read('<dddd', s, p) end

local function add(l, us, f, us2, f2)
  us, f = us + us2, f + f2
  if f >= l.den then return us + 1, f - l.den end
  return us, f
end

local function less(us, f, us2, f2) return us < us2 or us == us2 and f < f2 end

local function ceil(us, f) if f > 0 then return us + 1 end return us end

function pace.look(l, a, v, p)
  local us, f, h, shift = 0, 0, 0, 0
  if v then
    local l0, h0, l1, h1 = read('<I4I4I4I4', v, p)
    h = floor(h0 / T21)
    us = l0 + (h0 - h * T21) * T32
    shift = floor(l1 / T30)
    f = l1 - shift * T30
    shift = shift + h1 * 4
  end
  a.us, a.f, a.h, a.shift = us, f, h, shift
  if us == 0 and f == 0 and h == 0 and shift == 0 or l.unseen > 0 and now >= ceil(us, f) + l.unseen then
    us, f = now + l.head, l.headf
  end
  a.at, a.atf = us, f
  if us < now then us, f = 0, 0 else us = us - now end
  a.ahead, a.aheadf = us, f
  if a.never then return false end
  local to, tof = l.full, l.fullf
  if l.one >= 0 and not a.after and a.cost > 0 then -- with debt
    local n, nf = add(l, us, f, l.one, l.onef)
    if less(to, tof, n, nf) then return false end
    to, tof = l.reach, l.reachf
  end
  us, f = add(l, us, f, a.test, a.testf)
  return not less(to, tof, us, f)
end

-- horizon is until when receipts may reach, as gcra keeps it.
local function horizon(l, a)
  if a.h == 0 then return 0 end
  local step = floor(a.us / l.grid)
  return (step + (a.h - 1 - step) % 2047) * l.grid
end

local function packed(l, us, f, shift, until_)
  local h = 0
  if until_ > ceil(us, f) then h = 1 + math.ceil(until_ / l.grid) % 2047 end
  local up = floor(us / T32)
  local s1 = floor(shift / 4)
  local keep = ceil(us, f) - now
  if l.unseen > 0 then keep = keep + l.unseen end
  return write('<I4I4I4I4', us - up * T32, up + h * T21, f + (shift - s1 * 4) * T30, s1), max(keep, until_ - now)
end

function pace.charge(l, a)
  local us, f = add(l, a.ahead, a.aheadf, a.span, a.spanf)
  local fits = a.cost <= l.most
  if a.after and less(l.reach, l.reachf, us, f) then
    us, f, fits = l.reach, l.reachf, false
    if less(us, f, a.ahead, a.aheadf) then us, f = a.ahead, a.aheadf end
  end
  local until_, shift = horizon(l, a), a.shift
  if max(until_, ceil(a.us, a.f)) <= now then until_, shift = 0, 0 end
  if not fits then -- as weir's gcra.go
    shift = (shift + 1048576) % 17179869184
  end
  return packed(l, now + us, f, shift, until_)
end

function pace.refuse(l, a)
  if l.unseen > 0 then return packed(l, a.at, a.atf, a.shift, horizon(l, a)) end
end

-- kind 2
-- fixed-window: kind 0 aligned to 1970, 1 anchored, 2 from x to y.

function fixed.limit(s)
  local l = {fixed, read('<ddddd', s, 2)}
  l.count, l.kind, l.x, l.y, l.denied, l.text = l[2], l[3], l[4], l[5], l[6] > 0, cut(s, l[7])
  return l
end

function fixed.look(l, a, v, p)
  local from, used = 0, 0
  if v then from, used = number(v, p), number(v, p + 8) end
  if l.kind == 2 then
    if now < l.x or now >= l.y then a.out = true end
    local to = l.y
    if from > now then to = from + 35251200000000 end -- the clock stepped back; 408 days are kept
    if used == 0 or from < l.x then from, to, used = l.x, l.y, 0 end
    a.from, a.to = from, to
  else
    if used == 0 or now >= from + l.x then
      used = 0
      if l.kind == 1 then from = now else from = now - now % l.x end
    end
    a.from, a.to = from, from + l.x
  end
  a.used = used
  return not a.never and used + a.need <= l.count
end

function fixed.charge(l, a)
  return word(a.from) .. word(min(a.used + a.cost, T53)), a.to - now
end

-- kind 3
-- mul is a × b for both below 2^48, as hi × 2^48 + lo.
local function mul(a, b)
  local a1, b1 = floor(a / T24), floor(b / T24)
  local a0, b0 = a - a1 * T24, b - b1 * T24
  local mid = a0 * b1 + a1 * b0
  local up = floor(mid / T24)
  local lo = a0 * b0 + (mid - up * T24) * T24
  local carry = floor(lo / T48)
  return a1 * b1 + up + carry, lo - carry * T48
end

-- under is a × b < c × d.
local function under(a, b, c, d)
  if a * b < T53 and c * d < T53 then return a * b < c * d end
  local h1, l1 = mul(a, b)
  local h2, l2 = mul(c, d)
  return h1 < h2 or h1 == h2 and l1 < l2
end

-- sliding-window: counts of n sub-windows and the one before them.

function sliding.limit(s)
  local l = {sliding, read('<ddddd', s, 2)}
  l.count, l.sub, l.n, l.mode, l.denied, l.text = l[2], l[3], l[4], l[5], l[6] > 0, cut(s, l[7])
  return l
end

function sliding.look(l, a, v, p)
  local index = floor(now / l.sub)
  local rest = l.sub - (now - index * l.sub)
  local n, counts, whole = l.n, {}, 0
  for i = 0, n do counts[i] = 0 end
  if v then
    local newest = number(v, p)
    if newest > index then index, rest = newest, l.sub end
    for i = index - newest, n do
      counts[i] = read('<I4', v, p + 8 + 4 * (i - index + newest))
    end
    for i = 0, n - 1 do whole = whole + counts[i] end
  end
  a.index, a.counts = index, counts
  if l.mode == 2 then rest = l.sub end
  local left, old = l.count - whole, counts[n]
  if a.never then return false end
  if l.mode == 1 then
    if a.after then left = left - a.need + 1 end
    if left < 0 then return false end
    if a.need == 0 then return not under(left, l.sub, old, rest) end
    return under(old, rest, left, l.sub)
  end
  left = left - a.need
  return left >= 0 and not under(left, l.sub, old, rest)
end

function sliding.charge(l, a)
  local c = a.counts
  c[0] = min(c[0] + a.cost, T32 - 1)
  local words = {word(a.index)}
  for i = 0, l.n, 2 do
    words[#words + 1] = write('<I4I4', c[i], c[i + 1] or 0)
  end
  return table.concat(words), (a.index + l.n + 1) * l.sub - now
end

-- kind 4
-- sliding-log: a ring of stamps.

function log.limit(s)
  local l = {log, read('<ddd', s, 2)}
  l.count, l.period, l.denied, l.text = l[2], l[3], l[4] > 0, cut(s, l[5])
  return l
end

local function stamp(a, i) return number(a.v, a.p + 8 * ((a.head + i) % a.size)) end

function log.look(l, a, v, p)
  a.n, a.over, a.v = 0, 0, v
  if v then
    a.n, a.head = read('<I4I4', v, p)
    a.over = floor(a.n / T14)
    a.n = a.n - a.over * T14
    a.p, a.size = p + 8, (#v - p + 1) / 8 - 1
  end
  local at = now
  if a.n > 0 then at = max(at, stamp(a, a.n - 1)) end
  local low, high = 0, a.n
  while low < high do
    local mid = floor((low + high) / 2)
    if stamp(a, mid) <= at - l.period then low = mid + 1 else high = mid end
  end
  a.at, a.first = at, low
  return not a.never and a.n - low + a.need <= l.count
end

-- stamps are those from the i-th on, as bytes.
local function stamps(a, i)
  if i >= a.n then return '' end
  local first, last = (a.head + i) % a.size, (a.head + a.n - 1) % a.size
  if first <= last then return cut(a.v, a.p + 8 * first, a.p + 8 * last + 7) end
  return cut(a.v, a.p + 8 * first) .. cut(a.v, a.p, a.p + 8 * last + 7)
end

function log.charge(l, a)
  local more = min(a.cost, l.count)
  local keep = min(a.n - a.first, l.count - more)
  local over = a.n - a.first - keep + a.cost - more
  if a.first == 0 then over = over + a.over end
  return word(keep + more + min(over, 262143) * T14) .. stamps(a, a.n - keep) .. rep(word(a.at), more), a.at + l.period - now
end

-- seen leaves out the stamps of a long log that no answer depends on: it is how
-- many there are, then the oldest, the one that the ask waits for, the newest.
function log.seen(l, a)
  local live = a.n - a.first
  if live <= 64 or l.denied or a.after then return 'A' .. word(live) .. stamps(a, a.first) end
  local waits = max(min(live + a.cost - l.count - 1, live - 1), 0)
  return 'F' .. word(live) .. word(stamp(a, a.first)) .. word(waits) .. word(stamp(a, a.first + waits)) .. word(stamp(a, a.n - 1))
end

-- kind 5
-- permits: how many are held, then until when, by which id, and how many.

function permits.limit(s)
  local l = {permits, read('<dd', s, 2)}
  l.count, l.ttl, l.text = l[2], l[3], cut(s, l[4])
  return l
end

function permits.ask(a, s, p) a.id = cut(s, p, p + 7) end

function permits.look(l, a, v, p)
  local held, first, size = 0, 0, 0
  a.v, a.p = v, p + 8
  if v then
    held, size = number(v, p), (#v - p + 1 - 8) / 24
    while first < size and number(v, a.p + 24 * first) <= now do
      held = held - number(v, a.p + 24 * first + 16)
      first = first + 1
    end
  end
  a.held, a.first, a.size = held, first, size
  if a.never then return false end
  if size - first >= 65536 then return a.need == 0 end
  return held + a.need <= l.count
end

function permits.charge(l, a)
  local ends, at = now + l.ttl, a.size
  while at > a.first and number(a.v, a.p + 24 * (at - 1)) > ends do at = at - 1 end
  local before, behind, last = '', '', ends
  if a.v then
    before = cut(a.v, a.p + 24 * a.first, a.p + 24 * at - 1)
    behind = cut(a.v, a.p + 24 * at)
    if at < a.size then last = number(a.v, a.p + 24 * (a.size - 1)) end
  end
  return word(a.held + a.cost) .. before .. word(ends) .. a.id .. word(a.cost) .. behind, last - now
end

function permits.seen(l, a)
  local live, last = a.size - a.first, 0
  if live > 0 then last = number(a.v, a.p + 24 * (a.size - 1)) end
  return word(a.held) .. word(live) .. word(last)
end

-- kind 0
-- nothing: a count of 0, of which nothing is kept.

function nothing.limit(s) return {nothing, text = cut(s, 2)} end
function nothing.look(l, a) return not a.never end

-- kind any
for _, kind in pairs({pace, fixed, sliding}) do
  function kind.seen(l, a) return a.words end
end
for _, kind in pairs({fixed, sliding, log}) do
  function kind.refuse(l, a) if l.denied then return kind.charge(l, a) end end
end

local kinds = {[0] = nothing, pace, fixed, sliding, log, permits}
local limits, first = {}, tonumber(ARGV[2]) + 2

local function limit(i)
  local l = limits[i]
  if not l then
    local s = ARGV[2 + i]
    l = kinds[byte(s)].limit(s)
    limits[i] = l
  end
  return l
end

-- values are read once and written at the end: a key that many takes ask about
-- costs no more than one that is asked about once.
local values, keep = {}, {}

local function get(key)
  local v = values[key]
  if v == nil then
    v = redis.pcall('GET', key)
    values[key] = v
  end
  return v
end

local function ask(i)
  local s = ARGV[first + i]
  local flags, li, cost, need, p = read('<BI2dd', s)
  local a = {cost = cost, need = need, limit = limit(li)}
  a.peek = flags % 4 >= 2
  a.shadow = flags % 8 >= 4
  a.quota = flags % 16 >= 8
  a.after = flags % 32 >= 16
  a.never = flags % 64 >= 32
  local l = a.limit
  local kind = l[1]
  if kind.ask then kind.ask(a, s, p) end
  local v, text = get(KEYS[i]), l.text
  a.since, a.words = NEVER, ''
  if type(v) == 'table' then
    a.fault = 'E' .. v.err
  elseif v then
    local n = #text
    if cut(v, 1, n) ~= text or byte(v, n + 1) ~= 0 then
      a.fault = 'C' .. cut(v, 1, HEAD)
      return a
    end
    a.since = cut(v, n + 2, n + 9)
    if a.since ~= NEVER then
      local low, high = read('<I4I4', a.since)
      if low + high * T32 > now then -- it was forgotten at this moment: Go dates the receipts
        a.fault = 'C' .. cut(v, 1, HEAD)
        return a
      end
    end
    if #v > n + 9 then
      a.words = cut(v, n + 10)
      a.ok = kind.look(l, a, v, n + 10)
    else
      a.ok = kind.look(l, a, nil, 1)
    end
  else
    a.ok = kind.look(l, a, nil, 1)
  end
  if a.out then a.fault = 'W' end
  return a
end

local function put(i, a, words, us)
  if not words then return end
  local key, ms = KEYS[i], floor(us / 1000) + longer
  if a.since ~= NEVER then ms = max(ms, SINCE_LIFE) end
  values[key] = a.limit.text .. '\0' .. a.since .. words
  keep[key] = ms
end

local answers = {integer(now)}

-- take decides the asks from i to j together.
local function take(i, j, asks)
  local quotas, passes, pass, fault = false, false, true, false
  for k = i, j do
    local a = asks[k]
    if a.fault then fault = true end
    if a.quota then
      quotas = true
      passes = passes or a.shadow or a.ok
    elseif not a.shadow then
      pass = pass and a.ok
    end
  end
  pass = pass and (not quotas or passes)
  for k = i, j do
    local a = asks[k]
    local kind = a.limit[1]
    if fault then
      answers[k + 1] = a.fault or 'S'
    else
      answers[k + 1] = (a.ok and '1' or '0') .. (kind.seen and kind.seen(a.limit, a) or '')
      if kind ~= nothing and not a.peek and a.cost > 0 then
        if a.after or pass and a.ok then
          put(k, a, kind.charge(a.limit, a))
        elseif not a.ok and not a.never and kind.refuse then
          put(k, a, kind.refuse(a.limit, a))
        end
      end
    end
  end
end

local begin, asks = 1, {}
for i = 1, #KEYS do
  asks[i] = ask(i)
  if i == #KEYS or byte(ARGV[first + i + 1]) % 2 == 1 then
    take(begin, i, asks)
    begin = i + 1
  end
end

for key, ms in pairs(keep) do
  redis.call('SET', key, values[key], 'PX', integer(ms))
end
return answers
