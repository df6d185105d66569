package gossip

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func run(id uint64, name string, incarnation uint64) process {
	return process{
		identity: identity{id, name}, incarnation: incarnation,
		address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(id)}), 8083),
	}
}

func silentAll(uint64) bool { return true }

// names are the members of t, with their incarnations.
func (t *table) names() []string {
	var names []string
	if !t.lost {
		names = append(names, fmt.Sprint(t.me.name, " ", t.me.incarnation))
	}
	for _, e := range t.entries {
		if e.standing == agreed {
			names = append(names, fmt.Sprint(e.name, " ", e.incarnation))
		}
	}
	slices.Sort(names)
	return names
}

func (t *table) want(tb testing.TB, names ...string) {
	tb.Helper()
	if diff := cmp.Diff(names, t.names()); diff != "" {
		tb.Error(diff)
	}
}

// TestFenceOf: a process waits for an earlier one of its name that was elsewhere and may live, until
// that has been silent for long, or says that it has heard of this one.
func TestFenceOf(t *testing.T) {
	at := func(id uint64) process { p := run(id, "a", id); return p }
	m := newTable(at(9))
	m.join(2*time.Second, at(3))
	if got := m.fence(5 * time.Second); got != Confirm-3*time.Second {
		t.Errorf("it waits %v for one that was reached", got)
	}
	m.depart(6*time.Second, 3, left, true)
	if got := m.fence(6 * time.Second); got != 0 {
		t.Errorf("it waits %v for one that has given up its name", got)
	}

	m = newTable(at(9))
	m.merge(60*time.Second, []entry{{process: at(3), since: 45 * time.Second}}, silentAll)
	if got := m.fence(60 * time.Second); got != Confirm-15*time.Second {
		t.Errorf("it waits %v for one that has been dead for 15 s", got)
	}

	m, before := newTable(at(9)), at(3)
	before.address = m.me.address
	m.join(2*time.Second, before)
	if got := m.fence(5 * time.Second); got != 0 {
		t.Errorf("it waits %v for one whose port it has", got)
	}
}

// TestMembership follows nodes through what can become of them.
func TestMembership(t *testing.T) {
	m := newTable(run(1, "a", 10))
	m.join(0, run(2, "b", 20))
	m.join(0, run(3, "c", 30))
	m.want(t, "a 10", "b 20", "c 30")

	m.die(1*time.Second, 2)
	silent := func(id uint64) bool { return id == 2 }
	m.tick(30*time.Second, silent, silent, Confirm)
	m.want(t, "a 10", "b 20", "c 30") // memberlist has called it dead for 29 s
	m.tick(31*time.Second, func(uint64) bool { return false }, func(uint64) bool { return false }, Confirm)
	m.want(t, "a 10", "b 20", "c 30") // it is heard of
	m.tick(31*time.Second, silent, func(uint64) bool { return false }, Confirm)
	m.want(t, "a 10", "b 20", "c 30") // it was heard while memberlist called it dead
	m.tick(31*time.Second, silentAll, silentAll, Confirm)
	m.want(t, "a 10", "b 20", "c 30") // the others may be the most
	m.tick(31*time.Second, silent, silent, Confirm)
	m.want(t, "a 10", "c 30")

	m.merge(32*time.Second, []entry{{process: run(2, "b", 20), since: 0}}, silentAll)
	m.want(t, "a 10", "c 30") // who has not confirmed it yet does not bring it back
	m.join(33*time.Second, run(2, "b", 20))
	m.want(t, "a 10", "b 20", "c 30") // but it does itself

	m.join(34*time.Second, run(4, "b", 21))
	m.want(t, "a 10", "b 21", "c 30") // restarted
	m.die(35*time.Second, 2)
	m.join(36*time.Second, run(2, "b", 20))
	m.want(t, "a 10", "b 21", "c 30") // an older process of the name

	m.depart(37*time.Second, 3, left, true)
	m.join(38*time.Second, run(3, "c", 30))
	m.want(t, "a 10", "b 21") // what was said before it left comes late

	m.depart(39*time.Second, 4, gone, true)
	m.want(t, "a 10", "b 21") // an operator forgets who is heard of
	m.depart(39*time.Second, 4, gone, false)
	m.want(t, "a 10")
	m.tick(70*time.Second, silentAll, silentAll, Confirm)
	m.want(t, "a 10", "b 21") // memberlist has reached it all the time
}

// TestForgottenWhileHeard has the word that a process is gone come while it is still heard. It is gone
// when it falls silent soon, and not when it does later.
func TestForgottenWhileHeard(t *testing.T) {
	m := newTable(run(1, "a", 10))
	m.join(0, run(2, "b", 20))
	nobody := func(uint64) bool { return false }
	if !m.doubt(time.Second, 2) || m.doubt(time.Second, 2) || m.doubt(time.Second, 3) {
		t.Error("what is news is told on once")
	}
	m.tick(2*time.Second, nobody, nobody, Confirm)
	m.want(t, "a 10", "b 20")
	m.tick(time.Second+hearsay, silentAll, nobody, Confirm)
	m.want(t, "a 10", "b 20") // it was heard for long after the word

	m.doubt(60*time.Second, 2)
	m.tick(61*time.Second, silentAll, nobody, Confirm)
	m.want(t, "a 10")
	m.join(62*time.Second, run(2, "b", 20))
	m.tick(63*time.Second, silentAll, nobody, Confirm)
	m.want(t, "a 10", "b 20") // it was heard of again
}

// TestDeadMembersAreToldOn holds that who joins hears of members that are dead:
// else it would take its side of a cut for all there is.
func TestDeadMembersAreToldOn(t *testing.T) {
	old := newTable(run(1, "a", 10))
	old.join(0, run(2, "b", 20))
	old.die(5*time.Second, 2)

	told, err := parseEntries(formatEntries(15*time.Second, old.unreached(15*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	fresh := newTable(run(3, "c", 30))
	fresh.join(0, run(4, "d", 40))
	silent := func(id uint64) bool { return id == 2 }
	for i := range told {
		told[i].since += 100 * time.Second // its own clock
	}
	fresh.merge(100*time.Second, told, silent)
	fresh.want(t, "b 20", "c 30", "d 40")
	fresh.tick(119*time.Second, silent, silent, Confirm)
	fresh.want(t, "b 20", "c 30", "d 40") // dead for 29 s
	fresh.tick(120*time.Second, silent, silent, Confirm)
	fresh.want(t, "c 30", "d 40")
}

// TestOneSideTakes cuts any members into any two sides. When both have waited, at most
// one has taken the other for gone; and one has.
func TestOneSideTakes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.Uint64Range(2, 9).Draw(r, "nodes")
		side := map[uint64]bool{}
		var tables []*table
		for i := range nodes {
			side[i+1] = rapid.Bool().Draw(r, "side")
			tables = append(tables, newTable(run(i+1, fmt.Sprint("n", i), 1)))
		}
		takes := map[bool]int{}
		for _, m := range tables {
			for _, n := range tables {
				m.join(0, n.me)
			}
			silent := func(id uint64) bool { return side[id] != side[m.me.id] }
			cut := false
			for _, n := range tables {
				if silent(n.me.id) {
					m.die(0, n.me.id)
					cut = true
				}
			}
			if m.tick(Confirm, silent, silent, Confirm); cut && m.count() < int(nodes) {
				takes[side[m.me.id]]++
			}
		}
		on := map[bool]int{}
		for _, s := range side {
			on[s]++
		}
		if len(on) < 2 {
			return
		}
		for s, n := range on {
			if takes[s] != 0 && takes[s] != n {
				t.Fatalf("of %d on one side %d took the others for gone", n, takes[s])
			}
		}
		if len(takes) != 1 {
			t.Fatalf("sides of %v: took the other for gone: %v", on, takes)
		}
	})
}

// TestNames lets two processes of one name meet, whichever began with the later
// incarnation, whatever they have met before. One keeps the name, with the latest
// incarnation of all, and the other knows that it has lost it. Who came later
// keeps it, when the other one has been there for long: clocks do not matter.
func TestNames(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		one := newTable(run(1, "n", rapid.Uint64Range(1, 5).Draw(r, "one")))
		two := newTable(run(2, "n", rapid.Uint64Range(1, 5).Draw(r, "two")))
		highest := max(one.me.incarnation, two.me.incarnation)
		now := time.Minute
		settled := rapid.Bool().Draw(r, "settled")
		if settled {
			one.join(now-settledAfter, run(9, "other", 1))
		}
		if rapid.Bool().Draw(r, "met") {
			two.join(now, run(9, "other", 1))
		}
		for range 10 {
			if rapid.Bool().Draw(r, "turn") {
				one.join(now, two.me)
			} else {
				two.join(now, one.me)
			}
		}
		for range 4 {
			one.join(now, two.me)
			two.join(now, one.me)
		}
		keeps, loses := one, two
		if one.lost {
			keeps, loses = two, one
		}
		if keeps.lost || !loses.lost {
			t.Fatalf("one lost %v, two lost %v", one.lost, two.lost)
		}
		if keeps.me.incarnation < highest || !keeps.me.later(&loses.me) {
			t.Fatalf("incarnation %d keeps the name from %d", keeps.me.incarnation, loses.me.incarnation)
		}
		if settled && keeps != two {
			t.Fatal("the process that came first has kept the name")
		}
		third := newTable(run(3, "c", 1))
		for _, p := range rapid.Permutation([]process{one.me, two.me}).Draw(r, "order") {
			third.join(now, p)
		}
		third.want(t, "c 1", fmt.Sprint("n ", keeps.me.incarnation))
	})
}

// TestClockSetBack restarts a node whose clock was set back: it takes a later
// incarnation than the one before had, whether that one is still a member, dead or
// gone.
func TestClockSetBack(t *testing.T) {
	before := run(1, "n", 1000)
	for name, tell := range map[string]func(*table){
		"reached": func(m *table) { m.join(0, before) },
		"dead":    func(m *table) { m.merge(0, []entry{{process: before}}, silentAll) },
		"gone":    func(m *table) { m.merge(0, []entry{{process: before, standing: gone}}, silentAll) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newTable(run(2, "n", 7))
			m.join(0, run(9, "other", 1))
			tell(m)
			m.want(t, "n 1001", "other 1")
		})
	}
}

// TestAgreement has nodes that are told the same in any order come to the same
// members.
func TestAgreement(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const nodes = 4
		var tables []*table
		for i := range nodes {
			tables = append(tables, newTable(run(uint64(i+1), fmt.Sprint("n", i), 1)))
		}
		type other struct {
			process
			alive bool
		}
		var others []other
		for i := range rapid.IntRange(0, 6).Draw(r, "others") {
			p := run(uint64(100+i), fmt.Sprint("x", rapid.IntRange(0, 2).Draw(r, "name")), rapid.Uint64Range(1, 3).Draw(r, "incarnation"))
			others = append(others, other{p, rapid.Bool().Draw(r, "alive")})
		}
		for i, m := range tables {
			for _, o := range rapid.Permutation(others).Draw(r, "order") {
				if rapid.Bool().Draw(r, "told") {
					m.join(0, o.process)
				}
			}
			for j, n := range tables {
				if i != j {
					m.join(0, n.me)
				}
			}
		}
		if len(others) > 0 && rapid.Bool().Draw(r, "forget") {
			tables[0].depart(0, rapid.SampledFrom(others).Draw(r, "forgotten").id, gone, false)
		}
		for _, m := range tables { // in the end memberlist tells all the same
			for _, o := range others {
				if o.alive {
					m.join(time.Second, o.process)
				} else {
					m.die(time.Second, o.id)
				}
			}
		}
		for range 3 {
			for _, m := range tables {
				for _, n := range tables {
					n.merge(time.Second, m.unreached(15*time.Second), silentAll)
				}
			}
		}
		for _, m := range tables[1:] {
			if diff := cmp.Diff(tables[0].names(), m.names()); diff != "" {
				t.Fatalf("they differ: %s", diff)
			}
		}
		dead := map[uint64]bool{}
		for _, o := range others {
			dead[o.id] = !o.alive
		}
		sure := true
		for _, m := range tables {
			silent := func(id uint64) bool { return dead[id] }
			sure = sure && m.most(silent)
			m.tick(time.Second+Confirm, silent, silent, Confirm)
		}
		if !sure {
			return
		}
		latest := map[string]uint64{}
		for _, o := range others {
			if o.alive {
				latest[o.name] = max(latest[o.name], o.incarnation)
			}
		}
		for _, m := range tables {
			for _, e := range m.entries {
				if e.standing == agreed && e.id >= 100 && latest[e.name] == 0 {
					t.Fatalf("%s %d is a member, and none of its processes lives", e.name, e.incarnation)
				}
			}
		}
	})
}

// TestBounds fills the table with members, and with who is gone.
func TestBounds(t *testing.T) {
	m := newTable(run(1, "a", 1))
	for i := range uint64(2 * MaxMembers) {
		m.join(0, run(1000+i, fmt.Sprint("n", i), 1))
	}
	if got := m.count(); got != MaxMembers {
		t.Errorf("%d members; want %d", got, MaxMembers)
	}
	for i := range uint64(2 * maxGone) {
		m.merge(time.Duration(i), []entry{{process: run(100_000+i, "gone", 1), standing: gone, since: time.Duration(i)}}, silentAll)
	}
	if got := len(m.entries); got != MaxMembers+maxGone {
		t.Errorf("%d entries; want %d", got, MaxMembers+maxGone)
	}
	if m.entries[100_000] != nil || m.entries[100_000+2*maxGone-1] == nil {
		t.Error("the one that went first has not made place")
	}
}

// FuzzEntries reads whatever comes as entries. What reads is written the same.
func FuzzEntries(f *testing.F) {
	m := newTable(run(1, "a", 10))
	m.join(0, run(2, "b", 20))
	m.die(5*time.Second, 2)
	f.Add(formatEntries(15*time.Second, m.unreached(15*time.Second)))
	f.Add(formatEntries(0, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseEntries(b)
		if err != nil {
			return
		}
		for i := range entries {
			if len(entries[i].name) > MaxName || len(entries[i].meta) > MaxMeta {
				t.Fatalf("too long: %v", entries[i])
			}
		}
		again, err := parseEntries(formatEntries(0, entries))
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if diff := cmp.Diff(entries, again, cmp.AllowUnexported(entry{}, process{}, identity{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Fatal(diff)
		}
	})
}
