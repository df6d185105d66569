package rules_test

import (
	"errors"
	"testing"

	"github.com/weir-limit/weir/internal/here"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestHere: for a caller that must not wait, nothing is given back, and no candidate is asked.
func TestHere(t *testing.T) {
	const text = "domain: d\ndescriptors:\n  - {key: k, limits: [10/h sliding-log]}\n"
	set, err := rules.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	l := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	only := &here.Context{Context: t.Context()}
	remaining := func(want int64, d rules.Descriptor) {
		t.Helper()
		d.Entries = []rules.Entry{{"k", "ann"}}
		r := rules.Request{Domain: "d", Descriptors: []rules.Descriptor{d}}
		if d.GiveBack {
			if _, err := l.Check(only, &r); !errors.Is(err, here.ErrWaits) {
				t.Fatalf("a request that gives back: %v", err)
			}
		}
		a, err := l.Check(t.Context(), &r)
		if err != nil || a.Decisions[0].Remaining != want {
			t.Fatalf("%+v, %v; want %d left", a, err, want)
		}
	}
	remaining(5, rules.Descriptor{Cost: 5})
	remaining(7, rules.Descriptor{Cost: 2, GiveBack: true}) // once
	told := 0
	l.Try(set.Items("d"), func(rules.Trial) { told++ })
	r := rules.Request{Domain: "d", Descriptors: []rules.Descriptor{{Cost: 1, Entries: []rules.Entry{{"k", "ann"}}}}}
	if _, err := l.Check(only, &r); !errors.Is(err, here.ErrWaits) || told != 0 {
		t.Errorf("with a candidate: %v, told %d times", err, told)
	}
	l.Try(nil, nil)
	if a, err := l.Check(only, &r); err != nil || a.Decisions[0].Remaining != 6 {
		t.Errorf("%+v, %v; want 6 left", a, err)
	}
}
