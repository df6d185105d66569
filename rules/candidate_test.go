package rules_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// worlds are a limiter with active rules and candidates, and one that has the active rules alone.
type worlds struct {
	both, active *rules.Limiter
	told         []rules.Trial
}

func newWorlds(t testing.TB, active, candidate string, shared bool) *worlds {
	t.Helper()
	w := &worlds{
		both:   rules.NewLimiter(remote{memstore.New(memstore.Options{}), shared}, parse(t, active)),
		active: rules.NewLimiter(memstore.New(memstore.Options{}), parse(t, active)),
	}
	w.try(parse(t, candidate))
	return w
}

// try has all items of domain shop run beside the active ones.
func (w *worlds) try(set *rules.Set) {
	w.both.Try(set.Items("shop"), func(x rules.Trial) { w.told = append(w.told, x) })
}

// remote is memory that may say that it is elsewhere.
type remote struct {
	*memstore.Store

	shared bool
}

func (r remote) Traits() weir.Traits {
	t := r.Store.Traits()
	t.Shared = r.shared
	return t
}

// sameAnswer compares what counts of answers: ids are drawn, and rules of two
// parsings are known by their names.
func sameAnswer(a, b *rules.Answer) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(rules.Answer{}, rules.Decision{}),
		cmp.Comparer(func(a, b *rules.Rule) bool { return a.Name == b.Name }), cmpopts.IgnoreTypes(&weir.Receipt{}))
}

// shopFile is a file of domain shop with these items.
func shopFile(items ...string) string {
	if len(items) == 0 {
		return "domain: shop\ndescriptors: []\n"
	}
	return "domain: shop\ndescriptors:\n" + strings.Join(items, "")
}

// alone is a candidate as it would be if it were the only change: an item in a file of the active ones, and by itself.
type alone struct {
	item *rules.Item
	file *rules.Set
	own  *rules.Limiter
}

// meets is whether a descriptor would meet the item.
func (a *alone) meets(d *rules.Descriptor) bool {
	met, _ := a.file.Match("shop", d)
	return len(met) > 0 && met[0].Path[0] == a.item.Entry()
}

// says is what the candidate says to a request to which the active rules gave an answer: nil, nothing.
func (a *alone) says(t *testing.T, r *rules.Request, active *rules.Answer) *bool {
	t.Helper()
	mine := ask()
	for i := range r.Descriptors {
		if a.meets(&r.Descriptors[i]) {
			mine.Descriptors = append(mine.Descriptors, r.Descriptors[i])
		}
	}
	if len(mine.Descriptors) == 0 {
		return nil
	}
	for i := range active.Decisions {
		if d := &active.Decisions[i]; !a.meets(&r.Descriptors[d.Descriptor]) && !d.Rule.Shadow && d.Outcome != weir.Allowed {
			return new(false)
		}
	}
	return new(check(t, a.own, mine).Allowed)
}

// TestTry: beside candidates the active rules decide as they do alone, and each candidate says what it would say if it alone
// took the place of the active item of its key and value.
func TestTry(t *testing.T) {
	limits := []string{"2/s", "3/s burst 5", "4/10s sliding-log", "1/s", "3/2s fixed-window", "0/s"}
	heads := []string{"key: user", "key: user, value: ann", "key: user, value: a*", "key: path", "key: path, value: /*", "key: \"*\""}
	rapid.Check(t, func(rt *rapid.T) {
		items := func(label string) (map[string]string, []string) {
			texts, order := map[string]string{}, rapid.SliceOfNDistinct(rapid.SampledFrom(heads), 1, len(heads), rapid.ID).Draw(rt, label)
			for _, head := range order {
				two := rapid.SliceOfNDistinct(rapid.SampledFrom(limits), 1, 2, rapid.ID).Draw(rt, label+" "+head)
				texts[head] = fmt.Sprintf("- {%s, shadow_mode: %v, limits: [%s]}\n", head, rapid.IntRange(0, 3).Draw(rt, "shadow") == 0, strings.Join(two, ", "))
			}
			return texts, order
		}
		active, order := items("active")
		changed, changes := items("candidates")
		gone := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"key: user", "key: user, value: ann", "key: path"}), 0, 2, rapid.ID).Draw(rt, "taken away")
		// file is that of the active items, with some of the candidates in their places or at the end. With all, some are taken away.
		file := func(with ...string) string {
			var lines []string
			for _, head := range append(slices.Clone(order), changes...) {
				line, is := active[head], slices.Contains(with, head)
				if is {
					line = changed[head]
				}
				if len(with) > 1 && !is && slices.Contains(gone, head) {
					continue
				}
				if !slices.Contains(lines, line) && (line == changed[head] && is || slices.Contains(order, head)) {
					lines = append(lines, line)
				}
			}
			return shopFile(lines...)
		}
		shared := rapid.Bool().Draw(rt, "shared")
		synctest.Test(t, func(t *testing.T) {
			w := newWorlds(t, file(), shopFile(), shared)
			whole := parse(t, file(changes...))
			var tried []*rules.Item
			var each []*alone
			for _, head := range changes {
				own := parse(t, shopFile(changed[head]))
				item := whole.Item("shop", own.Items("shop")[0].Entry())
				tried = append(tried, item)
				each = append(each, &alone{item, parse(t, file(head)), rules.NewLimiter(memstore.New(memstore.Options{}), own)})
			}
			w.both.Try(tried, func(x rules.Trial) { w.told = append(w.told, x) })
			for range rapid.IntRange(1, 20).Draw(rt, "requests") {
				time.Sleep(rapid.SampledFrom([]time.Duration{0, 300 * time.Millisecond, 2 * time.Second}).Draw(rt, "pause"))
				r := ask(descriptor("user="+rapid.SampledFrom([]string{"ann", "abe", "bob"}).Draw(rt, "user")), descriptor("path=/"))
				r.Descriptors[0].Cost = rapid.Int64Range(0, 3).Draw(rt, "cost")
				w.told = nil
				got, want := check(t, w.both, r), check(t, w.active, r)
				if d := sameAnswer(want, got); d != "" {
					rt.Fatalf("active, beside candidates: %s", d)
				}
				said := map[*rules.Item]bool{}
				for _, x := range w.told {
					if _, twice := said[x.Item]; twice || x.Active != got || x.Request != r {
						rt.Fatalf("told of %+v", x)
					}
					said[x.Item] = x.Candidate.Allowed
				}
				for _, a := range each {
					is, told := said[a.item]
					if want := a.says(t, r, got); (want != nil) != told || told && *want != is {
						rt.Fatalf("%v of\n%s\nbeside\n%s\nmet %v, allowed %v; want met %v", a.item.Entry(), file(changes...), file(), told, is, want != nil)
					}
				}
			}
		})
	})
}

// TestTryOnly: peeks, other domains and requests after the end are not tried; a
// domain that is not active yet is.
func TestTryOnly(t *testing.T) {
	w := newWorlds(t, "domain: shop\ndescriptors: [{key: user, limits: [1/day]}]\n", "domain: shop\ndescriptors: [{key: user, limits: [2/day]}]\n", false)
	r := ask(descriptor("user=ann"))
	r.Peek = true
	check(t, w.both, r)
	check(t, w.both, &rules.Request{Domain: "other", Descriptors: r.Descriptors})
	if len(w.told) != 0 {
		t.Errorf("told of %+v", w.told)
	}
	w.both.Replace(parse(t, "domain: other\ndescriptors: []\n"))
	if check(t, w.both, ask(descriptor("user=ann"))); len(w.told) != 1 || len(w.told[0].Active.Decisions) != 0 || len(w.told[0].Candidate.Decisions) != 1 {
		t.Errorf("told of %+v", w.told)
	}
	w.both.Try(nil, nil)
	if check(t, w.both, ask(descriptor("user=ann"))); len(w.told) != 1 {
		t.Errorf("told of %+v", w.told)
	}
}

// TestTryPermits: permits that a candidate holds come back with those that are active,
// and are renewed with them.
func TestTryPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorlds(t, "domain: shop\ndescriptors: [{key: user, limits: [2 concurrent ttl 1min]}]\n",
			"domain: shop\ndescriptors: [{key: user, limits: [3 concurrent ttl 1min]}]\n", false)
		take := func(want, wantCandidate bool) []*weir.Receipt {
			t.Helper()
			r := ask(descriptor("user=ann"))
			r.Receipt = true
			a := check(t, w.both, r)
			if got := w.told[len(w.told)-1].Candidate.Allowed; a.Allowed != want || got != wantCandidate {
				t.Errorf("active %v, candidate %v", a.Allowed, got)
			}
			return a.Receipts()
		}
		settle := func(receipts []*weir.Receipt, renew bool) {
			t.Helper()
			if _, err := w.both.Settle(t.Context(), receipts, make([]int64, len(receipts)), renew); err != nil {
				t.Error(err)
			}
		}
		one, two := take(true, true), take(true, true)
		take(false, true) // the third permit, which nobody holds, is free again
		take(false, true)
		settle(one, false)
		three := take(true, true)
		time.Sleep(40 * time.Second)
		settle(two, true)
		settle(three, true)
		time.Sleep(40 * time.Second)
		remaining := func() int64 { return w.told[len(w.told)-1].Candidate.Decisions[0].Remaining }
		if take(false, true); remaining() != 0 {
			t.Errorf("renewed permits of the candidate are gone: %d remain", remaining())
		}
		settle(two, false)
		settle(three, false)
		if take(true, true); remaining() != 2 {
			t.Errorf("%d remain", remaining())
		}
	})
}

// TestTrySettles: what was charged beforehand is settled for the candidate, too,
// also when others run by then.
func TestTrySettles(t *testing.T) {
	const text = "domain: shop\ndescriptors:\n- {key: user, limits: [%d/day fixed-window]}\n- {key: path, limits: [9/day fixed-window]}\n"
	w := newWorlds(t, fmt.Sprintf(text, 8), fmt.Sprintf(text, 6), false)
	r := ask(descriptor("user=ann"), descriptor("path=/"))
	r.Receipt = true
	r.Descriptors[0].Cost, r.Descriptors[1].Cost = 4, 3
	receipts := check(t, w.both, r).Receipts()
	w.try(parse(t, fmt.Sprintf(text, 6)+"# the same limits\n"))
	if _, err := w.both.Settle(t.Context(), receipts, []int64{1, 2}, false); err != nil {
		t.Fatal(err)
	}
	r.Receipt = false
	r.Descriptors[0].Cost, r.Descriptors[1].Cost = 0, 0
	check(t, w.both, r)
	for i, want := range []int64{6 - 1, 9 - 2} {
		if got := w.told[2+i].Candidate.Decisions[0].Remaining; got != want {
			t.Errorf("%d: %d remain of the candidate, want %d", i, got, want)
		}
	}
}

// TestTryAway: a store that fails the candidate fails nobody else.
func TestTryAway(t *testing.T) {
	for _, shared := range []bool{false, true} {
		store := &failing{remote: remote{memstore.New(memstore.Options{}), shared}}
		l := rules.NewLimiter(store, parse(t, "domain: shop\ndescriptors: [{key: user, limits: [1/day]}]\n"))
		var told []rules.Trial
		l.Try(parse(t, "domain: shop\ndescriptors: [{key: user, limits: [2/day]}]\n").Items("shop"), func(x rules.Trial) { told = append(told, x) })
		store.fails = "candidate"
		if a := check(t, l, ask(descriptor("user=ann"))); !a.Allowed || len(told) != 1 || told[0].Candidate != nil {
			t.Errorf("%+v", told)
		}
		store.fails, store.asked = "shop/user#gcra", nil
		if a, err := l.Check(t.Context(), ask(descriptor("user=ann"))); a != nil || err == nil || len(told) != 1 {
			t.Error(a, err, told)
		}
		if !shared && len(store.asked) != 1 {
			t.Errorf("the candidate is charged for a request that was not decided: %q", store.asked)
		}
	}
}

// failing fails takes of some rules.
type failing struct {
	remote

	fails string
	mu    sync.Mutex
	asked []string
}

func (f *failing) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	f.mu.Lock()
	f.asked = append(f.asked, asks[0].State.Rule)
	f.mu.Unlock()
	if strings.Contains(asks[0].State.Rule, f.fails) {
		return errors.New("it fails")
	}
	return f.remote.Take(ctx, asks, out)
}

// TestCandidatePlace: a candidate counts beside what it may replace, with which
// stores keep it, and apart.
func TestCandidatePlace(t *testing.T) {
	store := &failing{remote: remote{memstore.New(memstore.Options{}), false}, fails: "nothing"}
	text := "domain: shop\ndescriptors: [{key: user, limits: [{name: \"a#b\", limit: 1/day}]}]\n"
	l := rules.NewLimiter(store, parse(t, text))
	l.Try(parse(t, text).Items("shop"), func(rules.Trial) {})
	check(t, l, ask(descriptor("user=ann")))
	if want := []string{"shop/user#name=a%23b", "shop/user#candidate/name=a%23b"}; !slices.Equal(store.asked, want) {
		t.Errorf("%q, want %q", store.asked, want)
	}
	if a, b := (weir.StateKey{Rule: store.asked[0]}).Placement(), (weir.StateKey{Rule: store.asked[1]}).Placement(); a != b {
		t.Errorf("placements %q and %q", a, b)
	}
}

func TestSame(t *testing.T) {
	one := parse(t, "domain: shop\ndescriptors: []\n")
	for _, c := range []struct {
		other *rules.Set
		want  bool
	}{{one, true}, {parse(t, "domain: shop\ndescriptors: []\n"), true}, {parse(t, "domain: shop\ndescriptors: [] # new\n"), false}, {nil, false}} {
		if one.Same(c.other, "shop") != c.want || c.other.Same(one, "shop") != c.want || !one.Same(c.other, "other") {
			t.Errorf("%+v", c)
		}
	}
	// Files of one name, as in exports of daemons whose rules come from several folders.
	export := func(user string) *rules.Set {
		set, err := rules.ParseExport("daemon", []byte("--- # rules.yaml\ndomain: other\ndescriptors: []\n--- # rules.yaml\ndomain: shop\ndescriptors: [{key: "+user+", limits: [1/s]}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	if a, b := export("user"), export("client"); a.Same(b, "shop") || !a.Same(b, "other") || !a.Same(export("user"), "shop") {
		t.Error("domains of files with one name are taken for each other")
	}
}
