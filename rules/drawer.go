package rules

import (
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// kept is what is there of a denial.
type kept uint8

const (
	nothing  kept = iota // the place is free
	whole                // all of it
	tooLarge             // its id; it was larger than MaxDenial
	expired              // its id; its time is over
	unseen               // its id; the store did not tell what it stood on
)

// head is what places are chosen by. Heads lie together, apart from the bodies,
// because all of a drawer are looked at.
type head struct {
	id uint64 // of the answer
	// at is when the store decided, on its clock; without evidence, when this process
	// heard of it.
	at   weir.Instant
	rule uint32 // a hash of its name: an override's rule is made for each request
	// version is the number of the rules that denied: a denial is explained by these,
	// even when other rules are active by then.
	version uint32
	kept    kept
	same    uint8 // how many of the drawer have this rule, this one too: 1…drawerSize
}

func (h *head) over(now weir.Instant) bool {
	return now-h.at > weir.Instant(DenialLife/time.Microsecond) || h.kept == expired
}

// drawer is a part of Denials.
type drawer struct {
	// mu is only tried by a request, never waited for. Explanations and sweeps wait.
	mu     sync.Mutex
	heads  []head // at most drawerSize
	bodies []body // by head
	// The counts since the process began: see DenialStats.
	overwritten, large int64
	unseen             int64
}

// place puts h where there is room: a new place, one whose time is over, or that
// of the oldest denial of the rule that has the most.
func (d *drawer) place(h head) int {
	i := len(d.heads)
	if i < drawerSize {
		d.heads, d.bodies = append(d.heads, head{}), append(d.bodies, body{})
	} else if i = d.victim(h.at); d.heads[i].kept == whole && !d.heads[i].over(h.at) {
		d.overwritten++
	}
	if gone := &d.heads[i]; gone.kept != nothing && gone.rule == h.rule {
		h.same = gone.same
	} else {
		h.same = d.count(i, h.rule)
	}
	d.heads[i] = h
	return i
}

// count keeps the counts right when the i-th place goes to rule, and gives those
// of rule.
func (d *drawer) count(i int, rule uint32) uint8 {
	gone, same := d.heads[i], uint8(1)
	for j := range d.heads {
		switch o := &d.heads[j]; {
		case j == i:
		case o.rule == rule:
			o.same++
			same = o.same
		case gone.kept != nothing && o.rule == gone.rule:
			o.same--
		}
	}
	return same
}

// victim is the denial that makes place in a full drawer.
func (d *drawer) victim(now weir.Instant) int {
	best, b := 0, &d.heads[0]
	for i := range d.heads {
		h := &d.heads[i]
		if h.over(now) {
			return i
		}
		if h.same > b.same || h.same == b.same && h.at < b.at {
			best, b = i, h
		}
	}
	return best
}

func (d *drawer) find(id uint64) (head, body, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.heads {
		if d.heads[i].id == id {
			return d.heads[i], d.bodies[i].clone(), true
		}
	}
	return head{}, body{}, false
}

// sweep erases what is kept of the denials whose time is over, but their ids.
func (d *drawer) sweep(now weir.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.heads {
		if d.heads[i].over(now) {
			d.heads[i].kept = expired
			d.bodies[i].erase()
		}
	}
}

// need marks the versions by which denials that are kept are explained. A number may
// stand for an older one, too, whose place it has.
func (d *drawer) need(versions *[MaxVersions]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.heads {
		if d.heads[i].kept == whole {
			versions[d.heads[i].version%MaxVersions] = true
		}
	}
}

func (d *drawer) stats(s *DenialStats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.heads {
		if d.heads[i].kept == whole {
			s.Kept++
		}
	}
	s.Overwritten += d.overwritten
	s.Large += d.large
	s.Unseen += d.unseen
}

// body is what a denial is explained by.
type body struct {
	text      []byte        // as appendRequest and then sight.append write it
	overrides []*weir.Limit // of its descriptors; nil when none brings one
}

// write fills b, in its own memory. It is false, and b is empty, when there is
// too much.
func (b *body) write(r *Request, seen sight) bool {
	size := requestSize(r) + seen.size()
	if size > MaxDenial {
		b.erase()
		return false
	}
	before := len(b.text)
	b.text, b.overrides = seen.append(appendRequest(slices.Grow(b.text[:0], size), r)), nil
	if n := len(b.text); n < before {
		clear(b.text[n:before]) // what was there is not kept any longer
	}
	for i := range r.Descriptors {
		if l := r.Descriptors[i].Override; l != nil {
			if b.overrides == nil {
				b.overrides = make([]*weir.Limit, len(r.Descriptors))
			}
			b.overrides[i] = l
		}
	}
	return true
}

// read is the request, and the states of its asks.
func (b *body) read() (*Request, []weir.State) {
	text := reader(b.text)
	r := text.request()
	for i, limit := range b.overrides {
		r.Descriptors[i].Override = limit
	}
	return r, text.states()
}

// erase leaves nothing of a request in memory.
func (b *body) erase() {
	clear(b.text[:cap(b.text)])
	*b = body{}
}

func (b *body) clone() body { return body{slices.Clone(b.text), slices.Clone(b.overrides)} }
