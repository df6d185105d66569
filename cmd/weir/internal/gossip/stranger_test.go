package gossip

import (
	"slices"
	"strings"
	"testing"
)

// TestStrangers: a node with another cluster key than those it would join, or where one of
// the two has none, is refused. Both count it and say so, and it knows who has another key,
// until it has the same.
func TestStrangers(t *testing.T) {
	for _, c := range []struct {
		name         string
		there, comes [][]byte
		cured        bool // by Rotate
	}{
		{"other key", [][]byte{key(1)}, [][]byte{key(2)}, true},
		{"none comes", [][]byte{key(1)}, nil, false},
		{"none there", nil, [][]byte{key(2)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			there := begin(t, Options{Keys: c.there})
			if u := there.Unjoined(); len(u) > 0 {
				t.Errorf("it has none to join, and could not join %v", u)
			}
			comes := begin(t, Options{Keys: c.comes, Join: []string{there.Name()}})
			comes.until(t, "knows that the other has another key", func() bool {
				u := comes.Unjoined()
				return len(u) == 1 && u[0].OtherKey && u[0].Address == there.Name() && u[0].Why != ""
			})
			for n, says := range map[*node]string{there: "its messages are refused", comes: "a node to join has another cluster key"} {
				n.until(t, "counts it, and says so", func() bool {
					return n.Stats().In.Dropped[UnknownKey] > 0 && strings.Contains(n.log.String(), says)
				})
			}
			if len(there.Members()) != 1 || len(comes.Members()) != 1 {
				t.Error("they are members of one cluster")
			}
			if !c.cured {
				return
			}
			if err := comes.Rotate(c.there); err != nil {
				t.Fatal(err)
			}
			comes.sees(t, there, comes)
			comes.until(t, "has none that it could not join", func() bool { return len(comes.Unjoined()) == 0 })
		})
	}
}

// TestComesByItself: who could not be joined, and has come since, is joined.
func TestComesByItself(t *testing.T) {
	gone := begin(t, Options{})
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	one := begin(t, Options{Join: []string{gone.Name()}})
	one.until(t, "knows that nobody is there", func() bool { return len(one.Unjoined()) == 1 })
	found := one.Unjoined()
	two := begin(t, Options{Bind: gone.Name(), Join: []string{one.Name()}})
	one.sees(t, one, two)
	one.Gossip.mu.Lock()
	one.unjoined = found // as if it had not looked since
	one.Gossip.mu.Unlock()
	if u := one.Unjoined(); len(u) > 0 {
		t.Errorf("%v could not be joined, and is a member", u)
	}
}

// TestStrangePackets: packets to memberlist that no key opens are counted.
func TestStrangePackets(t *testing.T) {
	n := begin(t, Options{Keys: [][]byte{key(1)}})
	poke(t, n, append([]byte{labelMark, 4, 'w', 'e', 'i', 'r', 1}, make([]byte, 100)...))
	n.until(t, "counts it", func() bool { return n.Stats().In.Dropped[UnknownKey] == 1 })
}

// TestNobodyThere: who is not joined and why is known, and what matters most comes first.
func TestNobodyThere(t *testing.T) {
	there := begin(t, Options{Keys: [][]byte{key(1)}})
	gone := begin(t, Options{})
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	n := begin(t, Options{Keys: [][]byte{key(2)}, Join: []string{gone.Name(), "nowhere.invalid:1", there.Name()}})
	n.until(t, "knows of all three", func() bool { return len(n.Unjoined()) == 3 })
	u := n.Unjoined()
	if !u[0].OtherKey || u[0].Address != there.Name() || u[1].OtherKey || u[2].OtherKey {
		t.Errorf("%v", u)
	}
	i := slices.IndexFunc(u, func(u Unjoined) bool { return u.Address == gone.Name() })
	if i < 0 || !strings.Contains(u[i].Why, "refused") || strings.Contains(u[i].Why, "\n") {
		t.Errorf("%+v", u)
	}
}

// TestOtherCluster: nodes whose clusters have other names, or one of which has none, are not joined, by
// whichever way they hear of each other. Both say so, and the one that would join knows why.
func TestOtherCluster(t *testing.T) {
	for _, c := range []struct {
		name         string
		there, comes string
		keys         [][]byte
		says         string
	}{
		{"other name", "shop", "mail", nil, `cluster "shop", and this node is in cluster "mail"`},
		{"other name and a key", "shop", "mail", [][]byte{key(1)}, `cluster "shop", and this node is in cluster "mail"`},
		{"none comes", "shop", "", nil, `cluster "shop", and this node is in a cluster without a name`},
		{"none there", "", "mail", [][]byte{key(1)}, `a cluster without a name, and this node is in cluster "mail"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			there := begin(t, Options{Cluster: c.there, Keys: c.keys})
			comes := begin(t, Options{Cluster: c.comes, Keys: c.keys, Join: []string{there.Name()}})
			comes.until(t, "knows that the other is in another cluster", func() bool {
				u := comes.Unjoined()
				return len(u) == 1 && u[0].OtherCluster && !u[0].OtherKey && u[0].Address == there.Name() && strings.Contains(u[0].Why, c.says)
			})
			there.until(t, "counts it, and says so", func() bool {
				return there.Stats().In.Dropped[OtherCluster] > 0 && strings.Contains(there.log.String(), "a node of another cluster was refused")
			})
			if !strings.Contains(comes.log.String(), "a node to join is in another cluster") {
				t.Errorf("it does not say so:\n%s", comes.log.String())
			}
			before := there.Stats().In.Dropped[OtherCluster]
			poke(t, there, append([]byte{labelMark, byte(len(labelOf(c.comes)))}, labelOf(c.comes)...))
			there.until(t, "counts a packet", func() bool { return there.Stats().In.Dropped[OtherCluster] > before })
			if len(there.Members()) != 1 || len(comes.Members()) != 1 {
				t.Error("they are members of one cluster")
			}
			third := begin(t, Options{Cluster: c.there, Keys: c.keys, Join: []string{there.Name()}})
			third.sees(t, there, third)
		})
	}
}

// TestClusterNames: what may be the name of a cluster.
func TestClusterNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "shop": true, "Team-7.eu_west": true, strings.Repeat("a", maxCluster): true,
		strings.Repeat("a", maxCluster+1): false, "a b": false, "a/b": false, "ä": false, "a\x00": false,
	} {
		if err := CheckCluster(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
