package weir

import "time"

// MaxSync is the longest time that a process with Policy.Sync leaves the store
// without news: longer ones count as this.
const MaxSync = 10 * time.Second

// Unsynced is the most events of one key that a process lets pass by itself before
// the store has heard of them, when it tells the store within sync: as many as
// pass in that time at the limit's pace, at least one, and never more than
// pass at once. It is 0 for limits that a process can't keep by itself: a count
// of 0, sliding-log, leaky-queue, warm-up, permits, anchored windows.
func (l *Limit) Unsynced(sync time.Duration) int64 {
	s := &l.spec
	most := s.Count
	switch s.Algorithm {
	case GCRA, TokenBucket, LeakyBucket:
		most = s.Burst
	case FixedWindow, SlidingWindow:
	case SlidingLog, LeakyQueue, WarmUp, Concurrent:
		return 0
	}
	if sync <= 0 || s.Count == 0 || s.Anchored {
		return 0
	}
	us := micros(min(sync, MaxSync))
	return min(ceilDiv(times(s.Count, us), micros(s.Period)), most)
}

// Unsyncable says why a process can't keep l by itself, and what to take instead; empty
// when it can.
func (l *Limit) Unsyncable() string {
	switch s := &l.spec; {
	case s.Anchored:
		return "anchored: only the store sees the key's first event in time; take fixed-window, or leave sync out"
	case s.Algorithm == SlidingLog:
		return "sliding-log: each event has its own time in the store; take sliding-window, or leave sync out"
	case s.Algorithm == LeakyQueue:
		return "leaky-queue: each waiting request has a place in one line; take gcra, or leave sync out"
	case s.Algorithm == WarmUp:
		return "warm-up: it works in memory only; take gcra, or leave sync out"
	case s.Algorithm == Concurrent:
		return "concurrent: a permit is held in one place; leave sync out"
	}
	return ""
}

// BoundSynced is Bound where so many processes decide with Policy.Sync. Each may be
// ahead of what the store knows by Unsynced events, so all of them together pass
// no more than a limit does that is larger by the sum.
func (l *Limit) BoundSynced(width, sync time.Duration, nodes int, largest int64) int64 {
	return l.BoundAhead(width, largest, times(l.Unsynced(sync), int64(nodes)))
}

// BoundAhead is Bound for a limit that is larger by ahead: what processes let pass together
// that do not know of so many events of one another. For a bucket that is ahead once more,
// as only its burst is larger and not its pace. A window's count is larger in each window
// that the interval meets.
func (l *Limit) BoundAhead(width time.Duration, largest, ahead int64) int64 {
	us := micros(width)
	if us <= 0 || ahead == 0 || l.algo.most() == 0 {
		return l.Bound(width, largest)
	}
	algo := l.algo
	switch a := algo.(type) {
	case *gcra:
		return plus(l.Bound(width, largest), ahead)
	case *fixedWindow:
		looser := *a
		looser.count = plus(a.count, ahead)
		algo = &looser
	case *slidingWindow:
		looser := *a
		looser.count = plus(a.count, ahead)
		algo = &looser
	}
	return algo.bound(us, min(max(largest, 1), l.algo.most()))
}
