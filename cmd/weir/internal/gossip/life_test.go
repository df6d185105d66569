package gossip

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// find is how n sees a member.
func (n *node) find(name string) (Member, bool) {
	i := slices.IndexFunc(n.members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return Member{}, false
	}
	return n.members[i], true
}

// TestTenNodes has nodes leave, die and come back.
func TestTenNodes(t *testing.T) {
	nodes := cluster(t, 10, Options{Keys: [][]byte{testKey}})

	leaver := nodes[9]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := leaver.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	if err := leaver.Close(); err != nil {
		t.Fatal(err)
	}
	nodes = nodes[:9]
	for _, n := range nodes {
		n.sees(t, nodes...)
	}

	dead := nodes[8]
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	nodes = nodes[:8]
	for _, n := range nodes {
		n.until(t, "finds the dead member silent, and a member still", func() bool {
			m, ok := n.find(dead.Name())
			return ok && m.Silent && len(n.members) == 9
		})
	}
	if nodes[0].Send(dead.Name(), []byte("x")) != true {
		t.Error("a message to a silent member was not taken")
	}

	back := begin(t, Options{Keys: [][]byte{testKey}, Bind: dead.Name(), Join: []string{nodes[3].Name()}})
	nodes = append(nodes, back)
	for _, n := range nodes {
		n.sees(t, nodes...)
	}
	back.gets(t, nodes[0], "welcome back")

	left := nodes[2].Name()
	if err := nodes[2].Close(); err != nil {
		t.Fatal(err)
	}
	nodes = slices.Delete(nodes, 2, 3)
	nodes[0].until(t, "finds it silent", func() bool {
		m, _ := nodes[0].find(left)
		return m.Silent
	})
	if err := nodes[0].Forget(left); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		n.sees(t, nodes...)
	}
}

// TestAllLeave has nodes leave at one moment. None waits for another that leaves, too.
func TestAllLeave(t *testing.T) {
	nodes := cluster(t, 3, Options{Keys: [][]byte{testKey}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	left := make(chan error)
	for _, n := range nodes {
		go func() { left <- n.Leave(ctx) }()
	}
	for range nodes {
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
}

// TestForgetRefuses names what can't be forgotten.
func TestForgetRefuses(t *testing.T) {
	nodes := cluster(t, 2, Options{})
	for name, want := range map[string]string{
		nodes[0].Name(): "this node itself",
		nodes[1].Name(): "stop it first",
		"nobody:1":      "no member has the name",
	} {
		if err := nodes[0].Forget(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Forget(%q) = %v; want %q in it", name, err, want)
		}
	}
	nodes[0].sees(t, nodes...)
}

// TestJoinAfterADeath has a node join when another is dead, and known to be. It is
// told of that one: the limit is not its and the first node's alone.
func TestJoinAfterADeath(t *testing.T) {
	t.Parallel()
	one := begin(t, Options{})
	two := begin(t, Options{Join: []string{one.Name()}})
	one.sees(t, one, two)
	closed := sinceBoot()
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	one.until(t, "has heard from memberlist that it is dead", func() bool {
		m, _ := one.find(two.Name())
		return m.DeadFor > 0
	})
	three := begin(t, Options{Join: []string{one.Name()}})
	var silentFor time.Duration
	three.until(t, "has heard of the dead one", func() bool {
		m, ok := three.find(two.Name())
		silentFor = m.SilentFor
		return ok && m.Silent && m.DeadFor > 0 && len(three.members) == 3
	})
	if since := sinceBoot() - closed; silentFor > since {
		t.Errorf("it is silent for %v, and was closed %v ago", silentFor, since)
	}
}

// TestGone waits until a dead member is confirmed as gone.
func TestGone(t *testing.T) {
	t.Parallel()
	e := edge{lookup: net.DefaultResolver.LookupNetIP, confirm: time.Second}
	one := beginAt(t, Options{}, e)
	two := beginAt(t, Options{Join: []string{one.Name()}}, e)
	three := beginAt(t, Options{Join: []string{one.Name()}}, e)
	one.sees(t, one, two, three)
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	one.until(t, "has heard from memberlist that it is dead", func() bool {
		m, ok := one.find(two.Name())
		return ok && m.Silent && m.DeadFor > 0
	})
	one.sees(t, one, three)
}

// behind begins a node that others reach through a relay.
func behind(t *testing.T, o Options) (*node, *relay) {
	t.Helper()
	return behindAt(t, o, edge{lookup: net.DefaultResolver.LookupNetIP, confirm: time.Hour})
}

func behindAt(t *testing.T, o Options, e edge) (*node, *relay) {
	t.Helper()
	r := newRelay(t)
	e.advertise = r.address()
	n := beginAt(t, o, e)
	r.before(n)
	return n, r
}

// TestOneWayIsCut cuts what goes to one node. Both have to know.
func TestOneWayIsCut(t *testing.T) {
	one := begin(t, Options{Keys: [][]byte{testKey}})
	two, r := behind(t, Options{Keys: [][]byte{testKey}, Join: []string{one.Name()}})
	one.sees(t, one, two)
	two.sees(t, one, two)
	r.set(func() { r.cut = true })
	for _, n := range []*node{one, two} {
		n.until(t, "does not hear the other, or is not heard", func() bool {
			return len(n.members) == 2 && slices.ContainsFunc(n.members, func(m Member) bool { return m.Silent })
		})
	}
	r.set(func() { r.cut = false })
	one.sees(t, one, two)
	two.sees(t, one, two)
	two.gets(t, one, "healed")
}

// TestHealing cuts two nodes off each other until the first of them takes the other
// for gone, and the other does not, for both would have all then.
// When they can reach each other again they do, though nobody starts anything.
func TestHealing(t *testing.T) {
	t.Parallel()
	e := edge{lookup: net.DefaultResolver.LookupNetIP, confirm: time.Second}
	one, toOne := behindAt(t, Options{}, e)
	two, toTwo := behindAt(t, Options{Join: []string{toOne.address().String()}}, e)
	one.sees(t, one, two)
	two.sees(t, one, two)
	for _, r := range []*relay{toOne, toTwo} {
		r.set(func() { r.cut = true })
	}
	first, second := one, two
	if two.Name() < one.Name() {
		first, second = two, one
	}
	first.sees(t, first)
	second.until(t, "has heard from memberlist that the other is dead", func() bool {
		m, ok := second.find(first.Name())
		return ok && m.Silent && m.DeadFor > 0
	})
	time.Sleep(2 * e.confirm)
	if _, ok := second.find(first.Name()); !ok {
		t.Error("both take the other for gone")
	}
	for _, r := range []*relay{toOne, toTwo} {
		r.set(func() { r.cut = false })
	}
	one.sees(t, one, two)
	two.sees(t, one, two)
	two.gets(t, one, "healed")
}

// TestSpoiledNetwork loses, doubles and spoils datagrams. What arrives is what was
// sent, once, and all else is counted.
func TestSpoiledNetwork(t *testing.T) {
	one := begin(t, Options{Keys: [][]byte{testKey}})
	two, r := behind(t, Options{Keys: [][]byte{testKey}, Join: []string{one.Name()}})
	two.sees(t, one, two)
	one.sees(t, one, two)
	r.set(func() { r.lose, r.double, r.spoil = 10, 30, 30 })
	const messages = 500
	want := map[string]bool{}
	for i := range messages {
		m := strings.Repeat("m", i+1)
		want[one.Name()+": "+m] = true
		one.Send(two.Name(), []byte(m))
		time.Sleep(time.Millisecond) // so that there are many packets
	}
	two.until(t, "has counted what was doubled and spoiled", func() bool {
		in := two.Stats().In.Dropped
		return in[Replayed] > 0 && in[Forged] > 0
	})
	r.set(func() { r.lose, r.double, r.spoil = 0, 0, 0 })
	two.gets(t, one, "last")
	two.mu.Lock()
	defer two.mu.Unlock()
	seen := map[string]bool{}
	for _, m := range two.heard {
		if m == one.Name()+": last" {
			continue
		}
		if !want[m] {
			t.Errorf("heard %.40q, which nobody said", m)
		}
		if seen[m] {
			t.Errorf("heard %.40q twice", m)
		}
		seen[m] = true
	}
	if len(seen) < messages/4 {
		t.Errorf("heard %d of %d messages", len(seen), messages)
	}
}

// TestReplay brings again what a relay kept, also after a restart.
func TestReplay(t *testing.T) {
	one := begin(t, Options{Keys: [][]byte{testKey}})
	two, r := behind(t, Options{Keys: [][]byte{testKey}, Join: []string{one.Name()}})
	two.sees(t, one, two)
	two.gets(t, one, "once")
	var kept [][]byte
	r.set(func() {
		for _, b := range r.kept {
			if b[0] == magic[0] {
				kept = append(kept, b)
			}
		}
	})
	again := func(n *node) {
		t.Helper()
		n.mu.Lock()
		heard := len(n.heard)
		n.mu.Unlock()
		for _, b := range kept {
			if _, err := one.port.udp.WriteToUDPAddrPort(b, n.port.udp.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
				t.Fatal(err)
			}
		}
		n.until(t, "has dropped them", func() bool {
			in := n.Stats().In.Dropped
			return in[Replayed]+in[Forged] >= uint64(len(kept))
		})
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.heard) != heard {
			t.Errorf("heard again: %q", n.heard[heard:])
		}
	}
	again(two)
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	restarted := begin(t, Options{Keys: [][]byte{testKey}, Name: two.Name(), Join: []string{one.Name()}})
	restarted.sees(t, one, restarted)
	again(restarted)
}

// TestRotation changes keys under traffic, and loses nothing.
func TestRotation(t *testing.T) {
	keys := [][]byte{key(1), key(2)}
	nodes := cluster(t, 3, Options{Keys: keys[:1]})
	sent := 0
	talk := func() {
		for range 50 {
			for _, to := range nodes[1:] {
				if !nodes[0].Send(to.Name(), []byte("x")) {
					t.Fatal("not taken")
				}
			}
			sent++
			time.Sleep(100 * time.Microsecond)
		}
	}
	talk()
	for _, step := range [][][]byte{{keys[0], keys[1]}, {keys[1], keys[0]}, {keys[1]}} {
		for _, n := range nodes {
			if err := n.Rotate(step); err != nil {
				t.Fatal(err)
			}
			talk()
		}
	}
	for _, to := range nodes[1:] {
		to.until(t, "has heard all", func() bool { return len(to.heard) == sent })
	}
	late := begin(t, Options{Keys: keys[1:], Join: []string{nodes[1].Name()}})
	for _, n := range append(nodes, late) {
		n.sees(t, append(nodes, late)...)
	}
	old := begin(t, Options{Keys: keys[:1], Join: []string{nodes[1].Name()}})
	old.until(t, "says that it cannot join", func() bool { return strings.Contains(old.log.String(), "a node to join has another cluster key") })
	nodes[0].sees(t, append(nodes, late)...)
}

// TestOneName starts two nodes with one name. The later one keeps it; both say so.
func TestOneName(t *testing.T) {
	seed := begin(t, Options{})
	first := begin(t, Options{Name: "twin:1", Join: []string{seed.Name()}})
	first.sees(t, seed, first)
	second := begin(t, Options{Name: "twin:1", Join: []string{seed.Name()}})
	first.until(t, "has no members, and says why", func() bool {
		return len(first.members) == 0 && strings.Contains(first.log.String(), "Start it again under another name")
	})
	second.until(t, "says that there is another", func() bool {
		return strings.Contains(second.log.String(), "two nodes have one name")
	})
	second.sees(t, seed, second)
	seed.sees(t, seed, second)
	second.gets(t, seed, "you have it")
	if first.Send(seed.Name(), []byte("x")) {
		t.Error("a node without a name has sent a message")
	}
}

// TestClockAnHourBack restarts a node whose clock was set back.
func TestClockAnHourBack(t *testing.T) {
	now := uint64(time.Now().UnixMicro())
	one := begin(t, Options{Incarnation: now - 3_600_000_000})
	two := begin(t, Options{Incarnation: now + 3_600_000_000, Join: []string{one.Name()}})
	one.sees(t, one, two)
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	back := begin(t, Options{Incarnation: now - 7_200_000_000, Bind: two.Name(), Join: []string{one.Name()}})
	if m := back.Members(); m[slices.IndexFunc(m, func(m Member) bool { return m.Name == back.Name() })].Incarnation <= now {
		t.Errorf("begins as %v", m)
	}
	for _, n := range []*node{one, back} {
		n.until(t, "knows a later incarnation", func() bool {
			m, ok := n.find(back.Name())
			return ok && m.Incarnation > now+3_600_000_000 && !m.Silent
		})
	}
	one.gets(t, back, "here again")
}

// TestMissedTime has a process find that time has passed without it. Who hears it is
// forgotten until they say so anew.
func TestMissedTime(t *testing.T) {
	nodes := cluster(t, 2, Options{})
	g := nodes[0].Gossip
	round := g.round.Load()
	g.turned.Store(int64(sinceBoot() - time.Second))
	g.awake(sinceBoot())
	if g.round.Load() == round {
		t.Fatal("no new round")
	}
	if m := g.Members(); !m[0].Silent && !m[1].Silent {
		t.Error("the other one still counts as hearing this one")
	}
	nodes[0].sees(t, nodes...)
	nodes[1].gets(t, nodes[0], "awake")
}

// TestNoUDP has networks drop all datagrams. Nodes that are set to streams do not
// notice.
func TestNoUDP(t *testing.T) {
	o := Options{TCP: true, Keys: [][]byte{testKey}}
	one, dropOne := behind(t, o)
	o.Join = []string{dropOne.address().String()}
	two, dropTwo := behind(t, o)
	three, dropThree := behind(t, o)
	for _, r := range []*relay{dropOne, dropTwo, dropThree} {
		r.set(func() { r.lose = 100 })
	}
	nodes := []*node{one, two, three}
	for _, n := range nodes {
		n.sees(t, nodes...)
	}
	three.gets(t, two, "hello")
	if err := two.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.sees(t, one, three)
	three.sees(t, one, three)
}

// TestAddresses opens listeners at all addresses, and at one of IPv6.
func TestAddresses(t *testing.T) {
	for _, bind := range []string{"0.0.0.0:0", "[::]:0", ":0", "[::1]:0", "localhost:0"} {
		t.Run(bind, func(t *testing.T) {
			o := Options{Bind: bind, Name: bind, Keys: [][]byte{testKey}}
			g, err := Open(t.Context(), o)
			if err != nil {
				t.Skipf("this machine has no such address: %v", err)
			}
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			nodes := cluster(t, 2, o)
			nodes[1].gets(t, nodes[0], "hello")
			if ip := netip.MustParseAddrPort(nodes[0].Name()).Addr(); ip.IsUnspecified() {
				t.Errorf("others are told of %v", ip)
			}
		})
	}
}
