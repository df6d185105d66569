package rules

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// Exception is a limit of its own for one key of a rule, until a time. It stands in place of the rule's limit, on
// the same count: so what was used stays used when it begins, and when it ends.
type Exception struct {
	// State is the count: Rule.State of a key that Set.Match told.
	State weir.StateKey
	// Limit is the one of this key; nil ends the exception.
	Limit *weir.Limit
	Until weir.Instant
}

// Exceptions are those of one Limiter. The zero Exceptions are empty. Methods may be called from many goroutines.
//
// Each takes about 50 bytes for a key of 16: an entry of 13, the key, and two numbers of 8 in a hash table. All is in 256
// shards that never change: a change makes those anew that it is about, and then puts a new view in the place of the old
// one. So a request takes no lock, and sees a change whole or not at all.
type Exceptions struct {
	mu   sync.Mutex // held by changes
	view atomic.Pointer[exceptionView]
	// seed is secret, so that no client can choose keys that collide.
	seed maphash.Seed
	// hash is of a key of a rule; nil: the usual one. Tests have another.
	hash func(rule uint64, key string) uint64
	// of has the number of each of held in the view.
	of map[heldOf]uint32
}

type heldOf struct{ place, limit string }

// exceptionView is all exceptions of a moment. It never changes, but that Limits are made in held.
type exceptionView struct {
	rules  map[uint64]int // by Rule.hash: how many exceptions there are of it
	held   []*heldLimit
	shards [exceptionShards]*exceptionShard // nil: it is empty
	keys   int                              // in all of them
}

const exceptionShards = 256

// heldLimit is a limit that keys of one rule have in place of the rule's.
type heldLimit struct {
	place string
	hash  uint64 // of the rule
	limit *weir.Limit
	// now is the rule with this limit, made when a request meets it first; it is made again when the rule is
	// another. next is the same of a candidate.
	now, next atomic.Pointer[exceptional]
}

// exceptional is a rule as it is for a key with an exception. It is the usual rule where that, or the store, can't have the limit.
type exceptional struct {
	usual *Rule
	rules [1]*Rule
}

// exceptionShard is a hash table. All that a look needs of an entry lies together, for each part of memory that is not in the processor's
// caches takes longer than all else.
type exceptionShard struct {
	// slots have in their upper half the bits of the hash that chose neither shard nor slot, and in their lower where the entry begins, plus 1; 0: it
	// is free. They are as many as a power of two, at most 3/4 of them taken.
	slots []uint64
	// entries lie behind each other: until in 8 bytes, the number of the limit in 4, the length of the key in 1, the key.
	entries []byte
}

const exceptionHead = 8 + 4 + 1

// exceptionEntry is an entry as it is read.
type exceptionEntry struct {
	until weir.Instant
	held  uint32
	key   []byte
}

// at is the entry that begins there.
func (sh *exceptionShard) at(i uint32) exceptionEntry {
	head := sh.entries[i : i+exceptionHead]
	key := i + exceptionHead
	return exceptionEntry{weir.Instant(binary.LittleEndian.Uint64(head)), binary.LittleEndian.Uint32(head[8:]), sh.entries[key : key+uint32(head[12])]}
}

// all yields each entry; of a nil shard none.
func (sh *exceptionShard) all(yield func(exceptionEntry) bool) {
	if sh == nil {
		return
	}
	for i := uint32(0); i < uint32(len(sh.entries)); {
		e := sh.at(i)
		if !yield(e) {
			return
		}
		i += exceptionHead + uint32(len(e.key))
	}
}

// hashPlace is FNV-1a: it tells rules apart, whose authors gain nothing by a collision.
func hashPlace(place string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(place) {
		h = (h ^ uint64(place[i])) * 1099511628211
	}
	return h
}

func (x *Exceptions) hashOf(rule uint64, key string) uint64 {
	if x.hash != nil {
		return x.hash(rule, key)
	}
	h := (maphash.String(x.seed, key) ^ rule) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// find is the exception of a key of a rule, whose hash is known to have some; nil: there is none, or it has ended by now.
func (x *Exceptions) find(v *exceptionView, rule uint64, place, key string, now weir.Instant) (*heldLimit, weir.Instant) {
	h := x.hashOf(rule, key)
	sh := v.shards[h>>56]
	if sh == nil {
		return nil, 0
	}
	mask := uint32(len(sh.slots) - 1)
	for i := uint32(h) & mask; sh.slots[i] != 0; i = (i + 1) & mask {
		slot := sh.slots[i]
		if uint32(slot>>32) != uint32(h>>24) {
			continue
		}
		e := sh.at(uint32(slot) - 1)
		if string(e.key) != key {
			continue
		}
		if held := v.held[e.held]; held.place == place {
			if e.until <= now {
				return nil, 0
			}
			return held, e.until
		}
	}
	return nil, 0
}

// Len is how many there are, with those that have ended and that no change has dropped since.
func (x *Exceptions) Len() int {
	if v := x.view.Load(); v != nil {
		return v.keys
	}
	return 0
}

// All yields all that there are at one moment, in no order.
func (x *Exceptions) All(yield func(Exception) bool) {
	v := x.view.Load()
	if v == nil {
		return
	}
	for _, sh := range v.shards {
		for e := range sh.all {
			held := v.held[e.held]
			if !yield(Exception{weir.StateKey{Rule: held.place, Key: string(e.key)}, held.limit, e.until}) {
				return
			}
		}
	}
}

// Active is how many hold at now. It looks at all.
func (x *Exceptions) Active(now weir.Instant) (active int) {
	v := x.view.Load()
	if v == nil {
		return 0
	}
	for _, sh := range v.shards {
		for e := range sh.all {
			if e.until > now {
				active++
			}
		}
	}
	return active
}

// Change sets and ends exceptions, of which each is of another count: it replaces what there was of that count. Those that
// have ended by now are dropped on the way. With anew, all that are not among them end.
func (x *Exceptions) Change(changes []Exception, anew bool, now weir.Instant) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.seed = maphash.MakeSeed()
	}
	old := x.view.Load()
	if old == nil || anew {
		old, x.of = new(exceptionView), map[heldOf]uint32{}
	}
	next := *old
	b := &exceptionBuilder{of: x, now: now, next: &next}
	b.next.rules = maps.Clone(old.rules)
	if b.next.rules == nil {
		b.next.rules = map[uint64]int{}
	}
	for _, c := range changes {
		b.add(c)
	}
	for i, some := range b.shards {
		if some != nil {
			b.build(i, some)
		}
	}
	x.view.Store(b.next)
	if unused := len(b.next.held) - b.used(); unused > leastUnused && unused > len(b.next.held)/2 {
		x.compact()
	}
}

// leastUnused is how many limits that no exception has any more are kept at least, so that they are seldom looked for.
const leastUnused = 1000

// exceptionBuilder makes the next view.
type exceptionBuilder struct {
	of     *Exceptions
	now    weir.Instant
	next   *exceptionView
	shards [exceptionShards][]pending
}

// pending is a change that is to be made; one that ends has no held.
type pending struct {
	hash  uint64
	state weir.StateKey
	held  uint32
	until weir.Instant
	ends  bool
}

func (b *exceptionBuilder) add(c Exception) {
	if len(c.State.Key) > maxKey {
		return // Match makes no such key
	}
	rule := hashPlace(c.State.Rule)
	p := pending{hash: b.of.hashOf(rule, c.State.Key), state: c.State, until: c.Until, ends: c.Limit == nil || c.Until <= b.now}
	if !p.ends {
		id := heldOf{c.State.Rule, c.Limit.String()}
		n, known := b.of.of[id]
		if !known {
			n = uint32(len(b.next.held))
			b.of.of[id] = n
			b.next.held = append(b.next.held, &heldLimit{place: c.State.Rule, hash: rule, limit: c.Limit})
		}
		p.held = n
	}
	b.shards[p.hash>>56] = append(b.shards[p.hash>>56], p)
}

// build makes the i-th shard of what it had and of changes.
func (b *exceptionBuilder) build(i int, changes []pending) {
	old := b.next.shards[i]
	changed := make(map[weir.StateKey]bool, len(changes))
	for _, p := range changes {
		changed[p.state] = true
	}
	sh := new(exceptionShard)
	if old != nil {
		sh.entries = make([]byte, 0, len(old.entries))
	}
	var hashes []uint64
	var starts []uint32
	put := func(until weir.Instant, held uint32, key string, h uint64) {
		hashes, starts = append(hashes, h), append(starts, uint32(len(sh.entries)))
		sh.entries = binary.LittleEndian.AppendUint64(sh.entries, uint64(until))
		sh.entries = binary.LittleEndian.AppendUint32(sh.entries, held)
		sh.entries = append(append(sh.entries, byte(len(key))), key...)
	}
	for e := range old.all {
		held, key := b.next.held[e.held], string(e.key)
		if e.until <= b.now || changed[weir.StateKey{Rule: held.place, Key: key}] {
			b.count(held.hash, -1)
			continue
		}
		put(e.until, e.held, key, b.of.hashOf(held.hash, key))
	}
	for _, p := range changes {
		if !p.ends {
			put(p.until, p.held, p.state.Key, p.hash)
			b.count(b.next.held[p.held].hash, 1)
		}
	}
	b.next.shards[i] = nil
	if len(hashes) == 0 {
		return
	}
	size := 8
	for size*3 < len(hashes)*4 {
		size *= 2
	}
	sh.slots, sh.entries = make([]uint64, size), slices.Clone(sh.entries)
	for j, h := range hashes {
		at := uint32(h) & uint32(size-1)
		for sh.slots[at] != 0 {
			at = (at + 1) & uint32(size-1)
		}
		sh.slots[at] = uint64(uint32(h>>24))<<32 | uint64(starts[j]+1)
	}
	b.next.shards[i] = sh
}

func (b *exceptionBuilder) count(rule uint64, by int) {
	b.next.keys += by
	if b.next.rules[rule] += by; b.next.rules[rule] == 0 {
		delete(b.next.rules, rule)
	}
}

// used is how many limits there are exceptions of. It only looks at all when there may be many that have none.
func (b *exceptionBuilder) used() int {
	if len(b.next.held) <= leastUnused || b.next.keys >= len(b.next.held) {
		return min(len(b.next.held), b.next.keys)
	}
	used := map[uint32]bool{}
	for _, sh := range b.next.shards {
		for e := range sh.all {
			used[e.held] = true
		}
	}
	return len(used)
}

// compact drops limits that no exception has. Its caller holds mu.
func (x *Exceptions) compact() {
	old := x.view.Load()
	b := &exceptionBuilder{of: x, next: &exceptionView{rules: map[uint64]int{}}}
	x.of = map[heldOf]uint32{}
	for _, sh := range old.shards {
		for e := range sh.all {
			held := old.held[e.held]
			b.add(Exception{weir.StateKey{Rule: held.place, Key: string(e.key)}, held.limit, e.until})
		}
	}
	for i, some := range b.shards {
		if some != nil {
			b.build(i, some)
		}
	}
	x.view.Store(b.next)
}

// Grant is what is told of an exception: by whom it was made, why and until when.
type Grant struct {
	Until  time.Time
	Author string
	Reason string
	// Away tells that the author and the reason can't be asked for at present.
	Away bool
}

// Except has l go by exceptions from now on. told is asked for explanations: it finds who made the exception of a count, and why; it may
// fail, as when a database is away. Call it before others use l.
func (l *Limiter) Except(x *Exceptions, told func(context.Context, weir.StateKey) (Grant, error)) {
	l.exceptions, l.granted = x, told
}

// Exceptions is what Except was told; nil: there are none.
func (l *Limiter) Exceptions() *Exceptions { return l.exceptions }

// except puts the limits of exceptions in place of those of rules. Where no rule of t has one, it costs a look at a
// map for each rule, and where there are none at all nothing.
func (t *take) except(x *Exceptions, store weir.Store, candidate bool) {
	if x == nil {
		return
	}
	v := x.view.Load()
	if v == nil || v.keys == 0 {
		return
	}
	for i := range t.meets {
		m := &t.meets[i]
		copied := false
		for j, r := range m.rules {
			if r.hash == 0 || v.rules[r.hash] == 0 {
				continue
			}
			held, _ := x.find(v, r.hash, r.place, m.key, weir.InstantOf(time.Now()))
			if held == nil {
				continue
			}
			e := held.of(r, store.Traits(), candidate)
			switch {
			case len(m.rules) == 1:
				m.rules = e.rules[:]
			case !copied:
				m.rules, copied = slices.Clone(m.rules), true // they are shared with the Set
				fallthrough
			default:
				m.rules[j] = e.rules[0]
			}
		}
	}
}

// of is the rule with the limit.
func (h *heldLimit) of(r *Rule, store weir.Traits, candidate bool) *exceptional {
	at := &h.now
	if candidate {
		at = &h.next
	}
	if e := at.Load(); e != nil && e.usual == r {
		return e
	}
	e := &exceptional{usual: r, rules: [1]*Rule{r.excepted(h.limit, store)}}
	at.Store(e)
	return e
}

// excepted is r with a limit of one key. An operator who tightens the rule for a time tightens that limit,
// too. Where it can't be tightened, or the rule or the store can't have it, it is r, as for other keys.
func (r *Rule) excepted(l *weir.Limit, store weir.Traits) *Rule {
	if r.Unlimited || r.Bears(l) != nil || l.Unfit(store) != "" {
		return r
	}
	e := *r
	e.Limit, e.Usual = l, r
	if e.Whole, e.Quota = nil, nil; r.Quota != nil && e.divide() != nil {
		e.Limit = l // proxies get no portion of it
	}
	if r.Temporary == nil {
		return &e
	}
	written, held := *r.Temporary.Written, *r.Temporary
	written.Limit, held.Written, e.Temporary = l, &written, &held
	if held.Percent > 0 {
		var err error
		if e.Limit, err = Tightened(l, held.Percent); err != nil {
			return r
		}
	}
	return &e
}

// Bears fails where a rule can't have a limit, for what it says of its nodes, its store and when it charges: then it
// says what to write instead.
func (r *Rule) Bears(l *weir.Limit) error {
	switch {
	case r.Unlimited:
		return errors.New("the rule is unlimited: there is nothing to make an exception of")
	case r.After && (l.Algorithm() == weir.Concurrent || l.Algorithm() == weir.WarmUp || l.Algorithm() == weir.LeakyQueue):
		return fmt.Errorf("charge: after is impossible for %s: work that is done can't be held back; write a limit as %s is", l.Algorithm(), r.Limit)
	case r.Sync > 0 && l.Unsyncable() != "":
		return fmt.Errorf("the rule has sync: %v, which is impossible for %s; write a limit as %s is", r.Sync, l.Unsyncable(), r.Limit)
	case r.Lease > 0 && r.Policy.UnfitFor(l) != "":
		return fmt.Errorf("%s; write a limit as %s is", r.Policy.UnfitFor(l), r.Limit)
	case (l.Algorithm() == weir.Concurrent) != (r.Limit.Algorithm() == weir.Concurrent):
		return fmt.Errorf("the rule has %s, and permits are not events: nothing that is used could be kept; write a limit as that is", r.Limit)
	case r.Partition == weir.PartitionOpen && l.NeverOver():
		return fmt.Errorf("partition: open is impossible for %q: all would pass while nodes can't reach each other; leave out %s", l, l.Spec().Mode)
	}
	if why := bounds.Unfit(r.Sharing, l, r.Nodes); why != "" {
		return fmt.Errorf("sharing: %s is impossible for %q: %s", r.Sharing, l, why)
	}
	return nil
}

// Grantable finds the rule and the key that an exception for the requests of a descriptor is of: the one limit that entries meet in a
// domain, or of several the one that of names, by its name or its text. The error says what to write instead.
func (s *Set) Grantable(domain string, entries []Entry, of string) (r *Rule, key string, err error) {
	d := Descriptor{Entries: entries, Cost: 1}
	if field, text := d.fault(false); text != "" {
		return nil, "", fmt.Errorf("%s %s", field, text)
	}
	if s == nil || s.domains[domain] == nil {
		return nil, "", errors.New("the domain has no active rules")
	}
	met, key := s.Match(domain, &d)
	if len(met) == 0 {
		x := DescriptorTrace{Entries: entries}
		s.domains[domain].walk(&x)
		return nil, "", fmt.Errorf("no active rule is for such a request: %s", x.Summary)
	}
	var names []string
	for _, m := range met {
		name := m.LimitName()
		if of == "" && len(met) == 1 || of != "" && (of == name || m.Limit != nil && of == m.Limit.String()) {
			r = m
			break
		}
		names = append(names, name)
	}
	switch {
	case r == nil && of == "":
		return nil, "", fmt.Errorf("the rule %s has %d limits; name the one that is meant, of %s", met[0].Name, len(met), quotedList(names))
	case r == nil:
		return nil, "", fmt.Errorf("the rule has no limit %s; name one of %s", quoted(of), quotedList(names))
	}
	return r, key, nil
}

// LimitName is what tells a limit from the others of its descriptor, for people: its name, else its text.
func (r *Rule) LimitName() string {
	const mark = "#name="
	for i := len(r.place) - len(mark); i >= 0; i-- {
		if r.place[i:i+len(mark)] == mark {
			if name := r.place[i+len(mark):]; name != "" {
				return name
			}
			break
		}
	}
	if r.Limit == nil {
		return ""
	}
	return r.Limit.String()
}

func quotedList(names []string) (text string) {
	for i, name := range names {
		if i > 0 {
			text += ", "
		}
		text += quoted(name)
	}
	return text
}

// Tightened is a limit that lets so many percent of l pass, 1…99, rounded down; but one that let something pass still lets one event
// pass at least.
func Tightened(l *weir.Limit, percent int64) (*weir.Limit, error) {
	s := l.Spec()
	if s.Count == 0 {
		return l, nil // which denies all
	}
	s.Count, s.Burst = Scale(s.Count, percent), Scale(s.Burst, percent)
	if s.Initial != nil {
		*s.Initial = Scale(*s.Initial, percent)
	}
	return s.Limit()
}

// Scale is so many percent of a count, and at least 1 of one that is not 0.
func Scale(n, percent int64) int64 {
	if n == 0 {
		return 0
	}
	return max(n*percent/100, 1)
}

// restore puts in place of the rules of asks those that decided then: they are by ask, and nil for those that
// were no exceptions.
func (t *take) restore(excepted []*Rule) {
	for i := range t.meets {
		m := &t.meets[i]
		if m.asks() == 0 {
			continue
		}
		m.rules = slices.Clone(m.rules) // they are shared with the Set
		for j := range m.rules {
			k := m.first + j
			if k >= len(excepted) || excepted[k] == nil {
				continue
			}
			r := excepted[k]
			m.rules[j], t.rules[k] = r, r
			t.asks[k].Limit, t.asks[k].Shadow, t.asks[k].Own = r.Limit, r.Shadow, true
		}
	}
}

// exceptionsOf are the rules of asks that exceptions made, by ask; nil: none did.
func exceptionsOf(byAsk []*Rule) []*Rule {
	if !slices.ContainsFunc(byAsk, func(r *Rule) bool { return r.Usual != nil }) {
		return nil
	}
	some := slices.Clone(byAsk)
	for i, r := range some {
		if r.Usual == nil {
			some[i] = nil
		}
	}
	return some
}

// grantOf is what is known of the exception of a count.
func (l *Limiter) grantOf(ctx context.Context, r *Rule, key string) (g Grant) {
	if v := l.exceptions.viewed(); v != nil {
		if _, until := l.exceptions.find(v, r.hash, r.place, key, 0); until > 0 {
			g.Until = until.Time()
		}
	}
	if l.granted == nil {
		return g
	}
	told, err := l.granted(ctx, r.State(key))
	if err != nil {
		g.Away = true
		return g
	}
	if g.Until.IsZero() {
		g.Until = told.Until
	}
	g.Author, g.Reason = told.Author, told.Reason
	return g
}

func (x *Exceptions) viewed() *exceptionView {
	if x == nil {
		return nil
	}
	return x.view.Load()
}

// note says whose the exception of r is, and what r's usual limit would say of the same.
func (g *Grant) note(r *Rule, state weir.State, now weir.Instant, ask *weir.Ask) string {
	text := fmt.Sprintf("an exception %s, in place of %s", g, r.Usual.Limit)
	if g.Reason != "" {
		text += ": " + g.Reason
	}
	switch {
	case ask.After || ask.Cost == weir.MaxCost:
		return text
	case r.wouldAllow(r.Usual.Limit, state, now, ask):
		return text + "; without it, the rule would allow this now"
	}
	return text + "; without it, the rule would not allow this now"
}

// String says until when the exception holds and by whom, without the reason.
func (g *Grant) String() string {
	text := "of this key alone"
	if !g.Until.IsZero() {
		text += " until " + g.Until.UTC().Format("2006-01-02 15:04 MST")
	}
	switch {
	case g.Author != "":
		text += ", by " + g.Author
	case g.Away:
		text += "; the rule database, which knows by whom and why, can't be asked now"
	}
	return text
}
