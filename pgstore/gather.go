package pgstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir/internal/cas"
)

const (
	// maxRows is how many rows a statement reads or writes, and maxBytes how much it writes; a call with more
	// travels alone. With more rows a statement is hardly quicker for each, and the first waits for the last.
	maxRows  = 256
	maxBytes = 1 << 20
	// worthwhile is how many calls have to wait for another line, while one is under way, and overdue for how long
	// it has to be under way if they are fewer.
	worthwhile = 128
	overdue    = 20 * time.Millisecond
	// maxHeld is how often a call is tried again whose row was held. Then it fails with weir.ErrBusy.
	maxHeld = 5
	// maxKept is how large a buffer is kept for the next statement.
	maxKept = 256 << 10
)

// kind is what a call wants. Calls of one kind travel together.
type kind int

const (
	kindLook  kind = iota // read rows
	kindSwap              // write a row that still is what was seen
	kindGroup             // write rows that all still are what was seen
	kindSet               // write rows, whatever is there
	kindTask              // anything else; it travels alone
	// kindHeld waits for calls that write, too, but whose row was held by another transaction when they were tried.
	// They travel alone, and one at a time, so that others do not wait with them.
	kindHeld
	kinds
)

func (k kind) writes() bool { return k == kindSwap || k == kindGroup || k == kindSet }

// call waits for a line, and then for its answer. Once done is closed, its caller has it again.
type call struct {
	kind    kind
	names   []string   // of a look
	cells   []cas.Cell // of a look: what is there
	swaps   []cas.Swap
	written bool
	task    func(ctx context.Context, l *line) error

	tries int  // for which its row was held
	again bool // it is to be tried again
	err   error
	done  chan struct{}
}

// size is how many rows and bytes a call adds to a statement.
func (k *call) size() (rows, bytes int) {
	for i := range k.swaps {
		bytes += len(k.swaps[i].Value)
	}
	return len(k.names) + len(k.swaps), bytes
}

// gather has calls travel together. A call that finds none of its kind under way leaves at once; others wait
// until one has landed, or until enough wait to be worth another line: a statement costs about as much as
// 20 rows of it. One that is overdue, as it waits for a lock, a slow disk or a connection, keeps nobody back.
type gather struct {
	mu      sync.Mutex
	some    sync.Cond // signalled when calls may leave
	waiting [kinds][]*call
	flying  [kinds]int       // lines under way
	left    [kinds]time.Time // when the last of them left
	last    kind             // whose turn it was
	closed  bool
}

func (g *gather) init() { g.some.L = &g.mu }

// do has a call answered.
func (g *gather) do(k *call) error {
	if err := g.join(k); err != nil {
		return err
	}
	<-k.done
	return k.err
}

// join has a call wait for a line.
func (g *gather) join(k *call) error {
	k.done = make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	g.waiting[k.kind] = append(g.waiting[k.kind], k)
	if g.may(k.kind) {
		g.some.Signal()
	}
	return nil
}

// may is whether calls of a kind may leave. mu is held.
func (g *gather) may(k kind) bool {
	n := len(g.waiting[k])
	switch {
	case n == 0:
		return false
	case k == kindHeld:
		return g.flying[k] == 0
	}
	return g.flying[k] == 0 || n >= worthwhile || k == kindTask || time.Since(g.left[k]) >= overdue
}

// next are the calls for a line, and where they waited; none: it is closed.
func (g *gather) next() (kind, []*call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		if k, found := g.turn(); found {
			g.last = k
			g.flying[k]++
			g.left[k] = time.Now()
			calls := g.take(k)
			if _, more := g.turn(); more {
				g.some.Signal()
			}
			return k, calls
		}
		if g.closed {
			return 0, nil
		}
		g.some.Wait()
	}
}

// turn is the next kind whose calls may leave. All have their turn, so that few calls of one kind do not wait for many
// of the others. mu is held.
func (g *gather) turn() (of kind, found bool) {
	for i := range kinds {
		if k := (g.last + 1 + i) % kinds; g.may(k) {
			return k, true
		}
	}
	return 0, false
}

// land notes that calls of a kind were tried, and answers those that are not to be tried again.
func (g *gather) land(of kind, calls []*call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flying[of]--
	for _, k := range calls {
		if k.again {
			k.again = false
			g.waiting[kindHeld] = append(g.waiting[kindHeld], k)
			continue
		}
		close(k.done)
	}
	if g.may(kindHeld) {
		g.some.Signal()
	}
}

// take takes the first calls of a kind that may travel together. mu is held.
//
// No row is written by two calls of a statement: the second stays, and goes with the next.
func (g *gather) take(of kind) []*call {
	all := g.waiting[of]
	if of == kindTask || of == kindHeld {
		g.waiting[of] = all[1:]
		return all[:1:1]
	}
	var calls, rest []*call
	names := map[string]bool{}
	rows, bytes := 0, 0
	for i, k := range all {
		r, b := k.size()
		if len(calls) > 0 && (rows+r > maxRows || bytes+b > maxBytes) {
			rest = append(rest, all[i:]...)
			break
		}
		if slices.ContainsFunc(k.swaps, func(w cas.Swap) bool { return names[w.Name] }) {
			rest = append(rest, k)
			continue
		}
		for j := range k.swaps {
			names[k.swaps[j].Name] = true
		}
		calls, rows, bytes = append(calls, k), rows+r, bytes+b
	}
	g.waiting[of] = rest
	return calls
}

// wake lets calls leave that wait for a flight that is overdue.
func (g *gather) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, found := g.turn(); found {
		g.some.Signal()
	}
}

// close has lines end when nothing waits any more.
func (g *gather) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.some.Broadcast()
}
