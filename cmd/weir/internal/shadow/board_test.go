package shadow

import (
	"fmt"
	"slices"
	"strings"
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

// candidates are the items of domain shop.
func candidates(set *rules.Set) (all []Candidate) {
	for _, item := range set.Items("shop") {
		all = append(all, Candidate{Item: item, Version: 2, Over: 1})
	}
	return all
}

// begin has a board compare a limiter's rules with candidates.
func begin(b *Board, l *rules.Limiter, all []Candidate) {
	tried, _ := b.Run(l.Set(), all, time.Now())
	l.Try(tried, b.Told)
}

// only is the report of the one candidate of a domain; nil: there is none.
func only(b *Board, domain string, clients int) *Report {
	all := b.Reports(domain, clients, time.Now())
	if len(all) == 0 {
		return nil
	}
	return all[0]
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
			begin(&b, l, candidates(next))
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
			r := only(&b, "shop", 9)
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

// TestApart: each candidate is compared by the requests that meet it, whatever else runs.
func TestApart(t *testing.T) {
	const active = "domain: shop\ndescriptors:\n- {key: user, limits: [%s]}\n- {key: path, limits: [%s]}\n- {key: rare, limits: [1/day]}\n"
	now, next := parsed(t, fmt.Sprintf(active, "10/day", "5/day")), parsed(t, fmt.Sprintf(active, "12/day", "1/day")+"- {key: new, limits: [0/s]}\n")
	l := rules.NewLimiter(memstore.New(memstore.Options{}), now)
	var b Board
	begin(&b, l, candidates(next))
	for range 20 {
		for _, key := range []string{"user", "path"} {
			if _, err := l.Check(t.Context(), &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: key, Value: "a"}}, Cost: 1}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[string]Counts{
		"user": {BothPass: 10, OnlyActive: 2, BothDeny: 8}, "path": {BothPass: 1, OnlyCandidate: 4, BothDeny: 15}, "rare": {}, "new": {},
	}
	for _, r := range b.Reports("shop", 0, time.Now()) {
		if d := cmp.Diff(want[r.Key.Rule], r.Counts); d != "" || r.Looser != (r.Key.Rule == "user" || r.Key.Rule == "rare") {
			t.Errorf("%s: %s, looser %v", r.Key.Rule, d, r.Looser)
		}
		delete(want, r.Key.Rule)
	}
	if len(want) > 0 {
		t.Error(want)
	}
}

// TestRun: a comparison goes on while neither the candidate nor the active item of its key changes, and begins anew when
// one does.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, three := users("1/day"), users("2/day"), users("3/day")
		more := "- {key: path, limits: [1/s]}\n"
		var b Board
		since := func() time.Time {
			if r := only(&b, "shop", 0); r != nil {
				return r.Since
			}
			return time.Time{}
		}
		list := func(text string) string { return strings.Replace(text, "descriptors: [{", "descriptors:\n- {", 1) }
		cut := func(text string) string { return strings.Replace(text, "}]", "}", 1) }
		with := func(text, more string) string { return cut(list(text)) + more }
		for i, c := range []struct {
			active, candidate string
			anew              bool
		}{
			{one, two, true},
			{one, two, false},
			{with(one, more), with(two, ""), false},
			{one, "# A comment.\n" + two, false},
			{one, three, true},
			{two, three, true},
			{two, three, false},
		} {
			before := since()
			time.Sleep(time.Second)
			next := parsed(t, c.candidate)
			b.Run(parsed(t, c.active), []Candidate{{Item: next.Items("shop")[0]}}, time.Now())
			if now := since(); now.Equal(before) == c.anew || now.IsZero() {
				t.Errorf("%d: since %v, before %v", i, now, before)
			}
		}
		next := parsed(t, three)
		before := since()
		time.Sleep(time.Second)
		if b.Run(parsed(t, two), []Candidate{{Item: next.Items("shop")[0], Version: 3}}, time.Now()); since().Equal(before) {
			t.Error("another version goes on")
		}
		b.Run(parsed(t, one), nil, time.Now())
		if r := b.Reports("", 0, time.Now()); len(r) != 0 {
			t.Errorf("%+v", r)
		}
		b.Told(rules.Trial{Request: &rules.Request{Domain: "shop"}, Item: next.Items("shop")[0]}) // of a request that was on its way
	})
}

// TestTallies: what is taken is told once, and what is not is told again.
func TestTallies(t *testing.T) {
	now, next := parsed(t, users("1000/day")), parsed(t, users("1/day"))
	l := rules.NewLimiter(memstore.New(memstore.Options{}), now)
	var b Board
	begin(&b, l, candidates(next))
	if list := b.Tallies(9); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	for range 3 {
		checked(t, l, "ann")
	}
	first := b.Tallies(9)
	if len(first) != 1 || first[0].Key != (Key{"shop", "user", 2, 1}) || first[0].Counts != (Counts{BothPass: 1, OnlyCandidate: 2}) || len(first[0].Denied.Counts) != 1 {
		t.Fatalf("%+v", first)
	}
	checked(t, l, "ann")
	b.Taken(first)
	if list := b.Tallies(9); len(list) != 1 || list[0].Counts != (Counts{OnlyCandidate: 1}) || list[0].Denied.Counts[0].N != 3 {
		t.Errorf("%+v", list)
	}
	if list := b.Tallies(9); len(list) != 1 {
		t.Errorf("what nobody has taken is gone: %+v", list)
	}
	begin(&b, l, []Candidate{{Item: next.Items("shop")[0]}})
	if checked(t, l, "ann"); len(b.Tallies(9)) != 0 {
		t.Error("what files have in shadow is told to others")
	}
}

// TestRecent: what is told of recent traffic is of the last ten minutes.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, next := parsed(t, users("1000/day burst 1000")), parsed(t, users("0/day"))
		l := rules.NewLimiter(memstore.New(memstore.Options{}), now)
		var b Board
		start := time.Now()
		begin(&b, l, candidates(next))
		tick := func(long time.Duration) {
			for range long / offenders.Step {
				time.Sleep(offenders.Step)
				b.Tick(time.Now())
			}
		}
		checked(t, l, "ann")
		tick(Recent / 2)
		checked(t, l, "ann")
		if r := only(&b, "shop", 0); r.Recent.OnlyCandidate != 2 || !r.RecentSince.Equal(start) || r.Period != 24*time.Hour {
			t.Errorf("%+v", r)
		}
		tick(Recent / 2)
		if r := only(&b, "shop", 0); r.Recent.OnlyCandidate != 1 || time.Since(r.RecentSince) > Recent {
			t.Errorf("%+v", r)
		}
		tick(Recent)
		if r := only(&b, "shop", 0); r.Recent != (Counts{}) || r.Counts.OnlyCandidate != 2 {
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
		begin(&b, l, candidates(next))
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
			r := only(&b, "shop", 9)
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

func TestMaxCandidates(t *testing.T) {
	var text []byte
	for i := range MaxCandidates + 2 {
		text = fmt.Appendf(text, "--- # f%04d\ndomain: d%04d\ndescriptors: [{key: user, limits: [1/s]}]\n", i, i)
	}
	set, err := rules.ParseExport("export", text)
	if err != nil {
		t.Fatal(err)
	}
	var all []Candidate
	for _, domain := range set.Domains() {
		all = append(all, Candidate{Item: set.Items(domain)[0]})
	}
	slices.Reverse(all)
	var b Board
	if tried, left := b.Run(nil, all, time.Now()); left != 2 || len(tried) != MaxCandidates || only(&b, "d1001", 0) != nil || only(&b, "d0000", 0) == nil {
		t.Errorf("%d left", left)
	}
}
