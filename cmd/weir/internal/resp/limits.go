package resp

import (
	"errors"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

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
// count.
type throttle struct {
	limit *weir.Limit
	rule  string
}

func newThrottle(n numbers) (*throttle, error) {
	limit, err := weir.Spec{Count: n.count, Period: time.Duration(n.period) * time.Second, Burst: n.burst}.Limit()
	if err != nil {
		// The arguments were checked one by one; it is how they go together.
		return nil, errors.New("max_burst is too large: (max_burst + 1) * period / count may be 71 years; take a smaller one, or a faster pace")
	}
	return &throttle{limit: limit, rule: weir.Brought + "CL.THROTTLE " + limit.String()}, nil
}

// limits remembers the limits of CL.THROTTLE by their numbers, so that they are made
// once, and bounds how many clients have in use.
type limits struct {
	bound rules.Overrides
	mu    sync.RWMutex
	known map[numbers]*throttle
}

func newLimits() *limits { return &limits{known: map[numbers]*throttle{}} }

// find is the limit of a client's numbers, and what it has to be told of its use.
func (l *limits) find(n numbers, client string, now weir.Instant) (*throttle, *rules.Override, error) {
	t, err := l.throttle(n)
	if err != nil {
		return nil, nil, err
	}
	use, err := l.bound.Admit(t.rule, client, now)
	return t, use, err
}

// throttle makes a limit, or finds it. When too many are remembered, all are forgotten.
func (l *limits) throttle(n numbers) (*throttle, error) {
	l.mu.RLock()
	t := l.known[n]
	l.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	t, err := newThrottle(n)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= rules.MaxOverrides {
		clear(l.known)
	}
	l.known[n] = t
	return t, nil
}
