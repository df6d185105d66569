package rules

import (
	"fmt"
	"sync"
	"time"
)

// MaxOverrides is how many different limits requests may bring by themselves
// within a quarter of an hour. Each has counts of its own, so without a bound
// callers could fill the store.
const MaxOverrides = 4096

// overrideLife is how long an override that is not asked for again is
// remembered, at least.
const overrideLife = 15 * time.Minute

// overrides are the limits that requests brought lately, in two generations.
type overrides struct {
	mu       sync.Mutex
	now, old map[string]struct{}
	since    time.Time // when now began
}

// admit fails with a *RequestError when r brings a limit too many.
func (o *overrides) admit(r *Request) error {
	for i := range r.Descriptors {
		if l := r.Descriptors[i].Override; l != nil && !o.knows(l.String()) {
			return &RequestError{
				fmt.Sprintf("descriptors[%d].limit", i),
				fmt.Sprintf("is one too many: %d different limits came with requests lately; write limits into rules", MaxOverrides),
			}
		}
	}
	return nil
}

// knows remembers a limit, if there is room for it.
func (o *overrides) knows(limit string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.since) > overrideLife {
		o.old, o.now, o.since = o.now, map[string]struct{}{}, time.Now()
	}
	if _, ok := o.now[limit]; ok {
		return true
	}
	if _, ok := o.old[limit]; ok {
		delete(o.old, limit)
	} else if len(o.now)+len(o.old) >= MaxOverrides {
		return false
	}
	o.now[limit] = struct{}{}
	return true
}
