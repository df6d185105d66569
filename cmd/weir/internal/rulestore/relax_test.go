package rulestore

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testOverrides: a domain is opened and a rule of it tightened, each for its time.
func testOverrides(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, "# users\n- key: user\n  limits: [10/s burst 20, {name: day, limit: 1000/day fixed-window}] # both\n  descriptors:\n    - key: path\n      rate_limit: {unit: minute, requests_per_unit: 3}\n")
	put(t, s, rule("other", "1/s"))
	now := time.Now()
	if err := s.Override(ctx, as("ann", Propose, "shop"), Override{Domain: "shop", Until: now.Add(time.Hour), Reason: "no"}); kindOf(err) != int(Forbidden) {
		t.Error(err)
	}
	for _, o := range []Override{
		{Domain: "shop", Until: now.Add(time.Hour), Reason: "an incident"},
		{Domain: "shop", Rule: "user", Percent: 50, Until: now.Add(time.Minute), Reason: "too much"},
	} {
		if err := s.Override(ctx, as("bob", Publish, "shop"), o); err != nil {
			t.Fatal(err)
		}
	}
	d := file(t, s)
	const tight = "domain: shop\ndescriptors:\n  # users\n  - key: user\n    limits: [5/s burst 10, {name: day, limit: 500/day fixed-window}] # both\n    descriptors:\n    - key: path\n      rate_limit: {unit: minute, requests_per_unit: 1}\n  - key: other\n    limits: [1/s]\n    shadow_mode: true\n"
	if got, until, err := d.InForce(now); err != nil || cmp.Diff(tight, got) != "" || until.Sub(now).Round(time.Second) != time.Minute {
		t.Error(err, until, cmp.Diff(tight, got))
	}
	for _, at := range []time.Duration{2 * time.Hour, time.Hour} {
		if got, until, err := d.InForce(now.Add(at)); err != nil || got != d.File || !until.IsZero() {
			t.Errorf("after %s: %v %v %q", at, err, until, got)
		}
	}
	if err := s.Override(ctx, root(), Override{Domain: "shop", Rule: "user", Reason: "it is over"}); err != nil {
		t.Error(err)
	}
	if err := s.Override(ctx, root(), Override{Domain: "shop", Until: now.Add(8 * 24 * time.Hour), Reason: "for ever"}); kindOf(err) != int(Invalid) {
		t.Error(err)
	}
}

// TestOverridden: what can't be found in a text is refused, and never left as
// it was.
func TestOverridden(t *testing.T) {
	for text, want := range map[string]string{
		rule("a", "3/s"):                     "- key: a\n  limits: [1/s]\n",
		rule("a", "1/s"):                     "- key: a\n  limits: [1/s]\n",
		rule("a", "0/s"):                     "- key: a\n  limits: [0/s]\n",
		rule("a", "5 concurrent"):            "- key: a\n  limits: [2 concurrent]\n",
		rule("a", "10/s burst 20 initial 4"): "- key: a\n  limits: [5/s burst 10 initial 2]\n",
		"- key: a\n  limits: &x [4/s]\n  descriptors:\n    - key: b\n      limits: *x\n": "- key: a\n  limits: &x [2/s]\n  descriptors:\n  - key: b\n    limits: *x\n",
		"- key: a\n  metadata: {x: &x 4/s}\n  limits: [*x]\n":                            "error: percent: the limits can't all be found",
	} {
		got, err := overridden(text, 50)
		if err != nil {
			got = fmt.Sprint("error: ", err)
		}
		if len(got) > len(want) && want[0] == 'e' {
			got = got[:len(want)]
		}
		if got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
