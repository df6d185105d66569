package offenders

import (
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// ID tells the traffic of rules apart. Rules of one name in a domain share it.
type ID struct {
	Domain, Rule string
	Shadow       bool
}

// Traffic is what one rule passes and denies. A Book opens and closes it. Pass
// and Deny may be called from many goroutines, also after Close.
type Traffic struct {
	passed, denied atomic.Int64
	clients        atomic.Pointer[window] // nil: none was denied in the last minutes
	book           *Book

	// The book's lock guards these.
	id     ID
	limit  *weir.Limit // nil: each request brings its own
	since  time.Time
	first  int   // the tick that its history begins at
	last   Point // the counts at the last tick
	row    *row  // nil: nothing in the last hour
	closed bool
}

// Pass records a request that the rule lets pass.
func (t *Traffic) Pass() { t.passed.Add(1) }

// Deny records a request that the rule denies, and the name of its client. It
// keeps nothing of name.
func (t *Traffic) Deny(name []byte) {
	t.denied.Add(1)
	w := t.clients.Load()
	if w == nil {
		if w = t.book.watch(t); w == nil {
			return
		}
	}
	w.add(Shorten(name))
}
