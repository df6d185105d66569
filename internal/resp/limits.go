package resp

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// maxLimits is how many different limits CL.THROTTLE may have in use at a time.
// When all are, a command with another one is answered with an error.
const maxLimits = 4096

var errTooManyLimits = fmt.Errorf("%d different limits are in use at a time already; use fewer, or wait until one has recovered", maxLimits)

// numbers are a limit as CL.THROTTLE tells it.
type numbers struct {
	burst  int64 // max_burst + 1
	count  int64
	period int64 // seconds
}

// throttle is a limit of CL.THROTTLE, and where its counts are.
//
// A store keeps one version of a rule's limit, for a rule's numbers change
// seldom and all at once (docs/decisions/0002). The commands of CL.THROTTLE
// bring numbers that may differ from one to the next. So the numbers are a part
// of the rule here: a key that is asked about with other numbers has another
// count. No place in a rule file has a space in its name.
type throttle struct {
	limit *weir.Limit
	rule  string
	used  atomic.Int64 // the Instant until which some key has something used
}

func newThrottle(n numbers) (*throttle, error) {
	limit, err := weir.Spec{Count: n.count, Period: time.Duration(n.period) * time.Second, Burst: n.burst}.Limit()
	if err != nil {
		// The arguments were checked one by one; it is how they go together.
		return nil, errors.New("max_burst is too large: (max_burst + 1) * period / count may be 71 years; take a smaller one, or a faster pace")
	}
	return &throttle{limit: limit, rule: "CL.THROTTLE " + limit.String()}, nil
}

// use tells that some key has something used until an instant.
func (t *throttle) use(until weir.Instant) {
	for {
		old := t.used.Load()
		if int64(until) <= old || t.used.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// limits finds the limits of CL.THROTTLE by their numbers, so that they are made
// once, and bounds how many have counts in the store. One that has nothing used
// makes place; commands that hold it just then may use it once more.
type limits struct {
	mu    sync.RWMutex
	known map[numbers]*throttle
	next  weir.Instant // when full: none makes place before
}

func newLimits() *limits { return &limits{known: map[numbers]*throttle{}} }

func (l *limits) find(n numbers, now weir.Instant) (*throttle, error) {
	l.mu.RLock()
	t := l.known[n]
	l.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	made, err := newThrottle(n)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.known[n]; t != nil {
		return t, nil
	}
	if len(l.known) >= maxLimits && !l.makePlace(now) {
		return nil, errTooManyLimits
	}
	l.known[n] = made
	return made, nil
}

// makePlace forgets the limits that have nothing used.
func (l *limits) makePlace(now weir.Instant) bool {
	if now < l.next {
		return false
	}
	l.next = math.MaxInt64
	for n, t := range l.known {
		if used := weir.Instant(t.used.Load()); used <= now {
			delete(l.known, n)
		} else {
			l.next = min(l.next, used)
		}
	}
	if len(l.known) < maxLimits {
		l.next = 0
		return true
	}
	return false
}
