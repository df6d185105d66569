package weir

// slidingLog keeps the instants of the last events, at most count of them, and
// so knows exactly how many lie within the last period.
//
//	word 0   bits 0–13: how many stamps; bits 14–31: how many more found no room;
//	         bits 32–63: where the oldest is
//	word 1…  the stamps, a ring that grows with use
//
// A forced charge may bring more than count events into a period. They deny no more
// than count do, so only the newest are kept. The other events are no newer than the oldest that is
// kept, and count until that is over for what is given back: it is taken from them first. When they
// are too many to be told they stay as many.
//
// With count-denied the log holds what was denied, too. Stamps never go back:
// an event under a clock that stepped back is stamped like the newest.
//
// Stamps that are over are dropped at the next charge, not when they run out: the log
// needs no sweeper, and a peek changes nothing.
type slidingLog struct {
	count       int64 // events a period, 0…MaxLogCount, and the most stamps
	period      int64 // microseconds
	countDenied bool
}

func newSlidingLog(s *Spec) algorithm {
	return &slidingLog{count: s.Count, period: micros(s.Period), countDenied: s.CountDenied}
}

func (l *slidingLog) words() int  { return 0 }
func (l *slidingLog) most() int64 { return l.count }

// ring is the stamps of a state in order of time, so that a binary search finds the
// oldest that still counts.
type ring struct {
	// stamps is the room of the ring: instants in microseconds since 1970. It may be
	// larger than n, and shares its memory with the state.
	stamps []uint64
	// head is where the oldest stamp is, n how many there are: 0…count.
	head, n int
	// over is the events that found no room, and are as old as the oldest or older;
	// at most maxOver.
	over int64
}

// How the first word is cut. 14 bits hold MaxLogCount, and 18 bits are left for over.
const (
	stampsBits = 14
	stampsMask = 1<<stampsBits - 1
	maxOver    = 1<<(32-stampsBits) - 1
)

// first is the first word of a state.
func (r *ring) first() uint64 {
	return uint64(r.head)<<32 | uint64(min(r.over, maxOver))<<stampsBits | uint64(r.n)
}

func (l *slidingLog) ring(s State) ring {
	if len(s) < 2 {
		return ring{}
	}
	return ring{
		stamps: s[1:], head: int(s[0] >> 32), n: int(s[0] & stampsMask),
		over: int64(uint32(s[0]) >> stampsBits),
	}
}

func (r ring) at(i int) Instant {
	if i += r.head; i >= len(r.stamps) {
		i -= len(r.stamps)
	}
	return Instant(r.stamps[i])
}

func (r ring) newest() Instant {
	if r.n == 0 {
		return 0
	}
	return r.at(r.n - 1)
}

// from is the index of the first stamp after the instant.
func (r ring) from(after Instant) int {
	low, high := 0, r.n
	for low < high {
		if mid := (low + high) / 2; r.at(mid) <= after {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// live is the ring with the index of the oldest stamp that still counts: a stamp counts
// for exactly one period. Under a clock that stepped back the newest stamp is the time.
func (l *slidingLog) live(s State, now Instant) (ring, int) {
	r := l.ring(s)
	return r, r.from(max(now, r.newest()) - Instant(l.period))
}

func (l *slidingLog) room(s State, now Instant, _ int64) int64 {
	r, oldest := l.live(s, now)
	return l.count - int64(r.n-oldest)
}

// wait is until the last of the stamps that are in the way is over.
func (l *slidingLog) wait(s State, now Instant, cost, _ int64) int64 {
	r, oldest := l.live(s, now)
	last := oldest + int(int64(r.n-oldest)+cost-l.count) - 1
	return int64(r.at(last)) + l.period - int64(now)
}

func (l *slidingLog) hold(State, Instant, int64) int64 { return 0 }

func (l *slidingLog) charge(s State, now Instant, cost int64, _ bool, _ uint64) (State, mark) {
	r, oldest := l.live(s, now)
	return l.add(s, r, oldest, now, cost)
}

// add stamps cost events, given the log with the index of the oldest stamp that
// still counts. Only a forced charge has a cost that does not fit: then the newest count
// stamps are kept, and over counts the others, until the oldest stamp that is kept is
// over.
func (l *slidingLog) add(s State, r ring, oldest int, now Instant, cost int64) (State, mark) {
	at := max(now, r.newest())
	add := int(min(cost, l.count))
	keep := min(r.n-oldest, int(l.count)-add)
	if keep+add == 0 {
		return s, mark{}
	}
	if oldest > 0 {
		r.over = 0
	}
	r.over += int64(r.n-oldest-keep) + cost - int64(add)
	s, r = l.drop(s, r, r.n-keep)
	if len(r.stamps) < keep+add {
		s, r = l.grow(r, keep+add)
	}
	for i := range add {
		r.stamps[(r.head+r.n+i)%len(r.stamps)] = uint64(at)
	}
	r.n += add
	s[0] = r.first()
	return s, mark{uint64(at)}
}

func (l *slidingLog) owe(s State, now Instant, cost int64) (State, int64) {
	s, _ = l.charge(s, now, cost, true, 0)
	if l.count == 0 {
		cost = 0
	}
	return s, cost
}

// drop forgets the n oldest stamps.
func (l *slidingLog) drop(s State, r ring, n int) (State, ring) {
	if r.n == 0 {
		return s, r
	}
	r.head, r.n = (r.head+n)%len(r.stamps), r.n-n
	s[0] = r.first()
	return s, r
}

// grow makes room for n stamps and brings the ring in line. The room doubles, up to count
// stamps: a key that asks seldom costs few words.
func (l *slidingLog) grow(r ring, n int) (State, ring) {
	size := min(max(n, 2*len(r.stamps), 4), int(l.count))
	s := make(State, 1+size)
	for i := range r.n {
		s[1+i] = uint64(r.at(i))
	}
	return s, ring{stamps: s[1:], n: r.n, over: r.over}
}

func (l *slidingLog) refuse(s State, now Instant, cost int64) State {
	if l.countDenied {
		s, _ = l.charge(s, now, cost, true, 0)
	}
	return s
}

func (l *slidingLog) standing(s State, now Instant) (remaining, reset int64) {
	r, oldest := l.live(s, now)
	if r.n == oldest {
		return l.count, 0
	}
	return l.count - int64(r.n-oldest), int64(r.newest()) + l.period - int64(now)
}

func (l *slidingLog) newest(s State, _ Instant) mark { return mark{uint64(l.ring(s).newest())} }

// giveBack takes out stamps of the charge's instant. Stamps of other charges at the same instant
// are worth the same. While the oldest stamp is live, events that found no room go first: a stamp
// that leaves would make room for one of them.
func (l *slidingLog) giveBack(s State, now Instant, r *Receipt, events int64) (State, int64) {
	log, oldest := l.live(s, now)
	if log.n == oldest || Instant(r.Mark[0]) <= max(now, log.newest())-Instant(l.period) {
		return s, 0
	}
	none := int64(0)
	if oldest == 0 && log.over > 0 {
		none = min(log.over, events)
		if log.over < maxOver {
			log.over -= none
		}
		s[0] = log.first()
	}
	first := max(log.from(Instant(r.Mark[0])-1), oldest)
	end := log.from(Instant(r.Mark[0]))
	n := min(end-first, int(events-none))
	if n <= 0 {
		return s, none
	}
	for i := first; i+n < log.n; i++ {
		log.stamps[(log.head+i)%len(log.stamps)] = uint64(log.at(i + n))
	}
	log.n -= n
	s[0] = log.first()
	return s, none + int64(n)
}

func (l *slidingLog) used(s State, now Instant) int64 {
	r, oldest := l.live(s, now)
	return int64(r.n - oldest)
}

// alike: a log of a smaller count can't hold what a larger one has to.
func (l *slidingLog) alike(o algorithm) bool {
	old, ok := o.(*slidingLog)
	return ok && old.period == l.period && old.count == l.count
}

func (l *slidingLog) hear(s State, now Instant, p passed) State {
	s, _ = l.charge(s, now, p.events, true, 0)
	return s
}

// adopt keeps the newest stamps of another log; of any other state it keeps
// the number, stamped now.
func (l *slidingLog) adopt(s State, from algorithm, now Instant) State {
	old, ok := from.(*slidingLog)
	if !ok {
		return l.hear(nil, now, passed{events: min(from.used(s, now), l.count)})
	}
	r := old.ring(s)
	keep := min(r.n, int(l.count))
	if keep == 0 {
		return nil
	}
	next := make(State, 1+keep)
	next[0] = uint64(keep)
	for i := range keep {
		next[1+i] = uint64(r.at(r.n - keep + i))
	}
	return next
}

// bound: exactly the count in any period. A longer interval is cut into periods.
func (l *slidingLog) bound(width, _ int64) int64 {
	return times(l.count, ceilDiv(width, l.period))
}
