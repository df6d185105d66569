package shadow

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

func parsed(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func users(limit string) string {
	return fmt.Sprintf("domain: shop\ndescriptors: [{key: user, limits: [%s]}]\n", limit)
}

func checked(t *testing.T, l *rules.Limiter, user string) {
	t.Helper()
	_, err := l.Check(t.Context(), &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{
		{Entries: []rules.Entry{{Key: "user", Value: user}}, Cost: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBoard: what is reported is what the active rules and the candidate would
// each have done to the same requests, and to whom.
func TestBoard(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		many := rapid.Int64Range(0, 5)
		active, candidate := many.Draw(rt, "active"), many.Draw(rt, "candidate")
		requests := rapid.SliceOfN(rapid.SampledFrom([]string{"ann", "bob", "cyd"}), 0, 30).Draw(rt, "requests")
		synctest.Test(t, func(t *testing.T) {
			now := parsed(t, users(fmt.Sprint(active, "/day fixed-window")))
			next := parsed(t, users(fmt.Sprint(candidate, "/day fixed-window")))
			l := rules.NewLimiter(memstore.New(memstore.Options{}), now)
			var b Board
			b.Run(now, next, time.Now())
			l.Try(next, b.Told)
			want := Counts{}
			asked, denied, passed := map[string]int64{}, map[string]int64{}, map[string]int64{}
			for _, user := range requests {
				checked(t, l, user)
				asked[user]++
				switch in, cand := asked[user] <= active, asked[user] <= candidate; {
				case in && cand:
					want.BothPass++
				case in:
					want.OnlyCandidate++
					denied[user]++
				case cand:
					want.OnlyActive++
					passed[user]++
				default:
					want.BothDeny++
				}
			}
			r := b.Report("shop", 9, time.Now())
			if d := cmp.Diff(want, r.Counts); d != "" {
				rt.Fatal(d)
			}
			if d := cmp.Diff(denied, byKey(rt, r.NewlyDenied)); d != "" {
				rt.Fatalf("newly denied: %s", d)
			}
			if d := cmp.Diff(passed, byKey(rt, r.NewlyPassed)); d != "" {
				rt.Fatalf("newly passed: %s", d)
			}
		})
	})
}

func byKey(t *rapid.T, clients []Client) map[string]int64 {
	all := map[string]int64{}
	for _, c := range clients {
		if c.Rule != "shop/user" || c.Error != 0 {
			t.Fatalf("%+v", c)
		}
		all[c.Key] = c.Requests
	}
	return all
}

// TestRun: a comparison goes on while nothing of its domain changes, and begins
// anew when the candidate or the active rules do.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, three := users("1/day"), users("2/day"), users("3/day")
		other := "---\ndomain: other\ndescriptors: []\n"
		set := func(text string) *rules.Set {
			s, err := rules.ParseExport("export", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		var b Board
		since := func() time.Time {
			if r := b.Report("shop", 0, time.Now()); r != nil {
				return r.Since
			}
			return time.Time{}
		}
		for i, c := range []struct {
			active, candidate string
			anew              bool
		}{
			{one, two, true},
			{one, two, false},
			{one, two + other, false},
			{one + other, two, false},
			{one, three, true},
			{two, three, true},
			{two, three, false},
		} {
			before := since()
			time.Sleep(time.Second)
			b.Run(set(c.active), set(c.candidate), time.Now())
			if now := since(); now.Equal(before) == c.anew || now.IsZero() {
				t.Errorf("%d: since %v, before %v", i, now, before)
			}
		}
		if d := b.Domains(); !slices.Equal(d, []string{"shop"}) {
			t.Error(d)
		}
		b.Run(set(one), nil, time.Now())
		if r := b.Report("shop", 0, time.Now()); r != nil || len(b.Domains()) != 0 {
			t.Errorf("%+v", r)
		}
		b.Told(rules.Trial{Request: &rules.Request{Domain: "shop"}}) // of a request that was on its way
	})
}

// TestRecent: what is told of recent traffic is of the last ten minutes.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, next := parsed(t, users("1000/day burst 1000")), parsed(t, users("0/day"))
		l := rules.NewLimiter(memstore.New(memstore.Options{}), now)
		var b Board
		begin := time.Now()
		b.Run(now, next, begin)
		l.Try(next, b.Told)
		tick := func(long time.Duration) {
			for range long / offenders.Step {
				time.Sleep(offenders.Step)
				b.Tick(time.Now())
			}
		}
		checked(t, l, "ann")
		tick(Recent / 2)
		checked(t, l, "ann")
		if r := b.Report("shop", 0, time.Now()); r.Recent.OnlyCandidate != 2 || !r.RecentSince.Equal(begin) || r.Period != 24*time.Hour {
			t.Errorf("%+v", r)
		}
		tick(Recent / 2)
		if r := b.Report("shop", 0, time.Now()); r.Recent.OnlyCandidate != 1 || time.Since(r.RecentSince) > Recent {
			t.Errorf("%+v", r)
		}
		tick(Recent)
		if r := b.Report("shop", 0, time.Now()); r.Recent != (Counts{}) || r.Counts.OnlyCandidate != 2 {
			t.Errorf("%+v", r)
		}
	})
}

// TestClientLife: names are forgotten after a day or two, and counts stay.
func TestClientLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, next := parsed(t, users("1000/day burst 1000")), parsed(t, users("0/day"))
		l := rules.NewLimiter(memstore.New(memstore.Options{}), now)
		var b Board
		b.Run(now, next, time.Now())
		l.Try(next, b.Told)
		for day, c := range []struct {
			user  string
			named []Client
			age   time.Duration
		}{
			{"ann", []Client{{"shop/user", "ann", 1, 0}}, 0},
			{"bob", []Client{{"shop/user", "ann", 1, 0}, {"shop/user", "bob", 1, 0}}, ClientLife},
			{"bob", []Client{{"shop/user", "bob", 2, 0}}, ClientLife},
		} {
			checked(t, l, c.user)
			r := b.Report("shop", 9, time.Now())
			if d := cmp.Diff(c.named, r.NewlyDenied); d != "" || r.At.Sub(r.ClientsSince) != c.age || r.Counts.OnlyCandidate != int64(day+1) {
				t.Errorf("day %d: %s, since %v ago", day, d, r.At.Sub(r.ClientsSince))
			}
			time.Sleep(ClientLife)
			b.Tick(time.Now())
		}
	})
}

// TestUnknown: what a fallback decided says nothing of a candidate.
func TestUnknown(t *testing.T) {
	allowed := &rules.Answer{Allowed: true, Decisive: -1}
	degraded := &rules.Answer{Allowed: true, Decisions: []rules.Decision{{Decision: weir.Decision{Degraded: weir.FallbackOpen}}}}
	c := Counts{}
	for _, x := range []rules.Trial{{Active: allowed}, {Active: degraded, Candidate: allowed}, {Active: allowed, Candidate: degraded}} {
		c.count(&x)
	}
	if c != (Counts{Unknown: 3}) || c.Compared() != 0 {
		t.Errorf("%+v", c)
	}
}

func TestMaxDomains(t *testing.T) {
	var text []byte
	for i := range MaxDomains + 2 {
		text = fmt.Appendf(text, "--- # f%04d\ndomain: d%04d\ndescriptors: []\n", i, i)
	}
	set, err := rules.ParseExport("export", text)
	if err != nil {
		t.Fatal(err)
	}
	var b Board
	if left := b.Run(nil, set, time.Now()); left != 2 || len(b.Domains()) != MaxDomains || b.Report("d1001", 0, time.Now()) != nil {
		t.Errorf("%d left", left)
	}
}
