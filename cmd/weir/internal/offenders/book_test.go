package offenders

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

var user = ID{Domain: "shop", Rule: "shop/user"}

// tick lets a Step pass, as often as it is told.
func tick(b *Book, times int) {
	for range times {
		time.Sleep(Step)
		b.Tick(time.Now(), nil)
	}
}

// TestHistory: each point of a rule is what it passed and denied in its time,
// whatever others do, and the sum of all is what it has counted.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) { history(rt) })
	})
}

func history(t *rapid.T) {
	b := NewBook()
	tick(b, rapid.IntRange(0, 3).Draw(t, "before"))
	begin := time.Now()
	one, other := b.Open(user, nil, begin), b.Open(ID{Domain: "other"}, nil, begin)
	var want []Point
	for range rapid.IntRange(0, 8).Draw(t, "stretches") {
		p := Point{Passed: rapid.Int64Range(0, 3).Draw(t, "passed"), Denied: rapid.Int64Range(0, 3).Draw(t, "denied")}
		for range p.Passed {
			one.Pass()
		}
		for range p.Denied {
			one.Deny([]byte("ann"))
			other.Pass()
		}
		idle := rapid.SampledFrom([]int{0, 1, Steps - 1, Steps, Steps + 1}).Draw(t, "idle")
		for i := range idle + 1 {
			tick(b, 1)
			if i > 0 {
				p.Passed, p.Denied = 0, 0
			}
			p.To = time.Now()
			want = append(want, p)
		}
	}
	from := begin
	if gone := len(want) - Steps; gone > 0 {
		from, want = want[gone-1].To, want[gone:]
	}
	got, more := b.Series(Filter{Rule: "shop/user"}, 5)
	if d := cmp.Diff([]Series{{ID: user, From: from, Points: want}}, got); d != "" || more != 0 {
		t.Fatal(d)
	}
}

// TestWindow: what is told of clients is of the last five to ten minutes.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBook()
		traffic := b.Open(user, weir.MustParseLimit("1/s"), time.Now())
		pane := int(PaneLife / Step)
		clients := func() []Count {
			top, _ := b.Top(Filter{}, 1)
			if top[0].Clients == nil {
				return nil
			}
			return top[0].Clients.Top(Names)
		}
		deny := func(name string, times int) {
			for range times {
				traffic.Deny([]byte(name))
			}
		}
		deny("ann", 3)
		tick(b, pane-1)
		deny("bob", 1)
		tick(b, 1)
		deny("ann", 1)
		if d := cmp.Diff([]Count{{Name: "ann", N: 4}, {Name: "bob", N: 1}}, clients()); d != "" {
			t.Error(d)
		}
		top, _ := b.Top(Filter{}, 1)
		if age := time.Since(top[0].ClientsSince); age != PaneLife {
			t.Error("clients since", age)
		}
		tick(b, pane)
		if d := cmp.Diff([]Count{{Name: "ann", N: 1}}, clients()); d != "" {
			t.Error(d)
		}
		tick(b, pane)
		if got := clients(); got != nil {
			t.Error("clients of old are not forgotten:", got)
		}
		if s := b.Stats(); s.Watched != 0 || s.Written != 1 {
			t.Errorf("%+v", s)
		}
		tick(b, Steps)
		if s := b.Stats(); s != (Stats{}) {
			t.Errorf("an hour later: %+v", s)
		}
		want := Top{ID: user, Limit: top[0].Limit, Since: top[0].Since, Denied: 5}
		if top, _ = b.Top(Filter{}, 1); !cmp.Equal(want, top[0], cmpopts.IgnoreUnexported(Top{}, weir.Limit{})) {
			t.Errorf("%+v", top[0])
		}
	})
}

// TestBounds: rules beyond MaxRules are counted, and what is not kept of them is
// told; when others fall silent they have room.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBook()
		var all []*Traffic
		for i := range MaxRules + 2 {
			if i == MaxRules {
				tick(b, 1)
			}
			all = append(all, b.Open(ID{Rule: fmt.Sprint(i)}, nil, time.Now()))
			all[i].Deny([]byte("ann"))
		}
		tick(b, 1)
		if got, want := b.Stats(), (Stats{Watched: MaxRules, Written: MaxRules, Unwatched: 2, Unwritten: 2}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		b.Close(ID{Rule: "0"})
		all[0].Deny([]byte("late"))
		last := all[MaxRules+1]
		last.Deny([]byte("bob"))
		tick(b, 1)
		s, _ := b.Series(Filter{Rule: fmt.Sprint(MaxRules + 1)}, 1)
		if len(s[0].Points) != 1 || s[0].Points[0].Denied != 1 {
			t.Errorf("a history that begins late tells of what it has not seen: %+v", s)
		}
		top, more := b.Top(Filter{Rule: fmt.Sprint(MaxRules + 1)}, 1)
		if more != 0 || top[0].Denied != 2 || top[0].Clients.Total() != 1 {
			t.Errorf("%+v", top)
		}
		if got, want := b.Stats(), (Stats{Watched: MaxRules, Written: MaxRules, Unwatched: 3, Unwritten: 2}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestTop: those that deny come first, and what is asked for is found.
func TestTop(t *testing.T) {
	b := NewBook()
	for _, c := range []struct {
		id             ID
		passed, denied int
	}{
		{ID{Domain: "a", Rule: "quiet"}, 0, 0},
		{ID{Domain: "a", Rule: "busy"}, 9, 0},
		{ID{Domain: "b", Rule: "denies", Shadow: true}, 0, 2},
		{ID{Domain: "b", Rule: "denies"}, 1, 3},
	} {
		traffic := b.Open(c.id, nil, time.Now())
		if b.Open(c.id, nil, time.Now()) != traffic {
			t.Error("it is opened twice")
		}
		for range c.passed {
			traffic.Pass()
		}
		for range c.denied {
			traffic.Deny([]byte("ann"))
		}
	}
	names := func(f Filter, n int) (got string) {
		top, more := b.Top(f, n)
		for _, one := range top {
			got += fmt.Sprintf("%s/%s %v, ", one.Domain, one.Rule, one.Shadow)
		}
		return got + fmt.Sprint(more)
	}
	for _, c := range []struct {
		f    Filter
		n    int
		want string
	}{
		{Filter{}, 9, "b/denies false, b/denies true, a/busy false, a/quiet false, 0"},
		{Filter{}, 1, "b/denies false, 3"},
		{Filter{Domain: "a"}, 9, "a/busy false, a/quiet false, 0"},
		{Filter{Rule: "busy"}, 9, "a/busy false, 0"},
		{Filter{Domain: "b", Rule: "busy"}, 9, "0"},
	} {
		if got := names(c.f, c.n); got != c.want {
			t.Errorf("%+v, %d: %s, want %s", c.f, c.n, got, c.want)
		}
	}
	series, more := b.Series(Filter{}, 3)
	if len(series) != 3 || more != 1 || series[0].Rule != "busy" || series[2].Shadow {
		t.Errorf("%+v, %d", series, more)
	}
}

// TestTogether: many deny at once; each is counted, and what the sketch has
// missed is told.
func TestTogether(t *testing.T) {
	b := NewBook()
	traffic := b.Open(user, nil, time.Now())
	const each = 20_000
	var g sync.WaitGroup
	for i := range 4 {
		g.Go(func() {
			for j := range each {
				traffic.Deny(fmt.Append(nil, i, j%3))
				if j%1000 == 0 {
					b.Tick(time.Now(), nil)
					b.Top(Filter{}, 1)
				}
			}
		})
	}
	g.Wait()
	top, _ := b.Top(Filter{}, 1)
	if got := top[0].Clients.Total() + top[0].Missed; top[0].Denied != 4*each || got != 4*each {
		t.Errorf("%d denied, %d recorded and missed", top[0].Denied, got)
	}
}

// TestMissed: nobody waits for a sketch that is in use.
func TestMissed(t *testing.T) {
	b := NewBook()
	traffic := b.Open(user, nil, time.Now())
	traffic.Deny([]byte("ann"))
	w := traffic.clients.Load()
	w.mu.Lock()
	traffic.Deny([]byte("ann"))
	w.mu.Unlock()
	top, _ := b.Top(Filter{}, 1)
	if top[0].Denied != 2 || top[0].Clients.Total() != 1 || top[0].Missed != 1 || b.Stats().Missed != 1 {
		t.Errorf("%+v", top)
	}
	b.Close(user)
	if s := b.Stats(); s.Missed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestNames(t *testing.T) {
	b := NewBook()
	traffic := b.Open(user, nil, time.Now())
	long := strings.Repeat("x", MaxName)
	for _, name := range []string{long, long + "a", long + "b", long + "a"} {
		traffic.Deny([]byte(name))
	}
	top, _ := b.Top(Filter{}, 1)
	all := top[0].Clients.Top(9)
	if len(all) != 3 || all[0].N != 2 {
		t.Error(all)
	}
	for _, c := range all {
		if len(c.Name) > MaxName {
			t.Errorf("%d bytes", len(c.Name))
		}
	}
	h, other := NewHider(), NewHider()
	if a := h.Hide("ann"); a != h.Hide("ann") || a == h.Hide("bob") || a == other.Hide("ann") || len(a) != 17 || strings.Contains(a, "ann") {
		t.Error(a)
	}
}

// BenchmarkMemory is what a rule takes whose clients and history are kept, with
// names as long as addresses, and as long as they may be.
func BenchmarkMemory(b *testing.B) {
	for _, length := range []int{13, MaxName} {
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			const rules = 100
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				book, now := NewBook(), time.Now()
				for i := range rules {
					traffic := book.Open(ID{Rule: fmt.Sprint(i)}, nil, now)
					for pane := range 2 {
						for j := range 3 * Names {
							traffic.Deny(fmt.Appendf(nil, "%0*d", length, j))
						}
						if pane == 0 {
							book.Tick(now.Add(PaneLife+Step), nil)
						}
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(book)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/rules, "B/rule")
		})
	}
}

// TestTopOfMany: the first rules are the same, however many are asked for.
func TestTopOfMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook()
		for i := range rapid.IntRange(0, 200).Draw(t, "rules") {
			traffic := b.Open(ID{Domain: "d", Rule: fmt.Sprint(i)}, nil, time.Now())
			for range rapid.IntRange(0, 3).Draw(t, "passed") {
				traffic.Pass()
			}
			for range rapid.IntRange(0, 2).Draw(t, "denied") {
				traffic.Deny([]byte("ann"))
			}
		}
		all, none := b.Top(Filter{}, 1000)
		n := rapid.IntRange(0, 30).Draw(t, "n")
		top, more := b.Top(Filter{}, n)
		if none != 0 || len(top) != min(n, len(all)) || more != len(all)-len(top) {
			t.Fatalf("%d and %d more, of %d", len(top), more, len(all))
		}
		for i := range top {
			if top[i].ID != all[i].ID {
				t.Fatalf("%v is in the place of %v", top[i].ID, all[i].ID)
			}
		}
	})
}
