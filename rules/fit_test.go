package rules_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// elsewhere is a store that keeps less than memory does, and tells less.
type elsewhere struct {
	*memstore.Store

	traits weir.Traits
	told   int // of how many asks a denial's states are told
}

func (e *elsewhere) Traits() weir.Traits { return e.traits }

func (e *elsewhere) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	err := e.Store.Take(ctx, asks, out)
	for i := e.told; i < len(asks); i++ {
		asks[i].Evidence.Clear()
	}
	return err
}

func noLogs(l *weir.Limit) string {
	if l.Algorithm() == weir.SlidingLog || l.Algorithm() == weir.FixedWindow {
		return "it would take too much; take sliding-window"
	}
	return ""
}

const fitRules = `domain: shop
descriptors:
  - key: fine
    limits: [5/s, 5/s sliding-window]
  - key: logged
    name: logged
    limits:
      - 5/s
      - {name: log, limit: 10/min sliding-log}
  - key: old
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: free
    rate_limit: {unlimited: true}
`

// TestFits: a limit that the store can't keep is refused where it stands, with
// what to take instead.
func TestFits(t *testing.T) {
	set, err := rules.Parse("shop.yaml", []byte(fitRules))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Fits(weir.Traits{}); err != nil {
		t.Error(err)
	}
	bad, ok := errors.AsType[*rules.Error](set.Fits(weir.Traits{Unfit: noLogs}))
	if !ok {
		t.Fatal("fits")
	}
	want := []string{
		`shop.yaml:9:28: error: the store can't keep "10/min sliding-log": it would take too much; take sliding-window (rule logged#log)`,
		`shop.yaml:11:17: error: the store can't keep "10/min fixed-window": it would take too much; take sliding-window (rule shop/old)`,
	}
	var got []string
	for _, f := range bad.Findings {
		got = append(got, f.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNoStore: a limiter without a store says what to pass.
func TestNoStore(t *testing.T) {
	defer func() {
		if said, _ := recover().(string); !strings.HasPrefix(said, "rules: NewLimiter needs a store: pass one") {
			t.Error(said)
		}
	}()
	rules.NewLimiter(nil, rules.Demo())
}

// TestUnfitOverride: a limit that comes with a request is refused like one of a
// file.
func TestUnfitOverride(t *testing.T) {
	set, err := rules.Parse("shop.yaml", []byte(fitRules))
	if err != nil {
		t.Fatal(err)
	}
	l := rules.NewLimiter(&elsewhere{Store: memstore.New(memstore.Options{}), traits: weir.Traits{Unfit: noLogs}}, set)
	r := &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{
		{Entries: []rules.Entry{{Key: "a", Value: "b"}}, Cost: 1, Override: weir.MustParseLimit("5/s fixed-window")},
	}}
	_, checked := l.Check(t.Context(), r)
	_, explained := l.Explain(t.Context(), r)
	for _, err := range []error{checked, explained} {
		if bad, ok := errors.AsType[*rules.RequestError](err); !ok || bad.Field != "descriptors[0].limit" || !strings.Contains(bad.Text, "take sliding-window") {
			t.Error(err)
		}
	}
	r.Descriptors[0].Override = weir.MustParseLimit("5/s")
	if a, err := l.Check(t.Context(), r); err != nil || !a.Allowed {
		t.Error(a, err)
	}
}

// TestNotTogether: explanations say when the counts of a request are not decided
// at one moment, and when their clocks differ.
func TestNotTogether(t *testing.T) {
	set, err := rules.Parse("shop.yaml", []byte(fitRules))
	if err != nil {
		t.Fatal(err)
	}
	two := ask(descriptor("fine=a"), descriptor("fine=b"))
	for _, c := range []struct {
		traits   weir.Traits
		request  *rules.Request
		together bool
		notes    string
	}{
		{weir.Traits{Shared: true, Atomic: true, OwnClock: true}, two, true, ""},
		{weir.Traits{Shared: true, OwnClock: true}, two, false, ""},
		{weir.Traits{Shared: true}, ask(descriptor("fine=a")), true, "its own clock"},
	} {
		l := rules.NewLimiter(&elsewhere{Store: memstore.New(memstore.Options{}), traits: c.traits}, set)
		e, err := l.Explain(t.Context(), c.request)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(e.Limits[0].Notes, "\n")
		if e.Together != c.together || strings.Contains(notes, "its own clock") != (c.notes != "") {
			t.Errorf("%+v: together %v, %s", c.traits, e.Together, notes)
		}
	}
}

// TestRecallNoEvidence: a denial without evidence, because a fallback decided
// or several servers did, is known by its id, and said to be forgotten.
func TestRecallNoEvidence(t *testing.T) {
	set, err := rules.Parse("shop.yaml", []byte("domain: shop\ndescriptors: [{key: zero, limits: [0/s]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for told := range 2 {
		store := &elsewhere{Store: memstore.New(memstore.Options{}), told: told, traits: weir.Traits{Evidence: true}}
		l := rules.NewLimiter(store, set)
		d := remember(t, l)
		for range 40 { // a shard's places are used again
			a, err := l.Check(t.Context(), ask(descriptor("zero=a"), descriptor("zero=b")))
			if err != nil || a.Allowed {
				t.Fatal(a, err)
			}
			forgotten(t, l, a.ID(), "by a fallback")
		}
		if s := d.Stats(); s.NoEvidence != 40 {
			t.Errorf("%+v", s)
		}
		store.told = 2
		a, err := l.Check(t.Context(), ask(descriptor("zero=a"), descriptor("zero=b")))
		if err != nil {
			t.Fatal(err)
		}
		recall(t, l, a.ID())
	}
}

// TestIdle: what rules say about the nodes of a cluster is named where the store is none,
// and the other way round; once for a limit.
func TestIdle(t *testing.T) {
	set, err := rules.Parse("shop.yaml", []byte(`domain: shop
descriptors:
  - {key: a, limits: [5/s], sharing: sticky, partition: closed}
  - {key: b, limits: [5/s], partition: open}
  - {key: c, limits: [5/s]}
  - {key: d, limits: [5/s], sync: 100ms, nodes: 3}
  - {key: e, limits: [5/s], nodes: 3}
  - {key: f, limits: [5/s], nodes: 3, sharing: divided}
  - {key: g, limits: [5/s], nodes: 3, sharing: mesh}
  - {key: h, rate_limit: {unlimited: true}, sharing: mesh, nodes: 3}
  - {key: i, limits: [5/s], lease: 100ms}
`))
	if err != nil {
		t.Fatal(err)
	}
	type store struct{ cluster, late bool }
	for kind, want := range map[store][]string{
		{}: {
			"shop.yaml:3:5: warning: sharing: sticky has no effect with this store: it is for the nodes of --store cluster: (rule shop/a)",
			"shop.yaml:4:5: warning: partition: open has no effect with this store: it is for the nodes of --store cluster: (rule shop/b)",
			"shop.yaml:8:5: warning: sharing: divided has no effect with this store: it is for the nodes of --store cluster: (rule shop/f)",
			"shop.yaml:9:5: warning: sharing: mesh has no effect with this store: it is for the nodes of --store cluster: (rule shop/g)",
		},
		{cluster: true}: {
			"shop.yaml:6:5: warning: sync: 100ms has no effect with --store cluster:, whose nodes need no server; sharing says how they go on by themselves (rule shop/d)",
			"shop.yaml:7:5: warning: nodes: 3 does not divide the limit with --store cluster:, whose nodes know how many they are; write sharing: divided too, or leave it out (rule shop/e)",
			"shop.yaml:11:5: warning: lease: 100ms has no effect with --store cluster:, whose nodes need no server; sharing: lease, which is the default, keeps the same promise there (rule shop/i)",
		},
		{late: true}: {
			"shop.yaml:3:5: warning: sharing: sticky has no effect with this store: it is for the nodes of --store cluster: (rule shop/a)",
			"shop.yaml:4:5: warning: partition: open has no effect with this store: it is for the nodes of --store cluster: (rule shop/b)",
			"shop.yaml:6:5: warning: sync: 100ms gives nothing with an event log, by which each daemon decides itself, and others hear of its events later; leave it out (rule shop/d)",
			"shop.yaml:8:5: warning: sharing: divided has no effect with this store: it is for the nodes of --store cluster: (rule shop/f)",
			"shop.yaml:9:5: warning: sharing: mesh has no effect with this store: it is for the nodes of --store cluster: (rule shop/g)",
			"shop.yaml:11:5: warning: lease: 100ms gives nothing with an event log, by which each daemon decides itself, and portions that are not spent are missing elsewhere; leave it out (rule shop/i)",
		},
	} {
		var got []string
		for _, f := range set.Idle(kind.cluster, weir.Traits{Late: kind.late}) {
			got = append(got, f.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q", kind, got)
		}
	}
}

// TestBareStores: rules that ask for what is not around a store do not load; where they
// ask for nothing they do.
func TestBareStores(t *testing.T) {
	for option, refused := range map[string]bool{
		"": false, ", fallback: local": false, ", nodes: 1": false,
		", fallback: open": true, ", fallback: closed": true, ", nodes: 2": true, ", sync: 1s": true,
	} {
		set, err := rules.Parse("f", []byte("domain: d\ndescriptors:\n  - {key: k, limits: [5/s]"+option+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		err = set.Fits(weir.Traits{Shared: true, Bare: true})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "has no effect: this store has nothing around it") {
			t.Errorf("%q: %v", option, err)
		}
		if err := set.Fits(weir.Traits{Shared: true}); err != nil {
			t.Errorf("%q: %v", option, err)
		}
	}
}
