package rules_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// The tests of this file quote docs/contract.md, §2 where nothing else is said.
// Its lines on folders and on reloads are tested in load_test.go.

// "its windows: UTC epoch, month 30 d, year 365 d", and §1: "Envoy's day, week,
// month, year print as 24h 168h 720h 8760h fixed-window".
func TestEnvoyWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01 00:00 UTC, a Saturday
		const day = 24 * time.Hour
		for unit, want := range map[string]struct {
			text string
			left time.Duration // of the window
		}{
			"second": {"1/s fixed-window", time.Second},
			"MINUTE": {"1/min fixed-window", time.Minute},
			"Hour":   {"1/h fixed-window", time.Hour},
			"day":    {"1/24h fixed-window", day},
			"weeK":   {"1/168h fixed-window", 5 * day}, // weeks begin on Thursday
			"month":  {"1/720h fixed-window", (30 - 10957%30) * day},
			"year":   {"1/8760h fixed-window", (365 - 10957%365) * day},
		} {
			l := newLimiter(t, "domain: shop\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 1, unit: "+unit+"}}]")
			rule := l.Set().Rules()[0]
			if got := rule.Limit.String(); got != want.text || !rule.Envoy {
				t.Errorf("%s is %q, want %q", unit, got, want.text)
			}
			check(t, l, ask(descriptor("a=x")))
			if retry, ok := check(t, l, ask(descriptor("a=x"))).RetryAfter(); !ok || retry != want.left {
				t.Errorf("%s: retry after %v, want %v", unit, retry, want.left)
			}
		}
	})
}

// "every file that envoyproxy/ratelimit accepts means the same here".
func TestEnvoyForm(t *testing.T) {
	set := parse(t, `
domain: shop
descriptors:
- key: a
  value: v*
  shadow_mode: true
  quota_mode: y
  detailed_metric: On
  value_to_metric: TRUE
  share_threshold: yes
  metadata: {a: 1, 2: [x, null, 1.5, false, "true"], b: {c: {}}, d: yes}
  rate_limit: {unit: Day, requests_per_unit: 010, name: limit, replaces: [{name: other}, {name: more}]}
- key: b
  rate_limit: {unlimited: true, requests_per_unit: 5, name: other}
- key: c
  shadow_mode: off
  rate_limit: {unit: second, requests_per_unit: 0x_ff, name: more}
`)
	a, b, c := set.Rules()[0], set.Rules()[1], set.Rules()[2]
	if a.Limit.String() != "8/24h fixed-window" || c.Limit.String() != "255/s fixed-window" || c.Shadow {
		t.Errorf("numbers and flags are not those of YAML 1.1: %v, %v, %v", a.Limit, c.Limit, c.Shadow)
	}
	if !a.Shadow || !a.QuotaMode || !a.DetailedMetric || !a.ValueToMetric || !a.ShareThreshold || !a.Envoy || a.EnvoyName != "limit" {
		t.Errorf("%+v", a)
	}
	if d := cmp.Diff([]string{"other", "more"}, a.Replaces); d != "" {
		t.Error(d)
	}
	metadata := map[string]any{
		"a": int64(1), "2": []any{"x", nil, 1.5, false, "true"}, "b": map[string]any{"c": map[string]any{}}, "d": true,
	}
	if d := cmp.Diff(metadata, a.Metadata); d != "" {
		t.Error(d)
	}
	if !b.Unlimited || b.Limit != nil || b.EnvoyName != "other" {
		t.Errorf("%+v", b)
	}
}

// services.md §4: "Errors that reject the whole load: empty domain, empty key,
// duplicate key(+value) on one level, bad unit, unit together with unlimited,
// self or empty replaces, duplicate domain …, share_threshold without *"; the
// duplicate domain is tested in load_test.go.
func TestEnvoyErrors(t *testing.T) {
	limit := func(in string) string { return "domain: d\ndescriptors: [{key: a, rate_limit: {" + in + "}}]" }
	for _, text := range []string{
		"descriptors: []",
		"domain: ''",
		"domain:",
		"domain: d\ndescriptors: [{value: a}]",
		"domain: d\ndescriptors: [{key: ''}]",
		"domain: d\ndescriptors: [{key: a, value: b}, {key: a, value: b}]",
		"domain: d\ndescriptors: [{key: a}, {key: a, value: ''}]",
		"domain: d\ndescriptors: [{key: a, descriptors: [{key: b}, {key: b}]}]",
		limit("unit: fortnight, requests_per_unit: 1"),
		limit("unit: seconds, requests_per_unit: 1"),
		limit("unit: unknown, requests_per_unit: 1"),
		limit("unit: '', requests_per_unit: 1"),
		limit("requests_per_unit: 1"),
		limit(""),
		limit("unit: day, unlimited: true"),
		limit("unit: day, requests_per_unit: 1, name: x, replaces: [{name: x}]"),
		limit("unit: day, requests_per_unit: 1, name: x, replaces: [{name: ''}]"),
		limit("unit: day, requests_per_unit: 1, name: x, replaces: [{}]"),
		limit("unit: day, requests_per_unit: 4294967296"),
		limit("unit: day, requests_per_unit: -1"),
		"domain: d\ndescriptors: [{key: a, value: b, share_threshold: true}]",
		"domain: d\ndescriptors: [{key: a, share_threshold: true}]",
		"domain: d\ndescriptors: [{key: a, ratelimit: {}}]",
		"domain: d\ndescriptors: [{key: a, descriptors: [{key: b, valu: c}]}]",
		"domain: d\ndescriptors: [a]",
		"domain: d\ndescriptors: [[]]",
		"0.25: d",
		"'''",
	} {
		if set, err := rules.Parse("f", []byte(text)); err == nil {
			t.Errorf("accepted: %s\n%+v", text, set.Rules())
		}
	}
}

// "More keys of a descriptor: …".
func TestMoreKeys(t *testing.T) {
	set := parse(t, `
domain: shop
descriptors:
- key: a
  limits: [10/s burst 20, {name: daily, limit: 1000/day}]
  name: per a
  owner: team
  fallback: open
  charge: after
  sync: 250ms
  sharing: divided
  partition: reserve
  nodes: 3
- {key: b, limits: [1/s], charge: before, sync: 2h}
`)
	type kept struct {
		Name, Limit, Owner string
		Fallback           weir.Fallback
		After, Envoy       bool
		Sync               time.Duration
		Sharing            weir.Sharing
		Partition          weir.Partition
		Nodes, Line        int
		Path               []rules.Entry
	}
	var got []kept
	for _, r := range set.Rules() {
		got = append(got, kept{
			r.Name, r.Limit.String(), r.Owner, r.Fallback, r.After, r.Envoy,
			r.Sync, r.Sharing, r.Partition, r.Nodes, r.Line, r.Path,
		})
	}
	path := []rules.Entry{{Key: "a"}}
	want := []kept{
		{"per%20a#1", "10/s burst 20", "team", "open", true, false, 250 * time.Millisecond, "divided", "reserve", 3, 4, path},
		{"per%20a#daily", "1000/day", "team", "open", true, false, 250 * time.Millisecond, "divided", "reserve", 3, 4, path},
		{"shop/b", "1/s", "", "local", false, false, 2 * time.Hour, "", "", 0, 14, []rules.Entry{{Key: "b"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for key, values := range map[string]string{
		"fallback":  "local open closed",
		"charge":    "before after",
		"sharing":   "lease leader mesh gossip hub divided sticky",
		"partition": "proportional closed reserve share open",
		"sync":      "1us 10ms 1s 5min 24h",
		"lease":     "1us 10ms 1s 5min 24h",
		"nodes":     "1 65536",
	} {
		for value := range strings.FieldsSeq(values) {
			parse(t, "domain: d\ndescriptors: [{key: a, limits: [1/s], "+key+": "+value+"}]")
		}
		for _, value := range []string{"other", "''", "-1", "0", "1", "1.5", "[]", "25h", "0s", "5m"} {
			if key == "nodes" && value == "1" {
				continue
			}
			if key != "sync" && key != "lease" && key != "nodes" && value == "''" {
				continue // nothing is the default
			}
			if _, err := rules.Parse("f", []byte("domain: d\ndescriptors: [{key: a, limits: [1/s], "+key+": "+value+"}]")); err == nil {
				t.Errorf("accepted %s: %s", key, value)
			}
		}
	}
}

// "charge: after: a take is a report of work already done: always charged
// (buckets down to −debt, windows past the count); the answer says only whether
// a next event would pass".
func TestChargeAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "domain: shop\ndescriptors: [{key: a, charge: after, limits: [10/min debt 5, 10/min fixed-window]}]")
		if got, want := brief(check(t, l, ask(costs(descriptor("a=x"), 9)))), "true 0 | 0 shop/a#1 allowed 9+ 1 | 0 shop/a#2 allowed 9+ 1"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		a := check(t, l, ask(costs(descriptor("a=x"), 100)))
		if a.Allowed || !a.Decisions[0].Charged || !a.Decisions[1].Charged {
			t.Errorf("%s", brief(a))
		}
		// 5 below nothing, at one each 6 s: the sixth from now is whole.
		if retry := a.Decisions[0].RetryAfter; retry != 36*time.Second {
			t.Errorf("retry after %v, want 36s", retry)
		}
	})
}

// "Rule name: `name`, else domain/key[=value]/…, with #name when its limit has a
// name, else #i (from 1) when a descriptor has several limits; bytes outside [A-Za-z0-9._~*/=-] as %XX".
func TestRuleNames(t *testing.T) {
	set := parse(t, `
domain: a shop/é
descriptors:
- {key: k, limits: [1/s]}
- {key: k, value: "v*~._-#%=/", limits: [1/s]}
- {key: several, limits: [1/s, 2/min]}
- {key: one, limits: [{name: x, limit: 1/s}]}
- {key: named, name: Per key, limits: [1/s, 2/min]}
- {key: both, limits: [1/s, {name: "a day/", limit: 2/day}, 3/min]}
- key: deep
  value: x
  descriptors:
  - {key: er, rate_limit: {unit: day, requests_per_unit: 1, name: not this}}
- {key: bytes, value: !!binary /w==, rate_limit: {unlimited: true}}
`)
	want := []string{
		"a%20shop/%C3%A9/k",
		"a%20shop/%C3%A9/k=v*~._-%23%25=/",
		"a%20shop/%C3%A9/several#1", "a%20shop/%C3%A9/several#2",
		"a%20shop/%C3%A9/one#x",
		"Per%20key#1", "Per%20key#2",
		"a%20shop/%C3%A9/both#1", "a%20shop/%C3%A9/both#a%20day/", "a%20shop/%C3%A9/both#3",
		"a%20shop/%C3%A9/deep=x/er",
		"a%20shop/%C3%A9/bytes=%FF",
	}
	var got []string
	for _, r := range set.Rules() {
		got = append(got, r.Name)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// "rate_limit.name is Envoy's …; it may repeat".
func TestEnvoyNamesRepeat(t *testing.T) {
	set := parse(t, `
domain: shop
descriptors:
- {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: same}}
- {key: b, rate_limit: {unit: day, requests_per_unit: 1, name: same}}
`)
	if w := set.Warnings(); len(w) != 0 {
		t.Error(w)
	}
}

// "Errors (rejected whole, old rules stay): syntax, unknown key, impossible
// option, duplicate. Warnings: never matches, never passes, hidden by another.
// Each as FILE:LINE:COLUMN: severity: text (rule NAME)".
func TestFindingForm(t *testing.T) {
	const head = "domain: d\ndescriptors:\n"
	for _, c := range []struct{ text, want string }{
		{"domain: a: b", `f:1:10: error: YAML: .+`},
		{"domain: d\nx: y", `f:2:1: error: unknown key "x" in a rule file; .+`},
		{head + "- {key: a, limits: [1 concurrent], charge: after}", `f:3:44: error: charge: after is impossible for concurrent.* \(rule d/a\)`},
		{head + "- {key: a, limits: [1/s], rate_limit: {unit: day}}", `f:3:12: error: limits and rate_limit exclude each other.* \(rule d/a\)`},
		{head + "- {key: a, limits: [1/s, 1/s]}", `f:3:26: error: duplicate limit.* \(rule d/a#2\)`},
		{head + "- {key: a}\n- {key: a}", `f:4:3: error: duplicate descriptor.* \(rule d/a\)`},
		{head + "- {key: a, key: b}", `f:3:12: error: duplicate key "key".*`},
		{head + "- {key: a, limit: [1/s]}", `f:3:12: error: unknown key "limit" in a descriptor; did you mean limits\? \(rule d/a\)`},
		{head + "- {key: a, limits: [0/s]}", `f:3:21: warning: never passes.* \(rule d/a\)`},
		{head + "- {key: " + strings.Repeat("a", 4097) + "}", `f:3:3: warning: never matches.* \(rule d/a+\)`},
		{head + "- {key: a, value: '*'}\n- {key: a}", `f:4:3: warning: never matches: hidden by .* \(rule d/a\)`},
		{head + "- {key: a, value: 'x*'}\n- {key: a, value: 'xy*'}", `f:4:3: warning: never matches: hidden by .* \(rule d/a=xy\*\)`},
		{head + "- {key: a, value: 'xy*'}\n- {key: a, value: 'x*'}\n- {key: a, value: xyz}\n- {key: a}", ``},
	} {
		var got []string
		for _, f := range find("f", []byte(c.text)) {
			got = append(got, f.String())
		}
		if all := strings.Join(got, "\n"); !regexp.MustCompile(`\A` + c.want + `\z`).MatchString(all) {
			t.Errorf("%s\n got %s\nwant %s", c.text, all, c.want)
		}
	}
}

// Demo is what §5 says of the demo rules.
func TestDemo(t *testing.T) {
	set := rules.Demo()
	if w := set.Warnings(); len(w) > 0 {
		t.Error(w)
	}
	if err := set.Complete(); err != nil {
		t.Error(err)
	}
	got := map[string]string{}
	for _, r := range set.Rules() {
		got[r.Name] = r.Limit.String()
	}
	want := map[string]string{"demo/client_id": "5/s burst 10", "demo/remote_address": "100/min sliding-window 6"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// What a Set gives away can't change it.
func TestSetIsClosed(t *testing.T) {
	set := parse(t, "domain: shop\ndescriptors: [{key: a, limits: [0/s]}]")
	set.Rules()[0] = nil
	set.Domains()[0] = ""
	set.Warnings()[0].Text = ""
	if set.Rules()[0] == nil || set.Domains()[0] == "" || set.Warnings()[0].Text == "" {
		t.Error("the set was changed")
	}
	if errors.Is(set.Complete(), rules.ErrNoRules) {
		t.Error("complete")
	}
	l := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	if a := check(t, l, ask(descriptor("a=x"))); a.Decisions[0].Outcome != weir.Impossible || len(a.ID()) != 16 {
		t.Errorf("%+v", a)
	}
}
