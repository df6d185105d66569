package memstore

import (
	"cmp"
	"slices"

	"github.com/weir-limit/weir"
)

// versions are the tables of a rule whose limit has changed: each limit that does not understand
// the states of the other limits has its own, until it would have recovered. A key is in those that
// it was asked for by. Versions are never changed, but replaced in all tables under Store.mu; they
// are empty in a table that is dropped.
//
// A take of such a rule locks the key's segment in all of its tables, retired ones too. So it
// sees all that is in use of the key, and two takes of one key never pass each other by.
type versions struct {
	// live are at most weir.MaxVersions; an ask by the limit of one is decided by it. No two
	// understand the same limit. When there are so many, an ask by a further limit passes
	// only if one of them allows it, too.
	live []*table
	// retired are at most weir.MaxVersions. No ask is decided by their limits, but what
	// their keys still owe counts in a decision by a live one.
	retired []*table
}

// dropped is whether the table with v is not its rule's any more. A rule that has tables always
// has a live one: tidy never retires the one that was asked last.
func (v *versions) dropped() bool { return len(v.live) == 0 }

func (v *versions) all() []*table { return slices.Concat(v.live, v.retired) }

// current is the tables of t's rule; nil when t is the only one.
func (t *table) current() *versions { return t.versions.Load() }

// family are the tables of t's rule that may hold something.
func (t *table) family() []*table {
	if v := t.current(); v != nil {
		return v.all()
	}
	return []*table{t}
}

// understands is whether limit can go on with the states of t.
func (t *table) understands(limit *weir.Limit) bool {
	own := t.limit.Load()
	return own == nil || own.Alike(limit)
}

// understand is whether limit has a table, or can get none.
func (v *versions) understand(limit *weir.Limit) bool {
	understands := func(t *table) bool { return t.understands(limit) }
	return v != nil && (len(v.live) == weir.MaxVersions || slices.ContainsFunc(v.live, understands))
}

// last has t kept as long as what is used of it now takes to recover. Several takes may do this at
// once, each with the lock of another segment; the latest time stays.
func (t *table) last(until weir.Instant) {
	for {
		old := t.until.Load()
		if old >= int64(until) || t.until.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// used notes that a table among others was asked for a key whose state is now s. From the state
// follows how long it matters, so a table of a limit that is seldom used up goes early.
func (t *table) used(now weir.Instant, limit *weir.Limit, s weir.State) {
	t.asked.Store(int64(now))
	t.last(now + weir.Instant(limit.FreshAfter(s, now).Microseconds()) + 1)
}

// branch gives the rule of t a table for limit, unless one understands it or there are
// too many. Takes that wait for a segment look again.
//
// While a table was alone, nobody noted how much its keys have in use. So all that are there are
// kept for as long as their limits take to recover from all of it, which is the most there can be
// but for work that was charged beyond a limit; tidy looks at the states before it drops one.
func (s *Store) branch(rule string, limit *weir.Limit, now weir.Instant) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[rule]
	if t == nil {
		return nil // it was dropped: the next take makes it anew
	}
	v := t.current()
	if v == nil {
		v = &versions{live: []*table{t}}
	}
	for _, t := range v.live {
		if t.understands(limit) {
			return t
		}
	}
	if len(v.live) == weir.MaxVersions {
		return nil
	}
	for _, t := range v.live {
		t.last(now + weir.Instant(t.limit.Load().Recovers(now).Microseconds()) + 1)
	}
	next := s.sibling(t, limit)
	// Receipts of an earlier table for such a limit are older: it was kept for longer. A
	// reset may be of a time to come, if the clock has stepped back.
	since := int64(now - tidyEvery)
	for _, t := range v.all() {
		since = max(since, t.since.Load())
	}
	next.since.Store(since)
	next.asked.Store(int64(now))
	next.last(now + tidyEvery) // it is new even to a clock that has stepped back since others were asked
	s.install(rule, &versions{live: append(slices.Clip(v.live), next), retired: v.retired})
	return next
}

// branchRetired gives the rule of t, whose limits all have tables, one that is retired, for
// what its keys had in use before a restart. It is nil if there are too many. Only restore needs
// it: it keeps the table until now, and insert for longer, by each state that it puts there.
func (s *Store) branchRetired(rule string, limit *weir.Limit, now weir.Instant) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.tables[rule].current()
	if v == nil || len(v.retired) == weir.MaxVersions {
		return nil
	}
	next := s.sibling(v.live[0], limit)
	next.last(now)
	s.install(rule, &versions{live: v.live, retired: append(slices.Clip(v.retired), next)})
	return next
}

// sibling makes another table of t's rule. The lock of all tables is held. It has its limit before
// anybody finds it, so that no take with another limit can come first.
func (s *Store) sibling(t *table, limit *weir.Limit) *table {
	s.made++
	next := newTable(t.rule, s.made, t.hash, t.bound)
	if next.brought = t.brought; t.brought != nil {
		t.brought.tables.Add(1)
	}
	next.limit.Store(limit)
	next.own.Store(t.ownKeys())
	return next
}

// install makes v the tables of a rule. Its lock is held.
func (s *Store) install(rule string, v *versions) {
	if only := v.all(); len(only) == 1 {
		s.tables[rule] = only[0]
		only[0].versions.Store(nil)
		return
	}
	s.tables[rule] = v.live[0]
	for _, t := range v.all() {
		t.versions.Store(v)
	}
}

// tidyEvery is how often it is looked whether tables can be dropped.
const tidyEvery weir.Instant = 1_000_000

// tidy retires the tables whose limits would have recovered, but for the one that was
// asked last, and drops those whose states have. One that is over and has a state in use all the
// same, by work charged beyond its limit or a clock that went back, stays for another tidyEvery.
//
// A take that has looked at the versions just before may charge a table that is dropped then: one
// take of a limit that nobody had used for as long as it takes to recover, as in dropUnused.
func (s *Store) tidy(rule string, now weir.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[rule]
	if t == nil {
		return
	}
	v := t.current()
	if v == nil || v.dropped() {
		return
	}
	next, last := &versions{}, v.last()
	for _, t := range slices.Concat(v.retired, v.live) { // those that are retired now come last
		switch over := t.over(now); {
		case t == last || !over && slices.Contains(v.live, t):
			next.live = append(next.live, t)
		case !over:
			next.retired = append(next.retired, t)
		case !t.idle(now):
			t.last(now)
			next.retired = append(next.retired, t)
		}
	}
	// Beyond the bound some are dropped with what is in use by them.
	next.retired = next.retired[max(len(next.retired)-weir.MaxVersions, 0):]
	if len(next.all()) == len(v.all()) && len(next.live) == len(v.live) {
		return
	}
	s.install(rule, next)
	for _, t := range v.all() {
		if !slices.Contains(next.all(), t) {
			t.leave()
			t.versions.Store(&versions{})
		}
	}
}

// due is whether tidy may have something to do.
func (v *versions) due(now weir.Instant) bool {
	last := v.last()
	over := func(t *table) bool { return t != last && t.over(now) }
	return slices.ContainsFunc(v.retired, over) || slices.ContainsFunc(v.live, over)
}

// last is the table that was asked last.
func (v *versions) last() *table {
	return slices.MaxFunc(v.live, func(a, b *table) int {
		return cmp.Or(cmp.Compare(a.asked.Load(), b.asked.Load()), cmp.Compare(a.order, b.order))
	})
}

// over is whether the limit of t would have recovered, also by a clock that has stepped
// back a little: by up to tidyEvery.
func (t *table) over(now weir.Instant) bool { return t.until.Load()+int64(tidyEvery) <= int64(now) }

// version is what an ask is decided on that meets several tables: the states of its key
// in all of them, put together as one weir.Kept, as a store outside of this process
// keeps it in one record. After the decision write takes it apart again. All states in it are
// copies, for what is decided on them may come to nothing.
//
// So the rule of changed limits is in package weir alone, and here is only where its states lie.
type version struct {
	places []*place // one in each table, all locked
	own    *place   // whose table understands the ask's limit; nil where none does
	into   *place   // where the state goes by which it is decided
	kept   weir.Kept
	plain  bool // no table has anything of it: it is decided as if its own were the only one
	apart  bool // it goes to table.own, or came from there
	home   home
}

// gather finds what the tables have of each ask. Their segments are locked.
func gather(places []place, now weir.Instant, asks []weir.Ask) []version {
	all := make([]version, len(asks))
	for i := range places {
		all[places[i].ask].places = append(all[places[i].ask].places, &places[i])
	}
	for i := range all {
		all[i].gather(now, &asks[i])
	}
	return all
}

// gather puts together what the places have. The state by the ask's own limit decides if there is
// one. Else the one of the last table does, and the ask's limit follows from it: Kept.Become says
// how. A retired table counts only while something of it is in use.
//
// A key with a limit of its own takes along what the tables have of it, once. Where there is no room
// for one more such key, it stays, and passes only what the rule's limit lets pass, too.
func (v *version) gather(now weir.Instant, a *weir.Ask) {
	k, limit := &v.kept, a.Limit
	if t, f := v.places[0].table, v.places[0].print; t.apart(f, a) {
		v.into = v.places[0]
		if had := t.own.Load().of(f); had != nil {
			v.apart, v.kept = true, had.Clone()
			return
		}
		v.apart = !a.Charges() || t.ownKeys().room(now)
	}
	alone := v.into != nil
	for _, p := range v.places {
		if !p.retired && !alone && p.segment.keep(limit) {
			v.own, v.into = p, p
		}
		had, ok := p.has(now)
		switch {
		case !ok || p.retired && had.Limit.Fresh(had.State, now):
		case p == v.own:
			k.Limit, k.State, k.Since = limit, had.State, had.Since
		default:
			k.Earlier = append(k.Earlier, had)
			if v.own == nil {
				v.into = p
			}
		}
	}
	if v.apart {
		v.into, k.Since = v.places[0], max(k.Since, weir.Instant(v.places[0].table.since.Load()))
	}
	if n := len(k.Earlier); k.Limit == nil && n > 0 {
		last := k.Earlier[n-1]
		k.Limit, k.State, k.Since, k.Earlier = last.Limit, last.State, last.Since, k.Earlier[:n-1]
	}
	v.plain = k.Limit == nil && v.own != nil
	if v.into == nil || alone && !v.apart && k.Limit == nil {
		v.into = v.places[0]
		if k.Limit = v.into.table.limit.Load(); k.Limit == nil && alone {
			k.Limit = limit
		}
		if k.Limit != nil {
			v.into.segment.keep(k.Limit)
		}
	}
}

// has is the state in p's slot. One of zeros is none: the key has moved on, or was never
// used. It counts as long as its table is there, so it lasts until after now.
func (p *place) has(now weir.Instant) (v weir.Version, ok bool) {
	sg := p.segment
	slot := sg.cells.find(p.print)
	if slot < 0 || sg.limit == nil {
		return v, false
	}
	state := sg.state(slot)
	if !slices.ContainsFunc(state, func(word uint64) bool { return word != 0 }) {
		return v, false
	}
	return weir.Version{
		Limit: sg.limit, State: slices.Clone(state), Since: weir.Instant(p.table.since.Load()),
		Until: max(weir.Instant(p.table.until.Load()), now+1),
	}, true
}

// decideVersions decides asks some of which meet several tables. It is the steps of
// decide, with a weir.Kept in place of a state; asks of which no table has anything are
// decided as there.
//
// The plain ones are committed first, since they were promised slots without regard to those
// that write may claim for the others. The others go by copies, so slots may move before that.
func decideVersions(places []place, now weir.Instant, asks []weir.Ask, out []weir.Decision) {
	all := gather(slices.Clone(places), now, asks) // a copy, for theirs may be on a stack
	for i := range all {
		out[i] = all[i].decide(now, &asks[i], len(asks) > 1)
	}
	pass := weir.Resolve(asks, out)
	if weir.WantsEvidence(asks, pass) {
		for i := range all {
			asks[i].Evidence.Tell(now, all[i].view(asks[i].Limit, now))
		}
	}
	for i := range places {
		places[i].segment.tentative, places[i].segment.newcomers = nil, 0
	}
	for at := slotted; at <= shared; at++ { // as in decide
		for i := range all {
			if v := &all[i]; v.plain && v.home == at {
				v.own.segment.commit(v.own.print, at, now, &asks[i], &out[i])
			}
		}
	}
	for i := range all {
		all[i].commit(now, &asks[i], &out[i])
		all[i].into.table.give(&out[i])
	}
}

func (v *version) decide(now weir.Instant, a *weir.Ask, several bool) (d weir.Decision) {
	if v.plain {
		d, v.home = v.own.segment.decide(v.own.print, now, a, several)
		return d
	}
	if a.Charges() && (v.own != nil || v.apart) {
		v.kept.Become(a.Limit, now, 0)
	}
	return v.kept.Decide(now, a)
}

// commit carries out a decision, but for a plain one, which is carried out, and notes
// that its table was asked.
func (v *version) commit(now weir.Instant, a *weir.Ask, d *weir.Decision) {
	if v.apart {
		v.kept.Commit(now, a, d)
		if a.Charges() {
			v.keepApart(now)
		}
	} else if !v.plain {
		v.kept.Commit(now, a, d)
		v.write(now, a, *d)
	} else if a.Charges() {
		state, _ := v.own.segment.look(v.own.print, now)
		v.own.table.used(now, a.Limit, state)
	}
}

// view is what an ask stands on.
func (v *version) view(limit *weir.Limit, now weir.Instant) weir.State {
	if v.plain {
		state, _ := v.own.segment.look(v.own.print, now)
		return state
	}
	return v.kept.View(limit, now)
}

// write puts what is kept into the tables again, and forgets what is there else: a state
// that stayed behind in a table would count again when it is gathered next.
//
// Each place is in a table of its own, so a slot that claim finds in one moves none in another.
// Only into may claim one: in the others the key has its slot, or nothing to keep. A peek, or an
// ask for nothing, has changed no state, and writes none.
func (v *version) write(now weir.Instant, a *weir.Ask, d weir.Decision) {
	if !a.Charges() {
		return
	}
	for _, p := range v.places {
		sg := p.segment
		if sg.limit == nil {
			continue
		}
		i := sg.cells.find(p.print)
		if i < 0 && p == v.into {
			if i = sg.claim(p.print, now); i < 0 {
				sg.owe(p.print, now, a, d)
			}
		}
		var state weir.State
		if !p.retired || p == v.into {
			state = v.state(sg.limit)
		}
		if i >= 0 {
			sg.put(i, state)
		}
		if p == v.into {
			p.table.used(now, sg.limit, state)
		}
	}
}

// keepApart keeps the count of a key with a limit of its own, and leaves nothing of it in the tables.
func (v *version) keepApart(now weir.Instant) {
	kept := v.kept
	v.into.table.ownKeys().put(v.into.print, &kept, now)
	for _, p := range v.places {
		if p.segment.limit == nil {
			continue
		}
		if i := p.segment.cells.find(p.print); i >= 0 {
			p.segment.put(i, nil)
		}
	}
}

// state is what is kept by a limit, if anything is; nil makes its slot as never used.
func (v *version) state(limit *weir.Limit) weir.State {
	k := &v.kept
	if k.Limit.Alike(limit) {
		return k.State
	}
	for i := range k.Earlier {
		if k.Earlier[i].Limit.Alike(limit) {
			return k.Earlier[i].State
		}
	}
	return nil
}

// settleVersions settles the receipt of one ask that several tables may know. Kept.Settle finds
// the state by the limit that gave the receipt, else it goes by the one that decides. Where no
// table has a state of the key, it is as if there were one table.
func settleVersions(places []place, ask int, now weir.Instant, st *weir.Settlement) error {
	limit := st.Receipt.Limit
	v := version{}
	places = slices.Clone(places)
	for i := range places {
		if places[i].ask == ask {
			v.places = append(v.places, &places[i])
		}
	}
	v.gather(now, &weir.Ask{Limit: limit, Peek: true})
	if !v.apart && (v.plain || v.kept.State == nil) {
		return v.into.segment.settle(v.into.print, now, st)
	}
	err := v.kept.Settle(now, st)
	if v.apart {
		v.keepApart(now)
		return err
	}
	for _, p := range v.places {
		if i := p.segment.cells.find(p.print); i >= 0 {
			p.segment.put(i, v.state(p.segment.limit))
		}
	}
	return err
}
