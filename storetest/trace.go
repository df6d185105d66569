package storetest

import (
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// traceLimits are small, so that every few microseconds something happens to
// them. Some have numbers that only exact arithmetic gets right.
var traceLimits = [...]string{
	"3/10us burst 2", "5/10us debt 3", "4/20us initial 1", "6/12us strict burst 2", "2/7us leaky-queue", "3/10us fixed-window",
	"3/10us fixed-window anchored", "3/10us fixed-window count-denied", "4/15us sliding-log", "4/15us sliding-log count-denied",
	"9/20us sliding-window", "9/20us sliding-window 4 conservative", "9/20us sliding-window 2 relaxed", "3 concurrent ttl 9us",
	"3/10us warm-up 30us", "1000000007/407day burst 5", "7/11us initial 2 debt 1", "2/day fixed-window zone Asia/Tokyo",
	"9/20us sliding-window count-denied", "0/s", "0/s sliding-log", "3/10us leaky-queue queue 0",
}

// trace is a random run of a store beside the model.
type trace struct {
	t       *rapid.T
	store   Clocked
	model   *Model
	limits  []*weir.Limit
	inForce map[string]*weir.Limit
	turned  map[string]bool // rules that had another limit before, or were reset
	taken   [][]took
	now     weir.Instant
	changed weir.Instant // when a limit changed last for a key, or was reset
	given   weir.Instant // when the last receipt was given
	forward bool         // the clock does not step back
	jumped  bool         // all limits have recovered meanwhile
	id      uint64
}

// took is a charge by its receipts.
type took struct{ store, model *weir.Receipt }

func newTrace(t *rapid.T, store Clocked) *trace {
	tr := &trace{t: t, store: store, model: NewModel(), inForce: map[string]*weir.Limit{}, turned: map[string]bool{}}
	for _, text := range traceLimits {
		if l := weir.MustParseLimit(text); fits(store, l) {
			tr.limits = append(tr.limits, l)
		}
	}
	tr.now = weir.Instant(rapid.SampledFrom([]int64{0, 50, 1_800_000_000_000_000}).Draw(t, "start"))
	return tr
}

func (tr *trace) run() {
	// A store may drop an unused state, and a clock that steps back does not bring it back. Shared
	// stores drop by a clock of their own, not by the test's.
	back := int64(0)
	if tr.store.Traits().Shared && !tr.forward {
		back = -3
	}
	for range rapid.IntRange(1, 60).Draw(tr.t, "steps") {
		tr.now = max(tr.now+weir.Instant(rapid.Int64Range(back, 20).Draw(tr.t, "step")), tr.changed)
		switch act := rapid.IntRange(0, 15).Draw(tr.t, "act"); {
		case act < 4 && len(tr.taken) > 0:
			tr.settle(rapid.SampledFrom(tr.taken).Draw(tr.t, "receipts"))
		case act == 15:
			tr.reset()
		default:
			tr.take()
		}
	}
}

// rules are those of one take: of any placement where the store decides all at
// once, else of one.
func (tr *trace) rules() (rules []string, key string) {
	names := []string{"a#1", "a#2", "a#3"}
	if tr.store.Traits().Atomic {
		names = []string{"a#1", "a#2", "b"}
	}
	rules = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(tr.t, "rules")
	return rules, rapid.SampledFrom([]string{"", "x", "y"}).Draw(tr.t, "key")
}

func (tr *trace) take() {
	tr.id++
	rules, key := tr.rules()
	receipt := rapid.Bool().Draw(tr.t, "receipt")
	var asks []weir.Ask
	changed := false
	for _, rule := range rules {
		if tr.inForce[rule] == nil || rapid.IntRange(0, 15).Draw(tr.t, "change the limit") == 0 {
			tr.change(rule)
			changed = true
		}
		changed = changed || tr.turned[rule] // a key takes over the other limit when it is asked for next
		a := weir.Ask{
			State: weir.StateKey{Rule: rule, Key: key}, Limit: tr.inForce[rule], Cost: rapid.Int64Range(tr.least(rule), 4).Draw(tr.t, "cost"),
			Peek: tr.rarely("peek") && !tr.views(rule), Shadow: tr.rarely("shadow"), Quota: tr.rarely("quota"), After: tr.rarely("after"),
		}
		if a.Cost > 0 && tr.rarely("up to") {
			a.AtLeast = rapid.Int64Range(1, a.Cost).Draw(tr.t, "at least")
		}
		if receipt {
			a.Receipt = tr.id
		}
		asks = append(asks, a)
	}
	if len(asks) == 1 && tr.rarely("be held") {
		asks[0].MaxHold = 5_000
	}
	if changed {
		tr.changed = tr.now
	}
	got, want := make([]weir.Decision, len(asks)), make([]weir.Decision, len(asks))
	if err := errors.Join(tr.store.TakeAt(tr.now, asks, got), tr.model.TakeAt(tr.now, asks, want)); err != nil {
		tr.t.Fatal(err)
	}
	tr.compare(asks, got, want)
}

// views is whether an ask that charges nothing sees what another limit of the rule has left. A shared
// store may remember that for as long as it remembers a denial, and take it over later than the model.
func (tr *trace) views(rule string) bool { return tr.store.Traits().Shared && tr.turned[rule] }

// least is the least that an ask of a rule costs.
func (tr *trace) least(rule string) int64 {
	if tr.views(rule) {
		return 1
	}
	return 0
}

func (tr *trace) rarely(what string) bool { return rapid.IntRange(0, 5).Draw(tr.t, what) == 5 }

func (tr *trace) compare(asks []weir.Ask, got, want []weir.Decision) {
	var taken []took
	for i := range asks {
		if r := want[i].Receipt; r != nil {
			if got[i].Receipt == nil || !tr.alike(*got[i].Receipt, *r) {
				tr.t.Fatalf("at %d: receipts differ: the store's %+v, the model's %+v", tr.now, got[i].Receipt, r)
			}
			taken, tr.given = append(taken, took{got[i].Receipt, r}), max(tr.given, r.Taken)
		}
		got[i].Receipt, want[i].Receipt = nil, nil
		if got[i] != want[i] {
			tr.t.Fatalf("at %d, %+v of %s: the store says %+v, the model %+v", tr.now, asks[i], asks[i].Limit, got[i], want[i])
		}
	}
	if taken != nil {
		tr.taken = append(tr.taken, taken)
	}
}

// alike is whether two receipts are of one charge. A store may drop a state that is as never used, and
// with it how much was ever given back, from which a mark counts on; the model keeps it.
func (tr *trace) alike(store, model weir.Receipt) bool {
	if tr.jumped {
		store.Mark, model.Mark = [2]uint64{}, [2]uint64{}
	}
	return store == model
}

// recovered is by when all limits of a trace have, whatever was settled. A store may know
// of earlier limits for longer than a model.
const recovered = weir.Instant(500 * 24 * time.Hour / time.Microsecond)

// change gives a rule another limit. When a charge from before is settled then, the store charges
// it to the limits that it still keeps states of.
func (tr *trace) change(rule string) {
	if tr.turned[rule] {
		tr.now += recovered
		tr.jumped = true
	}
	if tr.inForce[rule] != nil {
		tr.taken = nil
	}
	tr.turned[rule] = tr.inForce[rule] != nil || tr.turned[rule]
	tr.inForce[rule] = rapid.SampledFrom(tr.limits).Draw(tr.t, "limit")
}

func (tr *trace) settle(taken []took) {
	var all, model []weir.Settlement
	used := rapid.OneOf(rapid.Int64Range(0, 6), rapid.SampledFrom([]int64{40, weir.MaxCount, weir.MaxCost})).Draw(tr.t, "used")
	renew := rapid.IntRange(0, 4).Draw(tr.t, "renew") == 0
	for _, r := range taken {
		all = append(all, weir.Settlement{Receipt: r.store, Used: used, Renew: renew})
		model = append(model, weir.Settlement{Receipt: r.model, Used: used, Renew: renew})
	}
	got, want := tr.store.SettleAt(tr.now, all), tr.model.SettleAt(tr.now, model)
	if errors.Is(want, weir.ErrExpired) { // a clock that steps back behind that is not compared
		tr.taken = slices.DeleteFunc(tr.taken, func(r []took) bool { return r[0].model.ID == taken[0].model.ID })
	}
	if (got == nil) != (want == nil) || got == nil && !slices.EqualFunc(all, model, func(a, b weir.Settlement) bool { return a.Charged == b.Charged }) {
		tr.t.Fatalf("at %d, settling %+v: the store says %+v, %v, the model %+v, %v", tr.now, taken[0].model, all, got, model, want)
	}
}

// reset forgets all keys of a rule, for stores may remember by rule or by key
// which receipts give nothing back.
func (tr *trace) reset() {
	rule := rapid.SampledFrom([]string{"a#1", "a#2", "a#3", "b"}).Draw(tr.t, "rule")
	tr.turned[rule] = true
	var keys []weir.StateKey
	for _, key := range []string{"", "x", "y"} {
		keys = append(keys, weir.StateKey{Rule: rule, Key: key})
	}
	if err := errors.Join(tr.store.ResetAt(tr.now, keys), tr.model.ResetAt(tr.now, keys)); err != nil {
		tr.t.Fatal(err)
	}
	// Until the clock has caught up receipts of then may be good or not.
	tr.now = max(tr.now, tr.given) + 1
	tr.changed = tr.now
}
