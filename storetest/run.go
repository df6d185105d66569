package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// Open makes a store. Stores of one name share their counts if the store's Traits say so, as if
// each were in a process of its own; stores of other names never do.
type Open func(t testing.TB, name string) Clocked

// Options of Run, for stores whose keys expire by themselves and outlive a process.
type Options struct {
	// Immortal lists the keys of all stores that were opened which would stay for
	// ever: after whatever was done there must be none.
	Immortal func(t testing.TB) []string
	// Dying opens a store as Open does, of a process that dies after so many steps:
	// things that it says to its server, or hears from it. Nothing reaches the
	// server then, and each call fails. It is used with Immortal.
	Dying func(t testing.TB, name string, steps int) Clocked
	// Ahead is for stores whose processes decide plain asks ahead of the count, by what
	// it has set aside for them: then they are told less than the model tells, and
	// sooner denied. Where answers are compared to the letter, asks that want no receipt
	// ask for one all the same, which such stores decide by the count itself. They drop
	// what is as never used by the test's clock, so it does not step back there.
	Ahead bool
	// Coarse is for stores that keep more of a count than its limit does, by which receipts have other
	// marks than the model's: random traces, which compare them, are left out.
	Coarse bool
}

// check finds keys that would stay for ever.
func (o *Options) check(t testing.TB) {
	t.Helper()
	if o.Immortal == nil {
		return
	}
	if keys := o.Immortal(t); len(keys) > 0 {
		t.Errorf("%d keys stay for ever, one of them %.100q", len(keys), keys[0])
	}
}

// Run holds a store to the contract of weir.Store: the transcripts in vectors,
// random traces against the model, what goroutines and processes may not break,
// and what is left of them. Limits that the store's Traits refuse are left out, and
// said so.
func Run(t *testing.T, vectors string, open Open, o Options) {
	exact := open
	if o.Ahead {
		exact = func(t testing.TB, name string) Clocked { return &byCount{Clocked: open(t, name)} }
	}
	for _, part := range []struct {
		name string
		run  func(t *testing.T, open Open)
	}{
		{"vectors", func(t *testing.T, _ Open) { runVectors(t, vectors, exact) }},
		{"model", func(t *testing.T, _ Open) { runModel(t, exact, o.Ahead) }},
		{"exact", runExact},
		{"changes", func(t *testing.T, open Open) { runChanges(t, open, !o.Ahead) }},
		{"together", runTogether},
		{"once", runOnce},
		{"once apart", runOnceApart},
		{"settled once", runSettledOnce},
		{"refunds", runRefunds},
		{"reset", runReset},
		{"evidence", runEvidence},
		{"keys are apart", runApart},
		{"misuse", runMisuse},
	} {
		t.Run(part.name, func(t *testing.T) {
			if o.Coarse && part.name == "model" {
				t.Skip("receipts have marks of their own")
			}
			part.run(t, open)
			o.check(t)
		})
	}
	if o.Dying != nil {
		t.Run("crash", func(t *testing.T) { runCrash(t, open, o) })
	}
}

// byCount is a store whose asks all ask for receipts: see Options.Ahead.
type byCount struct {
	Clocked

	id uint64
}

func (s *byCount) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	s.id++
	all := slices.Clone(asks)
	for i := range all {
		if all[i].Receipt == 0 {
			all[i].Receipt = 1<<63 | s.id
		}
	}
	if err := s.Clocked.TakeAt(now, all, out); err != nil {
		return err
	}
	for i := range out[:min(len(out), len(asks))] {
		if asks[i].Receipt == 0 {
			out[i].Receipt = nil
		}
	}
	return nil
}

func runVectors(t *testing.T, dir string, open Open) {
	Vectors(t, dir, false, func(t *testing.T) Clocked { return open(t, t.Name()) })
}

// runExact: many goroutines, of several processes where counts are shared, pass
// exactly the limit, by every algorithm.
func runExact(t *testing.T, open Open) {
	const goroutines, each, count = 64, 8, 150
	first := open(t, "exact")
	stores := []weir.Store{first}
	if first.Traits().Shared {
		stores = append(stores, open(t, "exact"), open(t, "exact"))
	}
	for _, limit := range limitsOf(t, first,
		"150/day", "150/day leaky-queue queue 149", "150/day fixed-window anchored", "150/day sliding-log",
		"150/day sliding-window 6 conservative", "150 concurrent ttl 1h", "150/day strict burst 150", "150/day sliding-window",
	) {
		var passed, failed atomic.Int64
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				asks := []weir.Ask{{State: weir.StateKey{Rule: limit.String(), Key: "k"}, Limit: limit, Cost: 1, Receipt: uint64(g + 1)}}
				out := make([]weir.Decision, 1)
				for range each {
					switch err := stores[g%len(stores)].Take(t.Context(), asks, out); {
					case errors.Is(err, weir.ErrBusy):
						failed.Add(1) // nothing was decided
					case err != nil:
						t.Error(err)
						return
					case out[0].Charged:
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		n, lost := passed.Load(), failed.Load()
		if n > count || n+lost < count {
			t.Errorf("%s: %d passed and %d found the store busy, want %d", limit, n, lost, count)
		}
	}
}

// runTogether: takes of two limits that many ask for at once charge both or
// neither.
func runTogether(t *testing.T, open Open) {
	store := open(t, "together")
	scarce, plenty := weir.MustParseLimit("20/day"), weir.MustParseLimit("1000/day")
	rules := []string{"d#a", "d#b"}
	if store.Traits().Atomic {
		rules = []string{"c", "d"}
	}
	var passed atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for range 4 {
				asks := []weir.Ask{
					{State: weir.StateKey{Rule: rules[0], Key: "k"}, Limit: scarce, Cost: 1},
					{State: weir.StateKey{Rule: rules[1], Key: "k"}, Limit: plenty, Cost: 1},
				}
				if g%2 == 1 {
					asks[0], asks[1] = asks[1], asks[0]
				}
				out := make([]weir.Decision, 2)
				for {
					err := store.Take(t.Context(), asks, out)
					if errors.Is(err, weir.ErrBusy) {
						continue
					}
					if err != nil {
						t.Error(err)
					}
					break
				}
				if out[0].Charged != out[1].Charged {
					t.Errorf("one was charged without the other: %+v", out)
				}
				if out[0].Charged {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	out := make([]weir.Decision, 1)
	err := store.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: rules[1], Key: "k"}, Limit: plenty, Cost: 1, Peek: true}}, out)
	if err != nil || passed.Load() != 20 || out[0].Remaining != 980 {
		t.Errorf("%d passed, want 20; %d of the other remain, want 980; %v", passed.Load(), out[0].Remaining, err)
	}
}

// runOnce: a take that comes again gets its first answer and charges nothing.
func runOnce(t *testing.T, open Open) {
	store := open(t, "once")
	for i, limit := range limitsOf(t, store, "10/day", "10/day fixed-window", "10/day sliding-log", "10 concurrent ttl 1h", "10/day sliding-window 4") {
		asks := []weir.Ask{{State: weir.StateKey{Rule: fmt.Sprint("r", i), Key: "k"}, Limit: limit, Cost: 3, Receipt: uint64(77 + 2*i), Once: true}}
		var first weir.Decision
		for n := range 3 {
			out := make([]weir.Decision, 1)
			if err := store.Take(t.Context(), asks, out); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				first = out[0]
			}
			a, b := first, out[0]
			if a.Receipt == nil || b.Receipt == nil || *a.Receipt != *b.Receipt {
				t.Errorf("%s: receipts %+v and %+v", limit, a.Receipt, b.Receipt)
			}
			a.Receipt, b.Receipt = nil, nil
			if a != b || b.Remaining != 7 {
				t.Errorf("%s, try %d: %+v, at first %+v", limit, n+1, b, a)
			}
		}
		asks[0].Receipt++
		out := make([]weir.Decision, 1)
		if err := store.Take(t.Context(), asks, out); err != nil || out[0].Remaining != 4 {
			t.Errorf("%s: another take: %+v, %v", limit, out[0], err)
		}
	}
}

// runOnceApart: the receipt of a take is known again for its key only, and a take without
// a receipt is never known again.
func runOnceApart(t *testing.T, open Open) {
	store, limit := open(t, "once apart"), weir.MustParseLimit("10/day")
	ask := func(key string, receipt uint64) weir.Ask {
		return weir.Ask{State: weir.StateKey{Rule: "r", Key: key}, Limit: limit, Cost: 1, Receipt: receipt, Once: true}
	}
	for i, c := range []struct {
		key     string
		receipt uint64
		remain  int64
	}{{"a", 5, 9}, {"b", 5, 9}, {"b", 5, 9}, {"b", 6, 8}, {"a", 6, 8}, {"a", 5, 9}, {"c", 0, 9}, {"c", 0, 8}} {
		out := make([]weir.Decision, 1)
		if err := store.Take(t.Context(), []weir.Ask{ask(c.key, c.receipt)}, out); err != nil || !out[0].Charged || out[0].Remaining != c.remain {
			t.Errorf("%d, key %s, receipt %d: %+v, %v; want that %d remain", i, c.key, c.receipt, out[0], err, c.remain)
		}
	}
	left := make([]weir.Decision, 1)
	for key, remain := range map[string]int64{"a": 8, "b": 8, "c": 8} {
		peek := ask(key, 0)
		peek.Peek = true
		if err := store.Take(t.Context(), []weir.Ask{peek}, left); err != nil || left[0].Remaining != remain {
			t.Errorf("key %s: %+v, %v; want that %d remain", key, left[0], err, remain)
		}
	}
}

// runSettledOnce: of many who settle one receipt, one does.
func runSettledOnce(t *testing.T, open Open) {
	store := open(t, "settled")
	limit := weir.MustParseLimit("100/day")
	asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 40, Receipt: 5}}
	out := make([]weir.Decision, 1)
	if err := store.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			switch err := store.Settle(t.Context(), []weir.Settlement{{Receipt: out[0].Receipt, Used: 10}}); {
			case err == nil:
				done.Add(1)
			case !errors.Is(err, weir.ErrSettled):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	asks[0].Peek = true
	if err := store.Take(t.Context(), asks, out); err != nil || done.Load() != 1 || out[0].Remaining != 90 {
		t.Errorf("settled %d times, %d remain, %v", done.Load(), out[0].Remaining, err)
	}
}

// runRefunds: what is given back without a receipt is free again, never more than
// was used, as often as it is asked for.
func runRefunds(t *testing.T, open Open) {
	store := open(t, "refunds")
	for _, text := range []string{"100/day", "100/day fixed-window anchored", "100/day sliding-log", "100/day sliding-window 4", "100 concurrent ttl 10min"} {
		limit := weir.MustParseLimit(text)
		if !fits(store, limit) {
			continue
		}
		a := weir.Ask{State: weir.StateKey{Rule: "refunds#" + text, Key: "k"}, Limit: limit, Cost: 40}
		out := make([]weir.Decision, 1)
		if err := store.Take(t.Context(), []weir.Ask{a}, out); err != nil {
			t.Fatal(err)
		}
		a.Peek = true
		for _, step := range []struct{ back, charged, left int64 }{{30, 0, 90}, {5, 0, 95}, {1000, 995, 100}} {
			all := []weir.Settlement{{Receipt: limit.Refund(a.State, step.back, 9)}}
			err := store.Settle(t.Context(), all)
			if errors.Is(err, weir.ErrNoRefund) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Take(t.Context(), []weir.Ask{a}, out); err != nil || out[0].Remaining != step.left || all[0].Charged-step.charged > 1 || all[0].Charged < step.charged { // time may pass
				t.Errorf("%s: after %d were given back %d remain and %d stay charged, %v; want %d and %d",
					limit, step.back, out[0].Remaining, all[0].Charged, err, step.left, step.charged)
			}
		}
	}
}

// runApart: no separator in rule or key makes two states one.
func runApart(t *testing.T, open Open) {
	store, limit := open(t, "apart"), weir.MustParseLimit("1/day")
	for _, k := range [][2]string{
		{"a", "b_c"},
		{"a_b", "c"},
		{"a", ""},
		{"", "a"},
		{"", ""},
		{"a", "\x00"},
		{"a", "\x00\x00"},
		{"a", "\xff\xfe"},
		{"a", "}"},
		{"a", "{}"},
		{"a}", ""},
		{"a", ":"},
		{"a:", ""},
		{"a", "%3A"},
		{"a#b", "c"},
		{"a", "#bc"},
		{"a#", "c"},
		{"#", "c"},
		{"a", "x y\r\n"},
		{"a", strings.Repeat("x", 1<<20)},
		{"a", strings.Repeat("x", 1<<20) + "y"},
		{"a" + strings.Repeat("x", 1<<20), ""},
	} {
		out := make([]weir.Decision, 1)
		err := store.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: k[0], Key: k[1]}, Limit: limit, Cost: 1}}, out)
		if err != nil || !out[0].Charged {
			t.Errorf("%.20q/%.20q is not a key of its own: %+v, %v", k[0], k[1], out[0], err)
		}
	}
}

// runEvidence: a store that gives evidence tells what each ask stood on, also of a take
// that passes when the caller asked for that, and so the caller knows the state after it.
// It tells nothing of other takes that pass.
func runEvidence(t *testing.T, open Open) {
	store := open(t, "evidence")
	if !store.Traits().Evidence {
		t.Skip("the store gives no evidence")
	}
	limit := weir.MustParseLimit("100/day fixed-window")
	var seen [2]weir.Evidence
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "seen#1", Key: "k"}, Limit: limit, Cost: 2, Shadow: true, Evidence: &seen[0]},
		{State: weir.StateKey{Rule: "seen#2", Key: "k"}, Limit: limit, Cost: 3, Shadow: true, Evidence: &seen[1]},
	}
	for i := range int64(3) {
		seen[0], seen[1] = weir.Evidence{Always: true}, weir.Evidence{Always: true}
		if err := store.Take(t.Context(), asks, make([]weir.Decision, 2)); err != nil {
			t.Fatal(err)
		}
		used := []int64{limit.Used(seen[0].State, seen[0].At), limit.Used(seen[1].State, seen[1].At)}
		if want := []int64{2 * i, 3 * i}; !seen[0].Told || !seen[1].Told || !slices.Equal(used, want) {
			t.Errorf("evidence: %+v tell of %d used, want %d", seen, used, want)
		}
	}
	seen = [2]weir.Evidence{}
	if err := store.Take(t.Context(), asks, make([]weir.Decision, 2)); err != nil {
		t.Fatal(err)
	}
	if seen[0].Told || seen[1].Told {
		t.Errorf("a take that passes told %+v unasked", seen)
	}
}

// runReset: a receipt from before a reset gives nothing back, and one from after it gives all
// back, though the clock shows the same microsecond, or has stepped back.
func runReset(t *testing.T, open Open) {
	const at = weir.Instant(1_700_000_000_000_000)
	for _, text := range []string{"10/day", "10/day fixed-window", "10/day sliding-log", "10/day sliding-window 4"} {
		for _, after := range []weir.Instant{at, at - 5, at + 5} {
			store, limit := open(t, fmt.Sprint("reset ", text, after-at)), weir.MustParseLimit(text)
			if !fits(store, limit) {
				continue
			}
			id := uint64(0)
			take := func(now weir.Instant) (*weir.Receipt, int64) {
				id++
				ask := weir.Ask{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 4, Receipt: id}
				out := make([]weir.Decision, 1)
				if err := store.TakeAt(now, []weir.Ask{ask}, out); err != nil || out[0].Receipt == nil {
					t.Fatalf("%s: %+v, %v", text, out[0], err)
				}
				return out[0].Receipt, out[0].Remaining
			}
			before, _ := take(at)
			if err := store.ResetAt(at, []weir.StateKey{before.State}); err != nil {
				t.Fatal(err)
			}
			later, _ := take(after)
			back := func(r *weir.Receipt) int64 {
				st := []weir.Settlement{{Receipt: r}}
				if err := store.SettleAt(after, st); err != nil {
					t.Errorf("%s: %v", text, err)
				}
				return st[0].Charged
			}
			if old, new := back(before), back(later); old != 4 || new != 0 {
				t.Errorf("%s, %d µs after a reset: of receipts of 4 from before and after it, %d and %d stay charged; want 4 and 0", text, after-at, old, new)
			}
			if _, left := take(after); left != 6 {
				t.Errorf("%s, %d µs after a reset: %d remain, want 6", text, after-at, left)
			}
		}
	}
}

func runMisuse(t *testing.T, open Open) {
	store, limit := open(t, "misuse"), weir.MustParseLimit("1/day")
	a := weir.Ask{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1}
	if err := store.Take(t.Context(), []weir.Ask{a, a}, make([]weir.Decision, 2)); err == nil || !strings.Contains(err.Error(), "add up their costs") {
		t.Errorf("the same state twice: %v", err)
	}
	if err := store.Take(t.Context(), []weir.Ask{a}, nil); err == nil {
		t.Error("no room for the decision, and no error")
	}
	for _, wrong := range [][2]int64{{-1, 0}, {math.MinInt64, 0}, {weir.MaxCost + 1, 0}, {math.MaxInt64, 1}, {1, 2}, {1, -1}} {
		b := a
		b.Cost, b.AtLeast = wrong[0], wrong[1]
		for _, asks := range [][]weir.Ask{{b}, {{State: weir.StateKey{Rule: "r", Key: "other"}, Limit: limit, Cost: 1}, b}} {
			if err := store.Take(t.Context(), asks, make([]weir.Decision, len(asks))); err == nil || !strings.Contains(err.Error(), "a cost is 0") {
				t.Errorf("cost %d, at least %d: %v", b.Cost, b.AtLeast, err)
			}
		}
	}
	if err := store.Take(t.Context(), nil, nil); err != nil {
		t.Errorf("nothing asked: %v", err)
	}
	if err := store.Settle(t.Context(), nil); err != nil {
		t.Errorf("nothing to settle: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := make([]weir.Decision, 1)
	if err := store.Take(ctx, []weir.Ask{a}, out); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := store.Settle(ctx, []weir.Settlement{{Receipt: &weir.Receipt{Limit: limit}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := store.Reset(ctx, []weir.StateKey{a.State}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := store.Take(t.Context(), []weir.Ask{a}, out); err != nil || !out[0].Charged {
		t.Errorf("what was cancelled had charged: %+v, %v", out[0], err)
	}
	runUnlimited(t, store, a)
	for _, text := range []string{"10/s warm-up 1s", "10/s sliding-log", "1 concurrent", "10/s strict burst 3"} {
		l := weir.MustParseLimit(text)
		if fits(store, l) {
			continue
		}
		asks := []weir.Ask{{State: weir.StateKey{Rule: "unfit", Key: "k"}, Limit: l, Cost: 1}}
		if err := store.Take(t.Context(), asks, out); err == nil || !strings.Contains(err.Error(), store.Traits().Unfit(l)) {
			t.Errorf("%s is refused by the traits, and by Take with %v", l, err)
		}
	}
}

// runUnlimited: an ask without a limit is refused, also where the store has just denied its
// key, and beside another ask.
func runUnlimited(t *testing.T, store weir.Store, denied weir.Ask) {
	out := make([]weir.Decision, 2)
	if err := store.Take(t.Context(), []weir.Ask{denied}, out[:1]); err != nil || out[0].Outcome != weir.Denied {
		t.Fatalf("%+v, %v", out[0], err)
	}
	other := denied
	other.State.Key = "another"
	none := weir.Ask{State: denied.State, Cost: 1}
	for _, asks := range [][]weir.Ask{{none}, {other, none}, {none, other}} {
		if err := store.Take(t.Context(), asks, out[:len(asks)]); err == nil || !strings.Contains(err.Error(), `rule "r" has no Limit`) {
			t.Errorf("an ask without a limit: %v", err)
		}
	}
}

// runModel: on random traces over a few keys and limits, with several asks at a
// time, limits that change, receipts that are settled, resets and clocks that
// step back but where forward says that they do not, the store answers what the model
// answers.
func runModel(t *testing.T, open Open, forward bool) {
	trial := 0
	rapid.Check(t, func(rt *rapid.T) {
		trial++
		tr := newTrace(rt, open(t, fmt.Sprint("model", trial)))
		tr.forward = forward
		tr.run()
	})
}

// Fewer has Run draw so many histories of each kind, in place of 100, for the rest of a test: where a step takes long, or what is
// between the store and its server was tried by another run. No other test may run beside this one. Where the command line has
// -rapid.checks, that holds.
func Fewer(t *testing.T, histories int) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if given {
		return
	}
	checks := flag.Lookup("rapid.checks").Value
	was := checks.String()
	if err := checks.Set(strconv.Itoa(histories)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Set(was) }) // it was
}
