package pacing

import "time"

const (
	// budgetSeconds is over how long calls and retries are set against each other.
	budgetSeconds = 10
	// freeRetries pass in that time whatever their share is, so that a client that calls seldom can
	// retry at all.
	freeRetries = 10
)

// budget keeps retries a share of the calls, so that a server which refuses much
// is not asked much more than it would be without retries. It counts in whole
// seconds, over budgetSeconds of them. The zero budget is empty.
type budget struct {
	second int64 // the last one counted, since 1970
	counts [budgetSeconds]struct{ calls, retries int64 }
}

// call counts a call that is made for the first time.
func (b *budget) call(now time.Time) {
	b.roll(now)
	b.counts[b.second%budgetSeconds].calls++
}

// retry counts a retry, unless there are as many as percent of the calls and
// freeRetries on top: then it is false.
func (b *budget) retry(now time.Time, percent int) bool {
	b.roll(now)
	var calls, retries int64
	for _, c := range b.counts {
		calls += c.calls
		retries += c.retries
	}
	if retries >= freeRetries+calls*int64(percent)/100 {
		return false
	}
	b.counts[b.second%budgetSeconds].retries++
	return true
}

// roll forgets what is too old. A clock that steps back forgets nothing.
func (b *budget) roll(now time.Time) {
	second := max(now.Unix(), 0)
	for n := 0; b.second < second && n < budgetSeconds; n++ {
		b.second++
		b.counts[b.second%budgetSeconds] = struct{ calls, retries int64 }{}
	}
	b.second = max(b.second, second)
}
