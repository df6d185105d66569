package redisstore

import (
	"encoding/binary"
	"math"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// The kinds of limits that take.lua knows, by their first byte.
const (
	// take.lua has the same numbers: as the first byte of a limit's text, as the indexes of its
	// table of kinds, and in the marks "-- kind" by which scriptOf cuts it.
	kindNothing = iota // a count of 0, of which nothing is kept
	kindPace
	kindFixed
	kindSliding
	kindLog
	kindPermits
)

// plan is what take.lua has to know of a limit. All of it that takes divisions is worked out here,
// once for a limit, in whole numbers and fractions as Go has them: the script only adds and
// compares. So both come to the same answers to the microsecond.
//
// A plan never changes once it is made, and many goroutines read it without a lock. It holds no
// time and no key, so it is good for every take of its limit; only civil windows have to be
// written down anew for each call.
type plan struct {
	kind byte // which functions of take.lua know the limit
	// most is the largest cost that can ever fit. Asks beyond it are not denied but impossible,
	// whatever the state: the script is told so by a flag, and need not reckon with such numbers.
	most int64
	// text is the limit as take.lua reads it. It is empty for civil windows: their text goes with
	// the time.
	//
	// A key holds the limit's own text first, and the script compares the two byte by byte. A
	// count that another limit kept is so told from one of this limit, and Go works it out (see
	// settle).
	text string
	one  string // the limit and a cost of 1 as pace.lua reads it; empty where it can't
}

// maxPlans is how many limits are remembered; then all are forgotten. Rules have few limits, but
// requests may bring limits of their own.
const maxPlans = 1 << 14

// plans remembers what it has worked out of limits.
//
// The key is the pointer and not the limit's text: a pointer is compared quickly, and limits never
// change. The same text under two pointers is worked out twice and decides alike. The map keeps
// its limits alive, so maxPlans also bounds what requests with limits of their own can make it
// hold.
type plans struct {
	mu  sync.RWMutex
	all map[*weir.Limit]*plan
}

func (p *plans) of(l *weir.Limit) *plan {
	p.mu.RLock()
	found := p.all[l]
	p.mu.RUnlock()
	if found != nil {
		return found
	}
	// The lock is not held meanwhile. Two goroutines may work out one limit at a time: they come
	// to the same plan, and either may stay.
	found = newPlan(l)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= maxPlans {
		p.all = map[*weir.Limit]*plan{}
	}
	p.all[l] = found
	return found
}

// floats appends numbers as doubles, which are all that Lua counts in. Whole numbers below 2^53 are
// exact in them, and so are their sums below it. Times are microseconds since 1970, at most 2^52;
// the bounds of Spec keep all else below.
func floats(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

func flag(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// newPlan writes a limit down in the order in which the function limit of its kind in take.lua
// reads it. All times are microseconds, and a fraction of one is a whole number over a denominator
// that the limit has for all of its spans.
func newPlan(l *weir.Limit) *plan {
	s := l.Spec()
	p := &plan{most: s.Count}
	var b []byte
	switch s.Algorithm {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
		if p.most = s.Burst + s.Debt; s.Count == 0 {
			p.kind, p.most = kindNothing, 0
			break
		}
		p.kind = kindPace
		b = bucket(l, &s)
	case weir.LeakyQueue:
		// A leaky-queue is a bucket whose burst is its queue and the one event that leaves it. It
		// has no debt, and a key never seen has used nothing.
		if p.most = *s.Queue + 1; s.Count == 0 {
			p.kind, p.most = kindNothing, 0
			break
		}
		p.kind = kindPace
		us, f, den := l.Span(p.most)
		b = floats(nil, int64(den), us, int64(f), us, int64(f), 0, 0, 0, 1, -1, 0, p.most)
	case weir.FixedWindow:
		p.kind = kindFixed
		// Civil windows begin where a time zone says: text stays empty, and window writes it for
		// each call.
		if s.Calendar != weir.NoCalendar && !s.Anchored {
			return p
		}
		b = floats(nil, s.Count, flag(s.Anchored), micros(s.Period), 0, flag(s.CountDenied))
	case weir.SlidingWindow:
		p.kind = kindSliding
		mode := map[weir.Mode]int64{weir.Relaxed: 1, weir.Conservative: 2}[s.Mode]
		b = floats(nil, s.Count, micros(s.Period)/s.SubWindows, s.SubWindows, mode, flag(s.CountDenied))
	case weir.SlidingLog:
		p.kind = kindLog
		b = floats(nil, s.Count, micros(s.Period), flag(s.CountDenied))
	case weir.Concurrent:
		p.kind = kindPermits
		b = floats(nil, s.Count, micros(s.TTL))
	case weir.WarmUp: // Unfit
	}
	p.text = string(p.kind) + string(b) + l.String()
	// pace.lua knows buckets that begin full and never go below empty. With a debt or a later
	// start take.lua has to decide.
	if p.kind == kindPace && s.Debt == 0 && (s.Initial == nil || *s.Initial == s.Burst) {
		p.one = p.pair(l, 1)
	}
	return p
}

// shortLife is up to which time keys live as long as a full bucket takes to
// drain, for to work out and write down how long costs more than to keep them.
const shortLife = 60_000_000

// pair is a limit and a cost as pace.lua reads them.
func (p *plan) pair(l *weir.Limit, cost int64) string {
	full, fullPart, den := l.Span(p.most)
	span, spanPart, _ := l.Span(cost)
	life := int64(0)
	if full <= shortLife {
		life = full/1000 + 1
	}
	b := floats(nil, int64(den), full, int64(fullPart), span, int64(spanPart), life)
	// The limit's text, the zero byte that ends it and 8 zero bytes for Since are the head of a
	// record as it stands in Redis. So pace.lua compares one text, and leaves alone a count that
	// was reset.
	return string(b) + l.String() + string(make([]byte, 9))
}

// bucket is the numbers of the GCRA family: the fraction's denominator, spans of
// a full bucket, of one with its debt, and of what a key never seen has used,
// the time after which it is unseen again, the grid of the horizon as in
// weir's gcra.go, the span of one event where there is debt, and the largest cost.
func bucket(l *weir.Limit, s *weir.Spec) []byte {
	full, fullPart, den := l.Span(s.Burst)
	reach, reachPart, _ := l.Span(s.Burst + s.Debt)
	head, headPart, _ := l.Span(s.Burst - *s.Initial)
	unseen, one, onePart := int64(0), int64(-1), uint64(0)
	if *s.Initial < s.Burst {
		unseen = micros(s.Period)
	}
	if s.Debt > 0 {
		one, onePart, _ = l.Span(1)
	}
	grid := max(reach/1024+1, 1<<27)
	return floats(nil, int64(den), full, int64(fullPart), reach, int64(reachPart), head, int64(headPart), unseen, grid, one, int64(onePart), s.Burst+s.Debt)
}

// window is the text of a limit of civil windows at now. Redis knows no calendar and no time zones,
// so the window's begin and end go with each call. now is what the server's clock is thought to
// show: when the server is in another window, the script decides nothing and says so, and by its
// answer the process knows the server's time. So a wrong clock here costs a round trip, and never a
// wrong window.
func window(l *weir.Limit, now weir.Instant) string {
	s := l.Spec()
	// The limit works out the window itself, so that the calendar's rules are in one place. The
	// state that it returns begins with the first instant of the window.
	// A charge says where its window begins and when it ends, whatever the count.
	d := weir.Decision{Outcome: weir.Allowed, Charged: true, Cost: 1}
	state := l.Commit(nil, now, &weir.Ask{Limit: l, Cost: 1}, &d)
	begin, end := int64(state[0]), int64(now)+micros(d.ResetAfter)
	return string(floats([]byte{kindFixed}, s.Count, 2, begin, end, flag(s.CountDenied))) + l.String()
}

// appendAsk appends a as take.lua reads it; its limit is the nth of the call. first says that a
// take begins with it: asks up to the next first are decided together. need is what has to fit,
// which for work that is done already is a next event.
func (p *plan) appendAsk(b []byte, a *weir.Ask, first bool, nth int) []byte {
	need := a.Cost
	never := a.Cost > p.most
	if a.After {
		need, never = 1, p.most == 0
		if !a.Peek {
			need += a.Cost
		}
	}
	flags := byte(0) // bits in the order in which ask of take.lua reads them: 1, 2, 4, 8, 16, 32
	for i, yes := range [...]bool{first, a.Peek, a.Shadow, a.Quota, a.After, never} {
		if yes {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(nth))
	b = floats(b, a.Cost, need)
	switch p.kind {
	case kindPace:
		// Spans are known for costs up to a little over most only. A test of one event beyond most
		// denies as surely as the true need would, and a charge beyond it fills the bucket to its
		// end and no further.
		test, testPart, _ := a.Limit.Span(min(need, p.most+1))
		span, spanPart, _ := a.Limit.Span(min(a.Cost, p.most))
		b = floats(b, test, int64(testPart), span, int64(spanPart))
	case kindPermits:
		b = binary.LittleEndian.AppendUint64(b, a.Receipt)
	}
	return b
}
