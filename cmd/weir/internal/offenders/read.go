package offenders

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
)

// Filter says which rules are asked for. An empty word is any.
type Filter struct {
	Domain, Rule string
	May          func(ID) bool // whether a rule may be told of; nil: each may
}

func (f Filter) fits(id ID) bool {
	return (f.Domain == "" || f.Domain == id.Domain) && (f.Rule == "" || f.Rule == id.Rule) && (f.May == nil || f.May(id))
}

// compare sorts by domain, then rule, then those that are enforced first.
func (id ID) compare(o ID) int {
	shadow := 0
	switch {
	case id.Shadow && !o.Shadow:
		shadow = 1
	case o.Shadow && !id.Shadow:
		shadow = -1
	}
	return cmp.Or(strings.Compare(id.Domain, o.Domain), strings.Compare(id.Rule, o.Rule), shadow)
}

// find is the traffic that fits; the lock is held.
func (b *Book) find(f Filter) []*Traffic {
	var found []*Traffic
	for id, t := range b.traffic {
		if f.fits(id) {
			found = append(found, t)
		}
	}
	return found
}

// Top is what a rule has passed and denied, and whom it denies most.
type Top struct {
	ID

	Limit          *weir.Limit // nil: each request brings its own
	Since          time.Time   // when it began to count
	Passed, Denied int64       // since then
	// Clients are those who were denied since ClientsSince, which is at most 2 ×
	// PaneLife and a Step ago. It is nil when nobody was, or there is no room.
	Clients      *Sketch
	ClientsSince time.Time
	// Missed is denials that are not in Clients: each met another one at the same
	// instant, since then or before.
	Missed int64

	window *window
	recent int64
}

// Top is the first n of the rules that fit: first those that denied most in the
// last minutes, then those that decided most. more is how many others there are.
func (b *Book) Top(f Filter, n int) (top []Top, more int) {
	order := func(x, y Top) int {
		if c := cmp.Or(cmp.Compare(y.recent, x.recent), cmp.Compare(y.Passed+y.Denied, x.Passed+x.Denied)); c != 0 {
			return c
		}
		return x.compare(y.ID)
	}
	n = max(n, 0)
	sorted := false // the first n of top are the first n of those that were looked at
	b.mu.Lock()
	all := b.find(f)
	for _, t := range all {
		one := Top{ID: t.id, Limit: t.limit, Since: t.since, Passed: t.passed.Load(), Denied: t.denied.Load(), window: t.clients.Load()}
		if one.window != nil {
			one.recent = one.window.denials()
		}
		if sorted && (n == 0 || order(top[n-1], one) < 0) {
			continue // as most of 100,000 rules: sorting them all takes a quarter of a second
		}
		if top = append(top, one); len(top)-n > n {
			slices.SortFunc(top, order)
			top, sorted = top[:n], true
		}
	}
	b.mu.Unlock()
	slices.SortFunc(top, order)
	top = top[:min(n, len(top))]
	more = len(all) - len(top)
	for i := range top {
		if w := top[i].window; w != nil {
			top[i].Clients, top[i].ClientsSince = w.read()
			top[i].Missed = w.missed.Load()
		}
	}
	return top, more
}

// Series is the history of one rule.
type Series struct {
	ID

	Limit  *weir.Limit // nil: each request brings its own
	From   time.Time   // when the first point begins
	Points []Point     // oldest first
}

// Series is the histories of the first n of the rules that fit, by their names.
// more is how many others there are.
func (b *Book) Series(f Filter, n int) (all []Series, more int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.find(f)
	slices.SortFunc(found, func(x, y *Traffic) int { return x.id.compare(y.id) })
	more = max(len(found)-n, 0)
	for _, t := range found[:len(found)-more] {
		all = append(all, b.series(t))
	}
	return all, more
}

// series is the points of t; the lock is held.
func (b *Book) series(t *Traffic) Series {
	s := Series{ID: t.id, Limit: t.limit, From: t.since}
	before := max(t.first, b.ticks-Steps) // the tick that the first point begins at
	if at := b.at[before%ring]; at.After(s.From) {
		s.From = at
	}
	for tick := before + 1; tick <= b.ticks; tick++ {
		p := Point{To: b.at[tick%ring]}
		if t.row != nil {
			c := t.row.counts[tick%ring]
			p.Passed, p.Denied = int64(c.passed), int64(c.denied)
		}
		s.Points = append(s.Points, p)
	}
	return s
}
