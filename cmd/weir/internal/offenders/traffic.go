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
	near           atomic.Int64           // of those that passed, how many were near the limit
	clients        atomic.Pointer[window] // nil: none was denied in the last minutes
	book           *Book

	// The book's lock guards these.
	id       ID
	limit    *weir.Limit // nil: each request brings its own
	since    time.Time
	first    int   // the tick that its history begins at
	last     Point // the counts at the last tick
	lastNear int64 // near at the last tick
	row      *row  // nil: nothing in the last hour
	closed   bool
}

// Pass records a request that the rule lets pass.
func (t *Traffic) Pass() { t.passed.Add(1) }

// Near records that a request that passed was near the limit.
func (t *Traffic) Near() { t.near.Add(1) }

// Deny records a request that the rule denies, and the name of its client. The request may have passed all the same, as in shadow. It
// keeps nothing of name.
func (t *Traffic) Deny(name []byte) { t.deny(name, 0, 0) }

// Refuse is Deny of a request that did not pass, and that may come again after wait; 0: nobody knows when.
func (t *Traffic) Refuse(name []byte, wait time.Duration) {
	t.deny(name, t.book.second.Load(), int64((wait+time.Second-1)/time.Second))
}

func (t *Traffic) deny(name []byte, at, again int64) {
	t.denied.Add(1)
	w := t.clients.Load()
	if w == nil {
		if w = t.book.watch(t); w == nil {
			return
		}
	}
	w.add(Shorten(name), at, again)
}
