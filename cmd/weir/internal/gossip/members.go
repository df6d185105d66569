package gossip

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// The bounds and times of membership.
const (
	// MaxMembers is how many members there may be. More are not let in.
	MaxMembers = 1024
	// maxGone is how many processes that are no members any more are remembered.
	// The one that went first makes place.
	maxGone = 1024
	// Confirm is how long memberlist has to call a silent member dead until it is
	// taken for gone, and the others share what was its part, if they are the most.
	Confirm = 30 * time.Second
	// settledAfter is how long after it has met the others a process may still take a
	// later incarnation, when its name had a later one.
	settledAfter = 10 * time.Second

	// hearsay is how long the word holds that a process is gone which is still heard: the
	// operator who said so may have seen the silence first.
	hearsay = 5 * time.Second

	// keepGone is longer than all take to hear that one is gone.
	keepGone = 10 * time.Minute
)

// process is one run of a node, as it tells the others.
type process struct {
	identity
	address     netip.AddrPort
	incarnation uint64
	tcp         bool
	meta        []byte
}

// standing is what a process is to the others.
type standing uint8

const (
	agreed   standing = iota // a member, also while nobody hears it
	left                     // it said so itself
	replaced                 // a later process has its name
	gone                     // silent for long, or the operator said so
)

type entry struct {
	process
	standing standing
	alive    bool          // memberlist reaches it
	since    time.Duration // when standing or alive changed
	lost     bool          // of left: it has given up its name to another
	doubted  time.Duration // of agreed: until when it is gone as soon as it is silent; 0: it is not
	// remembered is whether the last process of this name knew it, and no member has spoken of it
	// since. Nobody is told of it for a while: members know better.
	remembered bool
}

// table is who is a member, as this process knows. It is told what happens and
// when; what it says depends on nothing else.
type table struct {
	me      process
	entries map[uint64]*entry // the others, by number
	version uint64            // changes with what members or peers are made of

	lasts map[uint64]bool // the processes that the last one of this name knew

	met    time.Duration // when another node was met first
	known  bool          // one was
	raised bool          // me has a later incarnation than it began with
	lost   bool          // another process has the name of me
}

func newTable(me process) *table {
	return &table{me: me, entries: map[uint64]*entry{}, lasts: map[uint64]bool{}}
}

// later is whether p takes the name from q.
func (p *process) later(q *process) bool {
	return cmp.Or(cmp.Compare(p.incarnation, q.incarnation), cmp.Compare(p.id, q.id)) > 0
}

// admits is whether there is place for the process of a number.
func (t *table) admits(id uint64) bool {
	if e := t.entries[id]; e != nil && e.standing == agreed {
		return true
	}
	return t.count() < MaxMembers
}

// count is how many are members, this process among them.
func (t *table) count() int {
	n := 1
	for _, e := range t.entries {
		if e.standing == agreed {
			n++
		}
	}
	return n
}

// join takes in what memberlist says of a process that it reaches.
func (t *table) join(now time.Duration, p process) {
	if e := t.entries[p.id]; p.id == t.me.id || !t.admits(p.id) || e != nil && e.standing == left {
		return
	}
	t.version++
	t.replace(p.name)
	t.entries[p.id] = &entry{process: p, alive: true, since: now}
	if p.name != t.me.name && !t.known {
		t.known, t.met = true, now
	}
	t.settle(now, p.name)
}

// die takes note that memberlist calls a process dead.
func (t *table) die(now time.Duration, id uint64) {
	if e := t.entries[id]; e != nil && e.alive {
		e.alive = false
		if e.standing == agreed {
			e.since = now
		}
		t.version++
	}
}

// depart ends the membership of a process. heard is whether it is heard of: then it is not gone,
// whichever member says so. It tells whether something changed.
func (t *table) depart(now time.Duration, id uint64, how standing, heard bool) bool {
	e := t.entries[id]
	if e == nil || how == gone && heard || e.standing != agreed && (e.standing != replaced || how != left) {
		return false
	}
	if e.standing = how; how != replaced || e.alive {
		e.since = now // else since it was called dead
	}
	t.version++
	t.forget()
	return true
}

// doubt takes note that another member was told to forget a process that is still heard here. It
// tells whether that is news, which it is once: copies may go around for a while.
func (t *table) doubt(now time.Duration, id uint64) bool {
	e := t.entries[id]
	if e == nil || e.standing != agreed || e.doubted > 0 && now < e.doubted+Confirm {
		return false
	}
	e.doubted = now + hearsay
	return true
}

// tick confirms that a member is gone when it was dead and silent for all of confirm, on the side
// that most members are on: in a partition, only one side may take over the keys of the other. A
// member that counted as gone and is reached all the same is a member again.
func (t *table) tick(now time.Duration, silent, long func(id uint64) bool, confirm time.Duration) {
	most := t.most(silent)
	for id, e := range t.entries {
		age := now - e.since
		switch {
		case e.standing == agreed && !e.alive && age >= confirm && most && silent(id) && long(id):
			t.depart(now, id, gone, false)
		case e.standing == agreed && now < e.doubted && silent(id):
			t.depart(now, id, gone, false)
		case e.standing == gone && e.alive && age >= confirm && t.admits(id):
			e.standing, e.since = agreed, now
			t.version++
			t.settle(now, e.name)
		case e.standing != agreed && !e.alive && age >= keepGone:
			delete(t.entries, id)
			t.version++
		}
	}
}

// most is whether the members that are heard, with this one, are more than half of
// all, or half of them with the first by name.
func (t *table) most(silent func(id uint64) bool) bool {
	heard, all, first, with := 1, 1, t.me.name, true
	for id, e := range t.entries {
		if e.standing != agreed {
			continue
		}
		all++
		hears := !silent(id)
		if hears {
			heard++
		}
		if e.name < first {
			first, with = e.name, hears
		}
	}
	return 2*heard > all || 2*heard == all && with
}

// settle leaves a name to the latest of the processes that have it. It may be
// another than this one: then that has the name, unless this one is so new that
// it takes a later incarnation. So clocks do not matter for a name: the process that came last has
// it.
func (t *table) settle(now time.Duration, name string) {
	var latest *entry
	for _, e := range t.entries {
		if e.name == name && e.standing == agreed && (latest == nil || e.later(&latest.process)) {
			latest = e
		}
	}
	if name == t.me.name && latest != nil {
		latest = t.contest(now, latest)
	}
	for id, e := range t.entries {
		if e.name == name && e != latest {
			t.depart(now, id, replaced, false)
		}
	}
}

// contest is the other process that has the name of this one; nil: this one has it.
func (t *table) contest(now time.Duration, other *entry) *entry {
	switch {
	case !other.later(&t.me):
		return nil
	case t.raise(now, other.incarnation):
		return nil
	}
	t.lost = true
	return other
}

// fence is for how long an earlier process of this one's name may yet decide: it may be cut off, and live,
// until members of which the others hear nothing are given up. One that was where this one is has
// ended, for this one has its port.
func (t *table) fence(now time.Duration) time.Duration {
	var until time.Duration
	for _, e := range t.entries {
		if e.standing == replaced && e.name == t.me.name && e.address != t.me.address {
			until = max(until, e.since+Confirm)
		}
	}
	return max(until-now, 0)
}

// raise gives this process a later incarnation than another that had its name. It
// may do so once, and soon after the start.
func (t *table) raise(now time.Duration, incarnation uint64) bool {
	if t.raised || t.lost || t.known && now-t.met >= settledAfter {
		return false
	}
	t.raised, t.me.incarnation = true, incarnation+1
	t.version++
	return true
}

// forget makes place for more that are gone.
func (t *table) forget() {
	for len(t.entries) > MaxMembers+maxGone {
		var first *entry
		for _, e := range t.entries {
			if e.standing != agreed && (first == nil || e.since < first.since) {
				first = e
			}
		}
		delete(t.entries, first.id)
	}
}

// merge takes in what another process knows of processes that memberlist does not reach: members
// that are dead, and members that are gone.
func (t *table) merge(now time.Duration, others []entry, silent func(id uint64) bool) {
	for _, o := range others {
		mine := t.entries[o.id]
		switch {
		case o.id == t.me.id:
			continue
		case mine != nil && o.standing != agreed:
			t.depart(now, o.id, o.standing, mine.alive || !silent(o.id))
		case mine != nil:
			mine.remembered = false
		case o.standing != agreed || t.admits(o.id):
			if o.standing == agreed {
				t.replace(o.name)
			}
			t.entries[o.id] = &o
			t.version++
			t.forget()
		}
		if o.name == t.me.name && o.later(&t.me) {
			t.raise(now, o.incarnation)
		}
		if mine == nil && o.standing == agreed {
			t.settle(now, o.name)
		}
	}
}

// unreached are the members and former members that memberlist tells nobody about.
func (t *table) unreached(now time.Duration) []entry {
	var all []entry
	for _, e := range t.entries {
		if (!e.alive || e.standing != agreed) && (!e.remembered || now >= e.since+settledAfter) {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.id, b.id) })
	return all
}
