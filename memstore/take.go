package memstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-limit/weir"
)

// plain is whether an ask is about its cost and nothing else. Alone, a take of
// shadow or quota is like any other. Nothing that can panic is plain, for the
// lock would stay.
func plain(a *weir.Ask) bool {
	return a.Limit != nil && uint64(a.Cost) <= weir.MaxCost && a.AtLeast == 0 && a.MaxHold == 0 && a.Receipt == 0 && !a.Peek && !a.After && !a.Own
}

// lone is whether a take is of one plain ask.
func lone(asks []weir.Ask, out []weir.Decision) bool {
	return len(asks) == 1 && len(out) == 1 && plain(&asks[0]) && asks[0].Evidence == nil
}

// takePlain is a take of one plain ask, the fast path. It reads the table and the segment
// without a lock, then locks that one segment, and looks under the lock whether both still
// hold: a segment that was split, or a limit that has changed, sends it on. A key that
// is denied again and again does not even lock: see denied.
//
// One look at versions under the lock is enough. If the limit changes just after it, this take
// came first: those that go by the change lock the segment here, too, and find what was charged.
//
// A state of two words is changed where it lies, and so is a longer one of fixed length. Only one
// that grows may come back as another, which set puts into the slabs.
func (s *Store) takePlain(now weir.Instant, key weir.StateKey, limit *weir.Limit, cost int64, d *weir.Decision) error {
	t, err := s.table(key.Rule)
	if err != nil {
		return err
	}
	f := t.hash.print(key.Key)
	sg := t.segment(f)
	if copies := sg.denied.Load(); copies != nil && t.versions.Load() == nil && copies.deny(f, now, limit, cost, d) {
		return nil
	}
	if sg.mu.Lock(); sg.gone {
		sg.mu.Unlock()
		sg = t.lock(f)
	}
	if t.versions.Load() != nil || t.own.Load().has(f) || sg.limit != limit && !sg.keep(limit) {
		sg.mu.Unlock()
		return s.takeChanged(now, &weir.Ask{State: key, Limit: limit, Cost: cost}, d)
	}
	if i := sg.cells.find(f); i < 0 {
		sg.admit(f, now, &weir.Ask{State: key, Limit: limit, Cost: cost}, d)
	} else if sg.cells.slot == pairSlot {
		state := weir.State(sg.cells.words[i+1 : i+pairSlot : i+pairSlot])
		sg.limit.Take(state, now, cost, d)
		if d.Outcome == weir.Denied && !d.Charged && !limit.DenialCounts() {
			sg.note(f, pair(state))
		} else {
			sg.changed(f)
		}
	} else {
		sg.set(i, sg.limit.Take(sg.state(i), now, cost, d))
	}
	sg.mu.Unlock()
	return nil
}

// takeChanged is such a take of a rule whose limit has changed, or of a key that had a limit of its own. The caller has let go of
// the segment, for this way may need a segment of a table that comes before it in the order.
func (s *Store) takeChanged(now weir.Instant, a *weir.Ask, d *weir.Decision) error {
	asks, out := [...]weir.Ask{*a}, [1]weir.Decision{}
	err := s.takeSlow(now, asks[:], out[:])
	*d = out[0]
	return err
}

// admit decides about a key that has no slot. Its caller has the lock of the segment. Where
// even the largest segment has no slot for the key, the overflow state decides.
func (sg *segment) admit(f uint64, now weir.Instant, a *weir.Ask, d *weir.Decision) {
	if sg.overflows(f, now) || !sg.admitNew(f, now, a, d) {
		asks, out := [...]weir.Ask{*a}, [1]weir.Decision{}
		sg.take(f, now, asks[:], out[:])
		*d = out[0]
	}
}

// take is what decide does with the only ask of a take.
func (sg *segment) take(f uint64, now weir.Instant, asks []weir.Ask, out []weir.Decision) {
	a, d := &asks[0], &out[0]
	var at home
	*d, at = sg.decide(f, now, a, false)
	if pass := weir.Resolve(asks, out); weir.WantsEvidence(asks, pass) {
		a.Evidence.Tell(now, sg.at(f, at))
	}
	sg.commit(f, at, now, a, d)
	sg.table.give(d)
}

// admitNew decides about a key that was never used. It fails when there is no
// slot for it, even in the largest segment; then the caller decides again, by the overflow state,
// and nothing has been kept of this decision. It decides first and looks for a slot
// afterwards: a key that is denied at once has nothing to remember, and moves no other.
func (sg *segment) admitNew(f uint64, now weir.Instant, a *weir.Ask, d *weir.Decision) bool {
	state := sg.limit.Take(sg.unused(), now, a.Cost, d)
	if !sg.notes(a, d) {
		return true
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

// takeSeveral is a take that is not of one plain ask.
func (s *Store) takeSeveral(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	if len(asks) != len(out) {
		return fmt.Errorf("memstore: %d asks and room for %d decisions", len(asks), len(out))
	}
	if len(asks) == 1 && !plain(&asks[0]) {
		if done, err := s.takeOne(now, asks, out); done {
			return err
		}
	} else if len(asks) <= maxFew && s.takeFew(now, asks, out) {
		return nil
	}
	return s.takeSlow(now, asks, out)
}

// takeOne is a take of one ask that is not plain, such as one that wants a receipt: takeSlow without
// its places. It is not done, and has changed nothing, where the ask charges once, or the limit of
// its rule has changed.
func (s *Store) takeOne(now weir.Instant, asks []weir.Ask, out []weir.Decision) (done bool, err error) {
	a := &asks[0]
	if a.Once {
		return false, nil
	}
	if err := a.Check(); err != nil {
		return true, fmt.Errorf("memstore: %w", err)
	}
	if err := s.receipts.Room(now, asks); err != nil {
		return true, fmt.Errorf("memstore: %w", err)
	}
	t, err := s.table(a.State.Rule)
	if err != nil {
		return true, err
	}
	f := t.hash.print(a.State.Key)
	sg := t.lock(f)
	defer sg.unlock()
	if t.versions.Load() != nil || t.apart(f, a) || sg.limit != a.Limit && !sg.keep(a.Limit) {
		return false, nil
	}
	sg.take(f, now, asks, out)
	return true, nil
}

// takeSlow is every other take: it locks the segments of all asks at once. Everything that can fail
// comes before any decision. Decisions are made and carried out under the same locks.
//
// A take that is to charge once asks for its first answer, and leaves its own, under these locks:
// the same take, come again, has the same states, so one of the two sees what the other did.
func (s *Store) takeSlow(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	for i := range asks {
		if err := asks[i].Check(); err != nil {
			return fmt.Errorf("memstore: %w", err)
		}
	}
	var few [4]place
	places, changed, err := s.lockAll(asks, few[:0], now)
	if err != nil {
		return err
	}
	defer unlock(places)
	id, once := s.once.wanted(asks)
	if once {
		if found, err := s.once.answered(id, now, out); found || err != nil {
			return err
		}
	}
	if err := s.receipts.Room(now, asks); err != nil {
		return fmt.Errorf("memstore: %w", err)
	}
	if changed {
		decideVersions(places, now, asks, out)
	} else {
		decide(places, now, asks, out)
	}
	if once {
		s.once.remember(id, out)
	}
	return nil
}

// maxRounds is how often a take looks where its states are. Only tables that other takes replaced
// meanwhile make it look again: each round that fails, another take has got on.
const maxRounds = 100

// lockAll finds where the states of the asks are, or would be, and locks them. It says
// whether a limit has changed, so that there are several places of an ask, or none that
// understands it, or a key has a limit of its own. After maxRounds it fails with weir.ErrBusy.
//
// It finds without locks, then locks in order, and then looks whether what it found still holds.
// So it never waits for Store.mu while it has a segment: tidy and dropUnused, which have
// Store.mu, may wait for segments. A round that fails lets go of all.
func (s *Store) lockAll(asks []weir.Ask, few []place, now weir.Instant) (places []place, changed bool, err error) {
	for range maxRounds {
		places = few
		for i := range asks {
			if places, err = s.find(places, i, asks[i].State, asks[max(i-1, 0)].State, now); err != nil {
				return nil, false, err
			}
		}
		if err := order(places); err != nil {
			return nil, false, err
		}
		lock(places)
		changed, homeless, ok := ready(places, asks)
		if ok && homeless < 0 {
			return places, changed, nil
		}
		unlock(places)
		if ok {
			s.branch(asks[homeless].State.Rule, asks[homeless].Limit, now)
		}
	}
	s.busy.Add(1)
	return nil, false, fmt.Errorf("memstore: the limits changed during all %d rounds: %w", maxRounds, weir.ErrBusy)
}

// ready is whether the places are still those of their rules. It says whether any limit
// has changed, and which ask needs a table for its limit, or −1. It looks under the locks
// of all segments at what find has seen without them.
//
// Versions are made anew for each change, and compared by their pointers. The same pointer means
// that nothing has changed in between. nil twice may hide that the table had others for a while;
// now it is the only one again, so its states are all there are.
func ready(places []place, asks []weir.Ask) (changed bool, homeless int, ok bool) {
	homeless = -1
	for i := range places {
		p := &places[i]
		a := &asks[p.ask]
		v := p.table.current()
		apart := p.table.apart(p.print, a)
		switch {
		case v != p.versions:
			return false, -1, false
		case v == nil && !apart && (a.Limit == nil || p.segment.keep(a.Limit)): // a reset has none
			continue
		case apart: // no table needs to understand its limit
		case a.Charges() && !v.understand(a.Limit):
			homeless = p.ask
		}
		changed = true
	}
	return changed, homeless, true
}

// find appends the places of one ask, at least one, given that before it. A rule whose tables can
// be tidied is tidied first, by the take that notices: there is no goroutine for that.
func (s *Store) find(places []place, ask int, k, before weir.StateKey, now weir.Instant) ([]place, error) {
	t, err := s.table(k.Rule)
	if err != nil {
		return nil, err
	}
	v := t.current()
	if v != nil && (v.dropped() || v.due(now)) {
		s.tidy(k.Rule, now)
		s.recent.of(k.Rule).Store(nil)
		if t, err = s.table(k.Rule); err != nil {
			return nil, err
		}
		v = t.current()
	}
	var print uint64
	if ask > 0 && k.Key == before.Key { // as for most requests of several limits
		print = places[len(places)-1].print
	} else {
		print = t.hash.print(k.Key)
	}
	if v == nil || v.dropped() { // the latter since just now: ready finds that, and the take looks again
		return append(places, place{table: t, ask: ask, print: print}), nil
	}
	for _, t := range v.live {
		places = append(places, place{table: t, ask: ask, print: print, versions: v})
	}
	for _, t := range v.retired {
		places = append(places, place{table: t, ask: ask, print: print, versions: v, retired: true})
	}
	return places, nil
}

// decide decides the asks, whose places are locked, in the three steps of every store:
// what each limit says alone, what becomes of them together, and what is kept. The first two
// change no state, so evidence is told between the second and the third: it is what the take
// stood on.
func decide(places []place, now weir.Instant, asks []weir.Ask, out []weir.Decision) {
	for i := range places {
		p := &places[i]
		out[p.ask], p.home = p.segment.decide(p.print, now, &asks[p.ask], len(asks) > 1)
	}
	pass := weir.Resolve(asks, out)
	if weir.WantsEvidence(asks, pass) {
		for i := range places {
			p := &places[i]
			asks[p.ask].Evidence.Tell(now, p.segment.at(p.print, p.home))
		}
	}
	// The forecasts of this take end here; the next one to lock a segment begins without.
	for i := range places {
		places[i].segment.tentative, places[i].segment.newcomers = nil, 0
	}
	// Slots that a newcomer gets may be moved, or be those of another ask, so these
	// are done with first. Asks that share a state get the rest.
	for at := slotted; at <= shared; at++ {
		for i := range places {
			if p := &places[i]; p.home == at {
				p.segment.commit(p.print, at, now, &asks[p.ask], &out[p.ask])
				p.table.give(&out[p.ask])
			}
		}
	}
}

// place is where the state of an ask lives. An ask has one, or one in each table of a
// rule whose limit has changed. It names the state by table and fingerprint, which stay the same
// whatever happens to segments and slots.
type place struct {
	table   *table
	segment *segment // nil until lock; places of one segment follow each other
	print   uint64   // the fingerprint of the ask's key
	ask     int      // its index in the take

	// versions are those of the table when the place was found; ready compares them.
	versions *versions
	retired  bool // the table is one of their retired ones
	home     home // which state decided, so that commit changes that one
}

func (p *place) before(o *place) bool {
	if p.table != o.table {
		return p.table.order < o.table.order
	}
	return p.print < o.print
}

// order brings places in an order that is the same for all takes. It fails for two of one
// state. It is fast for the few places that most takes have.
//
// The order goes by what never changes, the number of a table and the fingerprint. Segments of
// a table lie in the order of their fingerprints, so it is an order of segments as well, before
// and after any split.
func order(places []place) error {
	if len(places) > 16 {
		slices.SortFunc(places, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.table.order, b.table.order), cmp.Compare(a.print, b.print))
		})
	} else {
		for i := 1; i < len(places); i++ {
			for j := i; j > 0 && places[j].before(&places[j-1]); j-- {
				places[j], places[j-1] = places[j-1], places[j]
			}
		}
	}
	for i := 1; i < len(places); i++ {
		if places[i].table == places[i-1].table && places[i].print == places[i-1].print {
			return errors.New("memstore: two asks of one take name the same state; add up their costs")
		}
	}
	return nil
}

// lock locks the segments of places, which are in order, each once: so takes never wait
// for each other in a circle. Fingerprints of one segment follow each other in that order,
// as a segment is the fingerprints that begin alike; so one look back tells whether it is
// locked already.
func lock(places []place) {
	for i := range places {
		p := &places[i]
		if i > 0 && places[i-1].table == p.table && places[i-1].segment.holds(p.print) {
			p.segment = places[i-1].segment
			continue
		}
		p.segment = p.table.lock(p.print)
	}
}

// unlock splits what has become large, now that nobody looks for its place in it. It compares
// segments by their pointers and not by the directory, which leads elsewhere after a split.
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
