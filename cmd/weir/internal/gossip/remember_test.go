package gossip

import (
	"testing"
	"time"
)

// remembers is a table that begins with the members that the last process of its name knew.
func remembers(t *testing.T, all ...process) *table {
	t.Helper()
	m := newTable(run(1, "a", 10))
	var members []Member
	for _, p := range all {
		members = append(members, Member{Name: p.name, ID: p.id, Address: p.address.String()})
	}
	if err := m.remember(0, members); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRemembered: members that are remembered are members that are silent, until they are heard,
// have left, or are given up.
func TestRemembered(t *testing.T) {
	m := remembers(t, run(2, "b", 20), run(3, "c", 30))
	m.want(t, "a 10", "b 0", "c 0")
	m.tick(Confirm+time.Second, silentAll, silentAll, Confirm)
	m.want(t, "a 10", "b 0", "c 0") // it is one of three
	m.join(Confirm+time.Second, run(4, "b", 5))
	m.want(t, "a 10", "b 5", "c 0") // a later process, whatever its clock says
	but := func(id uint64) bool { return id == 3 }
	m.tick(2*Confirm, but, but, Confirm)
	m.want(t, "a 10", "b 5")
}

// TestRememberedLeft: a process that this node's last one knew tells who is a member still.
func TestRememberedLeft(t *testing.T) {
	m := remembers(t, run(2, "b", 20), run(3, "c", 30), run(4, "d", 40))
	m.join(time.Second, run(2, "b", 20))
	m.merge(time.Second, []entry{{process: run(3, "c", 30)}}, silentAll) // d has left
	m.meet(2)
	m.want(t, "a 10", "b 20", "c 0")

	m = remembers(t, run(2, "b", 20), run(3, "c", 30))
	m.join(time.Second, run(5, "b", 21))
	m.meet(5)
	m.want(t, "a 10", "b 21", "c 0") // it was started after that, and may not know c
	if told := m.unreached(settledAfter - 1); len(told) > 0 {
		t.Errorf("it tells of %v before it may know better", told)
	}
	if told := m.unreached(settledAfter); len(told) != 1 {
		t.Errorf("it tells of %v; want c", told)
	}
}

// TestRememberedOdd refuses what can't be a list of members.
func TestRememberedOdd(t *testing.T) {
	for what, members := range map[string][]Member{
		"itself":      {{Name: "a", ID: 2, Address: "10.0.0.2:1"}},
		"no name":     {{ID: 2, Address: "10.0.0.2:1"}},
		"no address":  {{Name: "b", ID: 2, Address: "b:1"}},
		"twice":       {{Name: "b", ID: 2, Address: "10.0.0.2:1"}, {Name: "b", ID: 3, Address: "10.0.0.2:1"}},
		"its process": {{Name: "b", ID: 1, Address: "10.0.0.2:1"}},
		"many":        make([]Member, MaxMembers),
	} {
		if err := newTable(run(1, "a", 10)).remember(0, members); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// TestRememberedFound: a node that is told of no other finds those that it remembers.
func TestRememberedFound(t *testing.T) {
	one := begin(t, Options{})
	two := begin(t, Options{Remembered: []Member{{Name: one.Name(), ID: one.me.id, Address: one.Name()}}})
	two.until(t, "it hears the one it remembers", func() bool { return len(two.members) == 2 && !two.members[0].Silent && !two.members[1].Silent })
	one.until(t, "it is heard", func() bool { return len(one.members) == 2 })
}
