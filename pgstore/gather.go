package pgstore

import (
	"context"
	"slices"
	"sync"

	"github.com/weir-limit/weir/internal/cas"
)

const (
	// maxRows is how many rows a statement reads or writes, and maxBytes how much it writes; a call with more
	// travels alone. With more rows a statement is hardly quicker for each, and the first waits for the last.
	maxRows  = 256
	maxBytes = 1 << 20
	// worthwhile is how many calls have to wait for another line, while one is under way.
	worthwhile = 128
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

	err  error
	done chan struct{}
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
// 20 rows of it.
type gather struct {
	mu      sync.Mutex
	some    sync.Cond // signalled when calls may leave
	waiting [kinds][]*call
	flying  [kinds]int // lines under way
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
	return n > 0 && (g.flying[k] == 0 || n >= worthwhile || k == kindTask)
}

// next are the calls for a line; none: it is closed. It takes the kind of which most wait: so the others wait
// for one flight of each line at most.
func (g *gather) next() (kind, []*call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		if k, found := g.most(); found {
			g.flying[k]++
			calls := g.take(k)
			if _, more := g.most(); more {
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

// most is the kind of which most calls wait, of those that may leave. mu is held.
func (g *gather) most() (most kind, found bool) {
	for k := range kinds {
		if g.may(k) && (!found || len(g.waiting[k]) > len(g.waiting[most])) {
			most, found = k, true
		}
	}
	return most, found
}

// land notes that calls of a kind were answered.
func (g *gather) land(k kind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flying[k]--
}

// take takes the first calls of a kind that may travel together. mu is held.
//
// No row is written by two calls of a statement: the second stays, and goes with the next.
func (g *gather) take(of kind) []*call {
	all := g.waiting[of]
	if of == kindTask {
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

// close has lines end when nothing waits any more.
func (g *gather) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.some.Broadcast()
}
