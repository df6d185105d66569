package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// told is rules that are tightened to 50 % or open, and know it.
func told(t *testing.T, file, limit, written string, held rules.Temporary) *rules.Set {
	t.Helper()
	set := parse(t, fmt.Sprintf(file, limit))
	err := set.Tell(parse(t, "# a line more\n"+fmt.Sprintf(file, written)), func(item string) *rules.Temporary {
		if item != "user" {
			return nil
		}
		return &held
	})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const heldFile = `domain: shop
descriptors:
  - key: user
    limits: ["%s"]
    descriptors:
      - {key: plan, limits: [1/s]}
  - {key: other, limits: [1/s]}
`

// TestTemporary: a rule that is tightened says of how much, by whom, why, until when, and what it would be without; it gives
// no advice about a text that stands nowhere.
func TestTemporary(t *testing.T) {
	until := time.Date(2000, 1, 1, 5, 0, 0, 0, time.UTC)
	set := told(t, heldFile, "5/min burst 10", "10/min burst 20", rules.Temporary{Percent: 50, Until: until, Author: "ann", Reason: "the database is slow"})
	if held := set.Temporary(); len(held) != 2 || held[0].Temporary.Written.Limit.String() != "10/min burst 20" || held[0].Line != 4 {
		t.Fatalf("%+v", held)
	}
	c := &clocked{memstore.New(memstore.Options{}), start}
	l := rules.NewLimiter(c, set)
	request := &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "ann"}}, Cost: 11}}}
	for _, step := range []struct {
		cost int64
		says string
	}{{11, "; as written, it would allow this now"}, {21, "; as written, it would not allow this now either"}} {
		request.Descriptors[0].Cost = step.cost
		e := explain(t, l, request)
		want := "tightened to 50 % of 10/min burst 20 until 2000-01-01 05:00 UTC, by ann: the database is slow" + step.says
		if notes := e.Limits[0].Notes; !slices.Contains(notes, want) || e.Limits[0].Enough != nil {
			t.Errorf("%q, %v", notes, e.Limits[0].Enough)
		}
	}
	request.Descriptors[0].Cost = 10 // of 10: as written, 10 are left
	if a, err := l.Check(t.Context(), request); err != nil || !a.Allowed {
		t.Fatal(a, err)
	}
	request.Descriptors[0].Cost = 1
	for cost, says := range map[int64]string{1: "it would allow this", 10: "it would allow this", 11: "it would not allow this"} {
		request.Descriptors[0].Cost = cost
		if notes := strings.Join(explain(t, l, request).Limits[0].Notes, "\n"); !strings.Contains(notes, says) {
			t.Errorf("a cost of %d: %s", cost, notes)
		}
	}
	request.Descriptors[0].Entries[0].Key = "other"
	if notes := strings.Join(explain(t, l, request).Limits[0].Notes, "\n"); strings.Contains(notes, "tightened") {
		t.Error(notes)
	}
}

// TestOpen: an open rule is not told to be in shadow, unless it is.
func TestOpen(t *testing.T) {
	for file, shadow := range map[string]bool{heldFile: false, strings.Replace(heldFile, "key: user", "key: user\n    shadow_mode: true", 1): true} {
		open := strings.Replace(strings.Replace(file, "\n    shadow_mode: true", "", 1), "key: user", "key: user\n    shadow_mode: true", 1)
		set := parse(t, fmt.Sprintf(open, "5/min"))
		held := rules.Temporary{Until: time.Date(2000, 1, 1, 5, 0, 0, 0, time.UTC), Author: "ann", Reason: "a flood"}
		if err := set.Tell(parse(t, fmt.Sprintf(file, "5/min")), func(string) *rules.Temporary { return &held }); err != nil {
			t.Fatal(err)
		}
		l := rules.NewLimiter(memstore.New(memstore.Options{}), set)
		notes := explain(t, l, &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "ann"}}, Cost: 1}}}).Limits[0].Notes
		if !slices.Contains(notes, "open until 2000-01-01 05:00 UTC, by ann: a flood") || slices.Contains(notes, "it is in shadow: decided, not enforced") != shadow {
			t.Errorf("%v: %q", shadow, notes)
		}
	}
}

// TestTellOthers: rules of another file are not taken for those that are written.
func TestTellOthers(t *testing.T) {
	of := func(string) *rules.Temporary { return &rules.Temporary{} }
	for _, written := range []string{"domain: shop\ndescriptors: [{key: user, limits: [1/s]}]", "domain: shop\ndescriptors: [{key: other, limits: [1/s]}, {key: more, limits: [1/s]}]"} {
		if err := parse(t, "domain: shop\ndescriptors: [{key: other, limits: [1/s]}, {key: user, limits: [1/s]}]").Tell(parse(t, written), of); err == nil {
			t.Error("taken:", written)
		}
	}
}
