package memstore

import "github.com/weir-limit/weir"

// maxFew is how many asks the fast way of several takes.
const maxFew = 4

// part is an ask of a take of a few plain asks, on its fast way. All parts are on the stack
// of the take: nothing here may keep a pointer to one.
//
// The steps are those of every take. orderFew puts the parts in the order of locks, lockFew
// locks, findFew looks whether all is as almost always, and chargeFew decides and charges.
// Before that, copyFew, sameFew and peekFew try to deny without a lock.
//
// Every step may say no, and has then changed nothing that counts: the slow way begins anew. So
// this way needs to know only the common case, and a case that it forgets costs time and no more.
type part struct {
	ask      int         // its index in the take; parts are in another order
	limit    *weir.Limit // the ask's, which the segment has, too, once findFew has said so
	cost     int64
	evidence *weir.Evidence // nil: none is wanted

	table   *table
	print   uint64
	segment *segment
	// slot is where the state's words begin; −1 for a newcomer, until the take has passed. Only
	// newcomers make a segment lay out anew, and each is the only part of its segment: so it stays there.
	slot  int
	state pair // as it is before the take; zeros for a newcomer
	// copy and number are of the copy that state was read from, without a lock. The copy
	// belongs to the segment, not to the key: by now it may be of another one, and then its
	// number is another, too.
	copy   *denial
	number uint64
}

// takeFew is the fast way of a take of a few plain asks, for keys and limits as almost
// all are: every state has two words, and no limit has changed. It says whether it has
// decided; if not, it has changed nothing.
func (s *Store) takeFew(now weir.Instant, asks []weir.Ask, out []weir.Decision) bool {
	var few [maxFew]part
	for i := range asks {
		a, p := &asks[i], &few[i]
		if !plain(a) || a.Shadow || a.Quota || a.Evidence != nil && a.Evidence.Always {
			return false
		}
		if i > 0 && a.State.Key == asks[i-1].State.Key { // as for most requests of several limits
			p.print = few[i-1].print
		} else {
			p.print = s.hash.print(a.State.Key)
		}
		p.ask, p.limit, p.cost, p.evidence = i, a.Limit, a.Cost, a.Evidence
		var err error
		if p.table, err = s.table(a.State.Rule); err != nil {
			return false
		}
	}
	return decideFew(few[:len(asks)], now, out)
}

// takeKey is takeFew of asks that differ in their rule and limit alone.
func (s *Store) takeKey(now weir.Instant, key string, rules []string, limits []*weir.Limit, cost int64, out []weir.Decision) bool {
	if len(limits) <= 2 {
		var two [2]part
		return s.partsOf(two[:len(limits)], key, rules, limits, cost) && decideFew(two[:len(limits)], now, out)
	}
	var few [maxFew]part
	return s.partsOf(few[:len(limits)], key, rules, limits, cost) && decideFew(few[:len(limits)], now, out)
}

// partsOf fills in parts for takeKey. All tables of a store hash alike, so the key has one
// fingerprint in all of them.
func (s *Store) partsOf(parts []part, key string, rules []string, limits []*weir.Limit, cost int64) bool {
	f := s.hash.print(key)
	for i := range parts {
		p := &parts[i]
		p.ask, p.limit, p.cost, p.print = i, limits[i], cost, f
		var err error
		if p.table, err = s.table(rules[i]); err != nil {
			return false
		}
	}
	return true
}

// takeAsks is a take of such asks that takeKey has not decided. It is apart for its memory.
func (s *Store) takeAsks(now weir.Instant, key string, rules []string, limits []*weir.Limit, cost int64, out []weir.Decision) error {
	var few [maxFew]weir.Ask
	asks := few[:0]
	for i, l := range limits {
		asks = append(asks, weir.Ask{State: weir.StateKey{Rule: rules[i], Key: key}, Limit: l, Cost: cost})
	}
	return s.takeSlow(now, asks, out)
}

// decideFew decides parts whose tables and fingerprints are known. The segments are looked
// for once, for the copies and for the locks: one that is split in between says so under
// its lock, and then the slow way looks again. The order of locks is right all the
// same, for it goes by tables and fingerprints: see order.
func decideFew(parts []part, now weir.Instant, out []weir.Decision) bool {
	if !orderFew(parts) {
		return false
	}
	copies := true
	for i := range parts {
		p := &parts[i]
		p.segment = p.table.segment(p.print)
		if all := p.segment.denied.Load(); all != nil {
			p.copy = all.of(p.print)
		} else {
			copies = false
		}
	}
	if copies && copyFew(parts) && sameFew(parts) && peekFew(parts, now, out) {
		return true
	}
	if !lockFew(parts) {
		return false
	}
	decided := findFew(parts, now) && chargeFew(parts, now, out)
	unlockFew(parts)
	return decided
}

// orderFew brings parts in the order of locks: see order. It fails for two of one state.
func orderFew(parts []part) bool {
	for i := 1; i < len(parts); i++ {
		for j := i; j > 0; j-- {
			p, o := &parts[j], &parts[j-1]
			if p.table == o.table && p.print == o.print {
				return false
			}
			if o.table.order < p.table.order || o.table == p.table && o.print < p.print {
				break
			}
			*p, *o = *o, *p
		}
	}
	return true
}

// lockFew locks the segments of parts, which are in order: see lock. It fails, and locks
// none, if one was split since it was found.
func lockFew(parts []part) bool {
	for i := range parts {
		sg := parts[i].segment
		if i > 0 && sg == parts[i-1].segment {
			continue
		}
		if sg.mu.Lock(); sg.gone {
			unlockFew(parts[:i+1])
			return false
		}
	}
	return true
}

// unlockFew splits what has become large, as unlock does.
func unlockFew(parts []part) {
	for i := range parts {
		if sg := parts[i].segment; i == 0 || sg != parts[i-1].segment {
			sg.unlock()
		}
	}
}

// findFew finds the states of parts that are locked. It fails for a rule whose limit has
// changed, for a key that had a limit of its own, for states of another length, and for a newcomer that shares the overflow state, or
// its segment with another part: the slow way knows them all. Nothing is changed by then but what
// keep does.
//
// It goes over all parts before a state is read, so that a processor waits for the memory of
// all slots at the same time.
func findFew(parts []part, now weir.Instant) bool {
	for i := range parts {
		p := &parts[i]
		sg := p.segment
		if p.table.versions.Load() != nil || p.table.own.Load().has(p.print) || sg.limit != p.limit && !sg.keep(p.limit) || sg.cells.slot != pairSlot {
			return false
		}
		if at := sg.cells.find(p.print); at >= 0 {
			p.slot = at + 1
			continue
		}
		if i > 0 && sg == parts[i-1].segment || i+1 < len(parts) && sg == parts[i+1].segment || sg.overflows(p.print, now) {
			return false
		}
		p.slot = -1
	}
	return true
}

// chargeFew charges one after the other, and takes all back when one does not allow. All
// asks are decided even then, for each has an answer.
//
// Taking back is copying two words back. A copy of a denied key that is read meanwhile
// without the lock holds the words from before, which are right if all is taken back; if
// not, it is dropped under the lock.
//
// All copies are dropped before the first lock is released. A take without locks that has read
// one state from before this take then finds the copies of the others dropped, too, or reads
// them as they were: sameFew tells.
//
// A denial that would leave a trace, such as with count-denied, is taken back like any other.
// peekFew then says no, and the slow way decides with the trace.
func chargeFew(parts []part, now weir.Instant, out []weir.Decision) bool {
	pass := true
	for i := range parts {
		p := &parts[i]
		state := p.words()
		p.state = pair(state)
		d := &out[p.ask]
		p.limit.Take(state, now, p.cost, d)
		pass = pass && d.Outcome == weir.Allowed
	}
	if pass && admitFew(parts, now, out) {
		return true
	}
	for i := range parts {
		if p := &parts[i]; p.slot >= 0 {
			copy(p.segment.cells.words[p.slot:], p.state[:])
		}
	}
	if pass || !peekFew(parts, now, out) {
		return false
	}
	for i := range parts {
		if p := &parts[i]; p.slot >= 0 {
			p.segment.note(p.print, p.state)
		}
	}
	return true
}

// words is the state of a part that findFew has found: it lies in its slot, or in scratch.
func (p *part) words() weir.State {
	if p.slot < 0 {
		return p.segment.unused()
	}
	return p.segment.cells.words[p.slot : p.slot+2 : p.slot+2]
}

// admitFew gives newcomers of a take that passes their slots, where there is something to remember,
// and drops copies of what has changed. It fails where one finds no slot. The caller then makes the
// slots of the newcomers before it as never used. A copy that is dropped too early costs a lock.
func admitFew(parts []part, now weir.Instant, out []weir.Decision) bool {
	for i := range parts {
		p := &parts[i]
		sg := p.segment
		if p.slot >= 0 {
			sg.changed(p.print)
			continue
		}
		if !out[p.ask].Charged { // it cost nothing
			continue
		}
		charged := pair(sg.scratch[:2])
		at := sg.claim(p.print, now)
		if at < 0 {
			return false
		}
		sg.put(at, charged[:])
		p.slot = at + 1
	}
	return true
}

// copyFew reads the copies of all states. It fails where one says nothing. The words may be
// torn by a writer until sameFew has said that it is not.
func copyFew(parts []part) bool {
	for i := range parts {
		p := &parts[i]
		ok := false
		if p.state, p.number, ok = p.copy.read(p.print, p.limit); !ok {
			return false
		}
	}
	return true
}

// sameFew is whether the copies that copyFew has read are those of one moment. One that
// still has its number was its key's state all the time since it was read. So there was a
// moment, between the last copy read and the first one looked at again, when all were.
func sameFew(parts []part) bool {
	for i := range parts {
		p := &parts[i]
		if p.copy.number.Load() != p.number || p.table.versions.Load() != nil {
			return false
		}
	}
	return true
}

// peekFew is what a take is told that charges nothing as one of its limits denies. It
// fails where none does, or a limit has no such answer: a denial by it may leave a trace.
func peekFew(parts []part, now weir.Instant, out []weir.Decision) bool {
	denied := false
	for i := range parts {
		p := &parts[i]
		d := &out[p.ask]
		if !p.limit.Peek(p.state, now, p.cost, d) {
			return false
		}
		denied = denied || d.Outcome != weir.Allowed
	}
	if !denied {
		return false
	}
	for i := range parts {
		p := &parts[i]
		if p.slot < 0 {
			p.evidence.Tell(now, nil)
		} else {
			p.evidence.Tell(now, p.state[:])
		}
	}
	return true
}
