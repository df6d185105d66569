package limited

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
)

func same(name string) string { return name }

func all(string, string) bool { return true }

// TestMerge: whatever nodes deny, and however much of that they can't tell, the true count of each client of all nodes lies between what
// is shown.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rules, names := rapid.IntRange(1, 15).Draw(t, "rules"), rapid.IntRange(1, 300).Draw(t, "names")
		long := rapid.SampledFrom([]int{0, 0, 500}).Draw(t, "long") // names of rules that fill what a node may tell
		type key struct{ rule, name string }
		real, now := map[key]int64{}, time.Now()
		var nodes []Node
		for n := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			b := offenders.NewBook()
			for range random.IntN(2500) {
				k := key{fmt.Sprint("shop/", random.IntN(rules), strings.Repeat("r", long)), fmt.Sprint(int(random.ExpFloat64()*float64(names)/4) % names)}
				b.Open(offenders.ID{Domain: "shop", Rule: k.rule}, nil, now).Refuse([]byte(k.name), 0)
				real[k]++
			}
			told := Tell(b.Limited(), now, same)
			packed := told.Pack()
			if len(packed) > MaxBytes {
				t.Fatal(len(packed), "bytes")
			}
			unpacked, err := Unpack(packed)
			if err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, Node{Name: fmt.Sprint("n", n), Told: unpacked})
		}
		list := Merge(nodes, now)
		seen := map[key]bool{}
		for i, c := range list.Clients {
			k := key{c.Rule, c.Name}
			if n := real[k]; n > c.Denied || n < c.Denied-c.Error || c.Lately > n || seen[k] {
				t.Fatalf("%+v was denied %d times", c, n)
			}
			seen[k] = true
			if i > 0 && compare(list.Clients[i-1], c) > 0 {
				t.Fatal("not in order", list.Clients[i-1], c)
			}
		}
		if len(nodes) == 1 && list.Omitted == 0 && names < offenders.Names && len(seen) != len(real) {
			t.Fatalf("%d clients are shown of %d", len(seen), len(real))
		}
	})
}

// TestTold: what is told is read as it was, and nothing else is.
func TestTold(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	told := Told{At: at, Rest: 7, Omitted: 3, Missed: 2, Rules: []Rule{
		{Domain: "shop", Name: "shop/user", Least: 4, Clients: []offenders.Client{
			{Count: offenders.Count{Name: "\x00\xff\u202e<b>", N: 1 << 40, Error: 2}, Lately: 9, Since: at.Add(-time.Hour), Last: at, Until: at.Add(48 * time.Hour)},
			{Count: offenders.Count{N: 1}},
		}},
	}}
	packed := told.Pack()
	got, err := Unpack(packed)
	if d := cmp.Diff(told, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for n := range packed {
		if _, err := Unpack(packed[:n]); err == nil {
			t.Errorf("%d of %d bytes are enough", n, len(packed))
		}
	}
	for _, bad := range [][]byte{nil, {2}, append(slices.Clone(packed), 0), make([]byte, MaxBytes+1), append([]byte{form}, slices.Repeat([]byte{0xff}, 30)...)} {
		if _, err := Unpack(bad); err == nil {
			t.Errorf("%.20x is taken", bad)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := append([]byte{form}, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...)
		if told, err := Unpack(b); err == nil {
			Merge([]Node{{Told: told}}, time.Now())
		}
	})
}

// TestFirstThoseOfNow: a node that has more clients than it may tell of leaves out those that are not limited any more, and then those that
// were denied before the others.
func TestFirstThoseOfNow(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	one := offenders.Limited{ID: offenders.ID{Domain: "shop", Rule: "shop/user"}}
	for i := range MaxClients + 500 {
		c := offenders.Client{Count: offenders.Count{Name: fmt.Sprint(i), N: int64(i + 1)}, Last: now.Add(-time.Duration(i%50) * time.Second)}
		if i >= MaxClients-100 { // and they were denied more often
			c.Last = now.Add(-2 * For)
		}
		one.Clients = append(one.Clients, c)
	}
	told := Tell([]offenders.Limited{one}, now, same)
	limited := 0
	for i := range told.Rules[0].Clients {
		if isLimited(&told.Rules[0].Clients[i], now) {
			limited++
		}
	}
	if limited != MaxClients-100 || told.Omitted != 0 || told.Rules[0].Least != MaxClients+400 {
		t.Error(limited, told.Omitted, told.Rules[0].Least)
	}
	one.Clients = append(one.Clients, one.Clients[:200]...)
	if told = Tell([]offenders.Limited{one}, now, same); told.Omitted != 100 {
		t.Error(told.Omitted)
	}
}

// TestClocks: nodes whose clocks differ, and that told some time ago, tell of the same times.
func TestClocks(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	node := func(name string, ahead, age time.Duration) Node {
		told := now.Add(ahead - age)
		c := offenders.Client{Count: offenders.Count{Name: "ann", N: 2}, Since: told.Add(-30 * time.Second), Last: told.Add(-5 * time.Second), Until: told.Add(8 * time.Second)}
		return Node{Name: name, Age: age, Told: Told{At: told, Rules: []Rule{{Domain: "shop", Name: "shop/user", Clients: []offenders.Client{c}}}}}
	}
	list := Merge([]Node{node("slow", -time.Hour, 3*time.Second), node("fast", time.Hour, time.Second), node("late", 0, 9*time.Second)}, now)
	want := []*Client{{
		Domain: "shop", Rule: "shop/user", Name: "ann", Denied: 6, Since: now.Add(-39 * time.Second), Last: now.Add(-6 * time.Second), Until: now.Add(7 * time.Second),
		Nodes: []string{"slow", "fast", "late"},
	}}
	if d := cmp.Diff(want, list.Clients); d != "" {
		t.Error(d)
	}
	if list = Merge([]Node{node("lost", 0, 2*For)}, now); len(list.Clients) != 0 {
		t.Error(list.Clients)
	}
}

// TestFind: clients are found by what they, their domain and their rule have in them, among those that may be told.
func TestFind(t *testing.T) {
	l := List{Clients: []*Client{{Domain: "shop", Rule: "shop/user", Name: "Ann"}, {Domain: "mail", Rule: "mail/user", Name: "ann\xff"}, {Domain: "shop", Rule: "shop/path", Name: ""}}}
	for _, c := range []struct {
		q    Query
		want []int
	}{
		{Query{}, []int{0, 1, 2}},
		{Query{Client: "aNN"}, []int{0, 1}},
		{Query{Domain: "SHO"}, []int{0, 2}},
		{Query{Domain: "shop", Rule: "user", Client: "a"}, []int{0}},
		{Query{Rule: "none"}, nil},
		{Query{May: func(domain, _ string) bool { return domain == "mail" }}, []int{1}},
	} {
		if c.q.May == nil {
			c.q.May = all
		}
		var want []*Client
		for _, i := range c.want {
			want = append(want, l.Clients[i])
		}
		if d := cmp.Diff(want, l.Find(c.q)); d != "" {
			t.Errorf("%+v: %s", c.q, d)
		}
	}
}

// BenchmarkMerge is what a list of 50 nodes with 1,000 clients each costs, without the database.
func BenchmarkMerge(b *testing.B) {
	now := time.Now()
	packed := make([][]byte, 50)
	for n := range packed {
		told := Told{At: now}
		for r := range 10 {
			rule := Rule{Domain: fmt.Sprint("team-", r), Name: fmt.Sprint("team-", r, "/user"), Least: 3}
			for i := range MaxClients / 10 {
				rule.Clients = append(rule.Clients, offenders.Client{
					Count: offenders.Count{Name: fmt.Sprintf("client-%d-of-%d", i, n*i%997), N: int64(i + 1)}, Lately: 1, Since: now.Add(-time.Minute), Last: now.Add(-time.Duration(i%60) * time.Second),
				})
			}
			told.Rules = append(told.Rules, rule)
		}
		packed[n] = told.Pack()
	}
	b.ReportMetric(float64(len(packed[0])), "B/node")
	for b.Loop() {
		nodes := make([]Node, len(packed))
		for i, p := range packed {
			told, err := Unpack(p)
			if err != nil {
				b.Fatal(err)
			}
			nodes[i] = Node{fmt.Sprint(i), told, 0}
		}
		list := Merge(nodes, now)
		if found := list.Find(Query{Client: "client-7", May: all}); len(found) == 0 {
			b.Fatal(len(list.Clients))
		}
	}
}
