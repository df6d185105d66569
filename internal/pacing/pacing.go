// Package pacing is what clients of a limited server have in common, whatever
// they speak: it lets calls wait for their turn, remembers what the server said
// of its limits, and says when and whether to try again. A Table has a lane for
// each limit that calls count against, by its key; a Call is one request with all
// its tries:
//
//	call, err := table.Begin(key)
//	if err != nil { … }
//	defer call.End() // when the answer is done with
//	for {
//		if err := call.Wait(ctx); err != nil { … }
//		answer := send()
//		if !call.Heard(ctx, pacing.Reply{…}) {
//			return answer
//		}
//	}
//
// known.go is what a server has told of its limits, budget.go how much is retried and
// queue.go who goes first, as pure functions of a time; lane.go and call.go put them
// together.
package pacing

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

const (
	// MaxLanes is how many limits of servers a Table tells apart. When there are
	// more, one that is idle is forgotten; while none is, newcomers share one.
	MaxLanes = 1024

	defaultWaiting = 1000
	defaultWait    = time.Minute
	defaultTries   = 4
	defaultPercent = 10
)

// Options of a Table.
type Options struct {
	Limiter      *weir.Limiter // the limit to keep, whatever the server says; nil: none
	Waiting      int           // calls that may wait of each key; 0: 1000
	MaxWait      time.Duration // how long a call waits in all; 0: a minute
	Tries        int           // how often a call is sent at most; 0: 4
	RetryPercent int           // of calls that may be retried; 0: 10
	Backoff      weir.Backoff
}

// fill checks o and puts the defaults in.
func (o *Options) fill() error {
	var all []error
	for _, field := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaxWaiting", &o.Waiting, defaultWaiting},
		{"MaxTries", &o.Tries, defaultTries},
		{"RetryPercent", &o.RetryPercent, defaultPercent},
	} {
		switch {
		case *field.value < 0:
			all = append(all, fmt.Errorf("%s is %d; it must be positive, or 0 for %d", field.name, *field.value, field.zero))
		case *field.value == 0:
			*field.value = field.zero
		}
	}
	switch {
	case o.MaxWait < 0 || o.MaxWait > weir.MaxWait:
		all = append(all, fmt.Errorf("MaxWait is %v; it must be positive and at most %v, or 0 for %v", o.MaxWait, weir.MaxWait, defaultWait))
	case o.MaxWait == 0:
		o.MaxWait = defaultWait
	}
	if o.RetryPercent > 100 {
		all = append(all, fmt.Errorf("RetryPercent is %d; it must be at most 100", o.RetryPercent))
	}
	return errors.Join(all...)
}

// Table has the lanes of a client. Its methods may be called from many
// goroutines.
type Table struct {
	options Options

	mu    sync.Mutex
	lanes map[string]*lane
	rest  *lane // of those that find no place
}

// NewTable makes a table. It fails when options are out of range.
func NewTable(o Options) (*Table, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	t := &Table{options: o, lanes: map[string]*lane{}}
	t.rest = &lane{options: &t.options}
	return t, nil
}

// Begin is a call against the limit named key. The caller sets its Cost and
// Priority, and must End it.
func (t *Table) Begin(key string) *Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lanes[key]
	if l == nil && len(t.lanes) >= MaxLanes && !t.forget(time.Now()) {
		l = t.rest
	}
	if l == nil {
		l = &lane{options: &t.options}
		t.lanes[key] = l
	}
	l.users++
	return &Call{Cost: 1, table: t, lane: l, key: key, wake: make(chan struct{}, 1)}
}

// forget drops a lane that is idle, and is whether there was one.
func (t *Table) forget(now time.Time) bool {
	for key, l := range t.lanes {
		if l.users == 0 && !l.held(now) {
			delete(t.lanes, key)
			return true
		}
	}
	return false
}

func (t *Table) leave(l *lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.users--
}
