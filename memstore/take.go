package memstore

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/weir-limit/weir"
)

// recentTables is how many tables are found without the lock of all tables.
const recentTables = 256

// recent is a cache of tables by some bytes of their rules. Rules that share
// them put each other out; then they are looked up like others.
type recent struct {
	tables [recentTables]atomic.Pointer[table]
}

func (r *recent) of(rule string) *atomic.Pointer[table] {
	n := len(rule)
	h := uint64(n)
	if n >= 8 {
		m := (n - 8) / 2
		first, middle, last := rule[:8], rule[m:m+8], rule[n-8:]
		h ^= word(first) ^ bits.RotateLeft64(word(middle), 21) ^ bits.RotateLeft64(word(last), 42)
	} else {
		for i := range n {
			h = h<<8 ^ uint64(rule[i])
		}
	}
	return &r.tables[h*0x9e3779b97f4a7c15>>56]
}

// word is the first eight bytes of s.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (r *recent) clear() {
	for i := range r.tables {
		r.tables[i].Store(nil)
	}
}

// table is the table of a rule.
func (s *Store) table(rule string) (*table, error) {
	r := s.recent.of(rule)
	if t := r.Load(); t != nil && t.rule == rule {
		return t, nil
	}
	return s.tableSlow(rule, r)
}

func (s *Store) tableSlow(rule string, r *atomic.Pointer[table]) (*table, error) {
	s.mu.RLock()
	t := s.tables[rule]
	if t != nil {
		r.Store(t) // with the lock, so that no table is kept that is being dropped
	}
	s.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	return s.add(rule)
}

// plain is whether an ask is about its cost and nothing else. Alone, a take of
// shadow or quota is like any other. Nothing that can panic is plain, for the
// lock would stay.
func plain(a *weir.Ask) bool {
	return a.Limit != nil && uint64(a.Cost) <= weir.MaxCost && a.AtLeast == 0 && a.MaxHold == 0 && a.Receipt == 0 && !a.Peek && !a.After
}

// takePlain is a take of one plain ask.
func (s *Store) takePlain(now weir.Instant, a *weir.Ask, d *weir.Decision) error {
	t, err := s.table(a.State.Rule)
	if err != nil {
		return err
	}
	f := t.hash.print(a.State.Key)
	sg := t.lock(f)
	if sg.limit != a.Limit {
		sg.keep(a.Limit, now)
	}
	if i := sg.cells.find(f); i < 0 {
		sg.admit(f, now, a, d)
	} else if sg.cells.slot == pairSlot {
		state := weir.State(sg.cells.words[i+1 : i+pairSlot : i+pairSlot])
		sg.limit.Take(state, now, a.Cost, d)
	} else {
		sg.set(i, sg.limit.Take(sg.state(i), now, a.Cost, d))
	}
	sg.mu.Unlock()
	return nil
}

// admit decides about a key that has no slot.
func (sg *segment) admit(f uint64, now weir.Instant, a *weir.Ask, d *weir.Decision) {
	if sg.overflows(f, now) || !sg.admitNew(f, now, a, d) {
		asks, out := [...]weir.Ask{*a}, [...]weir.Decision{sg.decide(f, now, a, false)}
		weir.Resolve(asks[:], out[:])
		sg.commit(f, now, a, &out[0])
		*d = out[0]
	}
}

// admitNew decides about a key that was never used. It fails when there is no
// slot for it, even in the largest segment.
func (sg *segment) admitNew(f uint64, now weir.Instant, a *weir.Ask, d *weir.Decision) bool {
	state := sg.limit.Take(sg.unused(), now, a.Cost, d)
	if !d.Charged && d.Outcome != weir.Denied {
		return true // there is nothing to remember
	}
	i := sg.claim(f, now)
	if i < 0 {
		return false
	}
	sg.put(i, state)
	if sg.large() {
		sg.split()
	}
	return true
}

// takeSeen is every other take.
func (s *Store) takeSeen(now weir.Instant, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	if len(asks) != len(out) {
		return fmt.Errorf("memstore: %d asks and room for %d decisions", len(asks), len(out))
	}
	for i := range asks {
		if err := asks[i].Check(); err != nil {
			return fmt.Errorf("memstore: %w", err)
		}
	}
	var few [4]place
	places := few[:min(len(asks), len(few))]
	if len(asks) > len(few) {
		places = make([]place, len(asks))
	}
	if err := s.find(asks, places); err != nil {
		return err
	}
	if err := lock(places); err != nil {
		return err
	}
	defer unlock(places)
	id := wanted(asks)
	if id != 0 {
		if found, err := s.once.answered(id, now, out); found || err != nil {
			return err
		}
	}
	if see != nil && weir.Seen(asks, true) || !together(places, now, asks, out) {
		decide(places, now, asks, out, see)
	}
	if id != 0 {
		s.once.remember(id, out)
	}
	return nil
}

// find says where the state of each ask is, or would be.
func (s *Store) find(asks []weir.Ask, places []place) error {
	for i := range asks {
		t, err := s.table(asks[i].State.Rule)
		if err != nil {
			return err
		}
		p := &places[i]
		p.table, p.ask = t, i
		if i > 0 && asks[i].State.Key == asks[i-1].State.Key { // as for most requests of several limits
			p.print = places[i-1].print
		} else {
			p.print = t.hash.print(asks[i].State.Key)
		}
	}
	return nil
}

// together is the fast way of a take of a few plain asks, for keys and limits as
// almost all are. It charges one after the other, and takes all back when one
// does not allow. It says whether it has decided.
func together(places []place, now weir.Instant, asks []weir.Ask, out []weir.Decision) bool {
	var before [4][2]uint64
	if len(places) > len(before) {
		return false
	}
	for i := range places {
		p := &places[i]
		a := &asks[p.ask]
		if !plain(a) || a.Shadow || a.Quota || p.segment.limit != a.Limit || p.segment.cells.slot != pairSlot {
			return false
		}
		if p.slot = p.segment.cells.find(p.print); p.slot < 0 {
			return false
		}
	}
	for i := range places {
		p := &places[i]
		state := p.segment.state(p.slot)
		before[i] = [2]uint64(state)
		d := &out[p.ask]
		p.segment.limit.Take(state, now, asks[p.ask].Cost, d)
		if d.Outcome != weir.Allowed {
			for j := range i + 1 {
				copy(places[j].segment.state(places[j].slot), before[j][:])
			}
			return false
		}
	}
	return true
}

// decide decides the asks, whose places are locked.
func decide(places []place, now weir.Instant, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) {
	for i := range places {
		p := &places[i]
		p.segment.keep(asks[p.ask].Limit, now)
		out[p.ask] = p.segment.decide(p.print, now, &asks[p.ask], len(asks) > 1)
	}
	pass := weir.Resolve(asks, out)
	if see != nil && weir.Seen(asks, pass) {
		show(places, now, see)
	}
	for i := range places {
		places[i].segment.tentative, places[i].segment.newcomers = nil, 0
	}
	for i := range places {
		p := &places[i]
		p.segment.commit(p.print, now, &asks[p.ask], &out[p.ask])
	}
}

// show tells see the states in the order of their asks.
func show(places []place, now weir.Instant, see func(weir.Instant, weir.State)) {
	for ask := range places {
		for i := range places {
			if p := &places[i]; p.ask == ask {
				state, _ := p.segment.look(p.print, now)
				see(now, state)
			}
		}
	}
}

// place is where the state of an ask lives.
type place struct {
	table   *table
	segment *segment // when it is locked
	print   uint64
	ask     int
	slot    int // for together
}

func (p *place) before(o *place) bool {
	if p.table != o.table {
		return p.table.order < o.table.order
	}
	return p.print < o.print
}

// order is fast for the few places that most takes have.
func order(places []place) {
	if len(places) > 16 {
		slices.SortFunc(places, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.table.order, b.table.order), cmp.Compare(a.print, b.print))
		})
		return
	}
	for i := 1; i < len(places); i++ {
		for j := i; j > 0 && places[j].before(&places[j-1]); j-- {
			places[j], places[j-1] = places[j-1], places[j]
		}
	}
}

// lock brings places in an order that is the same for all takes and locks the
// segment of each, each once, so that takes never wait for each other in a
// circle.
func lock(places []place) error {
	order(places)
	for i := 1; i < len(places); i++ {
		if places[i].table == places[i-1].table && places[i].print == places[i-1].print {
			return errors.New("memstore: two asks of one take name the same state; add up their costs")
		}
	}
	for i := range places {
		p := &places[i]
		if i > 0 && places[i-1].table == p.table && places[i-1].segment.holds(p.print) {
			p.segment = places[i-1].segment
			continue
		}
		p.segment = p.table.lock(p.print)
	}
	return nil
}

// unlock splits what has become large, now that nobody looks for its place in it.
func unlock(places []place) {
	for i := range places {
		if sg := places[i].segment; i == 0 || places[i-1].segment != sg {
			sg.unlock()
		}
	}
}

func (sg *segment) unlock() {
	if sg.large() {
		sg.split()
	}
	sg.mu.Unlock()
}

// holds is whether f belongs to the segment.
func (sg *segment) holds(f uint64) bool { return f>>(64-sg.depth) == sg.start>>(64-sg.depth) }
