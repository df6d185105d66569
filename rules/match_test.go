package rules_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// descriptor makes one of cost 1 of key=value words.
func descriptor(words ...string) rules.Descriptor {
	d := rules.Descriptor{Cost: 1}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		d.Entries = append(d.Entries, rules.Entry{Key: key, Value: value})
	}
	return d
}

// match is the names of the rules that a descriptor meets.
func match(set *rules.Set, words ...string) string {
	d := descriptor(words...)
	met, _ := set.Match("shop", &d)
	var names []string
	for _, r := range met {
		names = append(names, strings.TrimPrefix(r.Name, "shop/"))
	}
	return strings.Join(names, " ")
}

func TestMatch(t *testing.T) {
	set := parse(t, `
domain: shop
descriptors:
- {key: path, value: /a*, limits: [1/s]}
- {key: path, value: "*z", limits: [1/s]}
- {key: path, value: /a/exact, limits: [1/s]}
- {key: path, value: /b*c*d, limits: [1/s]}
- {key: path, limits: [1/s, 10/min]}
- {key: path, value: /none}
- key: user
  limits: [1/s]
  descriptors:
  - {key: path, limits: [1/s]}
- key: user
  value: ann
  descriptors:
  - {key: method, limits: [1/s]}
- {key: "h-*", limits: [1/s]}
- {key: h-exact, limits: [1/s]}
- {key: "h-*", value: "v*", limits: [1/s]}
- {key: star, value: "*", limits: [1/s]}
- {key: star, value: "b*", limits: [1/s]}
- {key: overlap, value: "xyx*xyx", limits: [1/s]}
`)
	for _, c := range []struct{ words, want string }{
		{"path=/a/exact", "path=/a/exact"}, // exact before patterns
		{"path=/a/other", "path=/a*"},
		{"path=/abz", "path=/a*"}, // patterns in the order of the file
		{"path=/xz", "path=*z"},
		{"path=z", "path=*z"}, // * is also nothing
		{"path=/bcd", "path=/b*c*d"},
		{"path=/b1c2c3d", "path=/b*c*d"},
		{"path=/bd", "path#1 path#2"}, // then the key alone
		{"path=/bdc", "path#1 path#2"},
		{"path=", "path#1 path#2"},
		{"path=/none", ""}, // a place without a limit hides the key alone
		{"path=/a/exact x=y", ""},
		{"path", "path#1 path#2"},
		{"nothing=x", ""},
		{"user=bob", "user"},
		{"user=bob path=/", "user/path"},
		{"user=bob path=/ x=y", ""}, // deeper than the rules
		{"user=ann", ""},            // not as deep as the limit
		{"user=ann method=GET", "user=ann/method"},
		{"user=ann path=/", ""}, // no way back to user
		{"h-x=1", "h-*"},
		{"h-exact=1", "h-*"}, // a pattern comes before a key alone
		{"h-x=v1", "h-*"},
		{"h-*=1", "h-*"},
		{"star=", "star=*"},
		{"star=bc", "star=*"},
		{"star=b*", "star=b*"}, // a pattern is also a text, to be met exactly
		{"overlap=xyx", ""},
		{"overlap=xyxyx", ""},
		{"overlap=xyxxyx", "overlap=xyx*xyx"},
	} {
		if got := match(set, strings.Fields(c.words)...); got != c.want {
			t.Errorf("%s meets %q, want %q", c.words, got, c.want)
		}
	}
	d := descriptor("path=x")
	if met, key := set.Match("store", &d); met != nil || key != "" {
		t.Errorf("a domain that is not there: %v, %q", met, key)
	}
	if met, _ := set.Match("shop", &rules.Descriptor{}); met != nil {
		t.Errorf("no entries: %v", met)
	}
	deep := descriptor(strings.Fields(strings.Repeat("user=x ", 17))...)
	if met, _ := set.Match("shop", &deep); met != nil {
		t.Errorf("17 entries: %v", met)
	}
}

// Where Envoy's service joins key and value by _, and so mixes them up, nothing
// is mixed up here.
// TestMatchExact: with match: exact a * of a key and of a value is a *, as in names of a control plane.
func TestMatchExact(t *testing.T) {
	set := parse(t, `
domain: shop
descriptors:
- key: route/*
  value: route/*
  match: exact
  descriptors:
  - {key: user, limits: [1/s]}
- {key: "tag*", match: exact, limits: [1/s]}
`)
	for words, want := range map[string]string{
		"route/*=route/* user=ann": "route/*=route/*/user",
		"route/a=route/a user=ann": "",
		"route/*=route/a user=ann": "",
		"tag*=x":                   "tag*",
		"tags=x":                   "",
	} {
		if got := match(set, strings.Fields(words)...); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	user := set.Rules()[0]
	if got := user.Example(); !slices.Equal(got, descriptor("route/*=route/*", "user=alice").Entries) {
		t.Error("an example:", got)
	}
	if got, ok := set.Entries(user, "ann"); !ok || !slices.Equal(got, descriptor("route/*=route/*", "user=ann").Entries) {
		t.Error("the entries of a client:", got, ok)
	}
	pattern := strings.Replace("domain: shop\ndescriptors: [{key: a, value: b*, limits: [1/s], MATCH}]", "MATCH", "owner: o", 1)
	exact := strings.Replace(pattern, "owner: o", "match: exact", 1)
	if e := (rules.Entry{Key: "a", Value: "b*"}); parse(t, pattern).Item("shop", e).Same(parse(t, exact).Item("shop", e)) {
		t.Error("a pattern is the same as an exact value")
	}
}

func TestKeysAreNotJoined(t *testing.T) {
	set := parse(t, `
domain: shop
descriptors:
- {key: a_b, limits: [1/s]}
- {key: a, value: b_c, limits: [2/s]}
- {key: a_b, value: c, limits: [3/s]}
- key: c1
  descriptors: [{key: c2, limits: [4/s]}]
`)
	for words, want := range map[string]string{
		"a_b=x": "a_b", "a=b_c": "a=b_c", "a_b=c": "a_b=c", "a=b": "", "a=b_x": "",
	} {
		if got := match(set, words); got != want {
			t.Errorf("%s meets %q, want %q", words, got, want)
		}
	}
	one, two := descriptor("c1=x", "c2=c2_U"), descriptor("c1=x_c2", "c2=U")
	_, first := set.Match("shop", &one)
	_, second := set.Match("shop", &two)
	if first == second {
		t.Errorf("(x, c2_U) and (x_c2, U) have one count: %q", first)
	}
}

// Descriptors beside each other do not share memory of their paths.
func TestPaths(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors: [")
	for range 6 {
		text.WriteString("{key: a, limits: [1/s], descriptors: [{key: b, limits: [1/s]}, {key: c, limits: [1/s]}, ")
	}
	text.WriteString(strings.Repeat("]}", 6) + "]")
	for _, r := range parse(t, text.String()).Rules() {
		var name strings.Builder
		name.WriteString("shop")
		for _, e := range r.Path {
			name.WriteString("/" + e.Key)
		}
		if r.Name != name.String() {
			t.Errorf("%s has the path %v", r.Name, r.Path)
		}
	}
}

// State follows the place and the limit's name or algorithm, never its numbers
// or its name for people.
func TestStateFollowsPlace(t *testing.T) {
	states := func(text string) []string {
		var s []string
		for _, r := range parse(t, text).Rules() {
			s = append(s, r.State("k").Rule)
		}
		return s
	}
	before := states(`
domain: shop
descriptors:
- key: a
  limits: [10/s, 100/min, 5/s fixed-window, {name: slow, limit: 9/h}]
- {key: b, rate_limit: {unit: day, requests_per_unit: 5, name: x}}
`)
	after := states(`
domain: shop
descriptors:
- key: a
  name: renamed
  shadow_mode: true
  limits: [20/s burst 5, 7/min token-bucket, 50/day fixed-window, {name: slow, limit: 10 concurrent}]
- {key: b, limits: [5/min fixed-window]}
`)
	if d := cmp.Diff(before, after); d != "" {
		t.Error("states were lost (-before +after):\n" + d)
	}
	others := states(`
domain: shop
descriptors:
- key: a
  limits: [10/s sliding-log, {name: gcra, limit: 10/s}, {name: gcra/2, limit: 100/min}]
- {key: b, value: "", limits: [5/min]}
- {key: "b#fixed-window", limits: [5/min]}
- {key: b/x, limits: [5/min]}
- {key: b=x, limits: [5/min]}
- {key: b%3Dx, limits: [5/min]}
- {key: b, value: x, limits: [5/min]}
- {key: b, value: "*", limits: [5/min]}
- {key: b*, limits: [5/min]}
- {key: c, descriptors: [{key: x, limits: [5/min]}]}
- {key: c/x, limits: [5/min]}
`)
	all := map[string]bool{}
	for _, s := range slices.Concat(before, others) {
		all[s] = true
	}
	if want := len(before) + len(others); len(all) != want {
		t.Errorf("%d states, want %d: %q", len(all), want, slices.Sorted(maps.Keys(all)))
	}
	if a, b := states("domain: a/b\ndescriptors: [{key: c, limits: [1/s]}]"), states("domain: a\ndescriptors: [{key: b, descriptors: [{key: c, limits: [1/s]}]}]"); a[0] == b[0] {
		t.Errorf("two domains have one state: %q", a[0])
	}
}

func TestOverride(t *testing.T) {
	set := parse(t, "domain: sh/op\ndescriptors: [{key: a, shadow_mode: true, limits: [1/s]}]")
	met := func(domain, limit string, words ...string) (*rules.Rule, weir.StateKey) {
		d := descriptor(words...)
		d.Override = weir.MustParseLimit(limit)
		list, key := set.Match(domain, &d)
		if len(list) != 1 {
			return nil, weir.StateKey{}
		}
		return list[0], list[0].State(key)
	}
	if r, _ := met("shop", "5/min", "a=x"); r != nil {
		t.Errorf("the domain is not there, but %v is", r)
	}
	r, state := met("sh/op", "5/min fixed-window", "a=x")
	if r.Name != "sh/op#override" || r.Domain != "sh/op" || !r.Override || !r.Envoy || r.Shadow || r.Limit.String() != "5/min fixed-window" {
		t.Errorf("%+v", r)
	}
	if _, same := met("sh/op", "5/60s fixed-window", "a=x"); same != state {
		t.Errorf("for the same limit the state is %q, was %q", same, state)
	}
	for _, other := range [][]string{
		{"5/h fixed-window", "a=x"},
		{"7/min fixed-window", "a=x"},
		{"5/min", "a=x"},
		{"5/min fixed-window", "a=y"},
		{"5/min fixed-window", "b=x"},
		{"5/min fixed-window", "a=", "x="},
		{"5/min fixed-window", "a=x", "a=x"},
	} {
		if _, got := met("sh/op", other[0], other[1:]...); got == state {
			t.Errorf("%v has the state of another", other)
		}
	}
	if plain := set.Rules()[0].State("x"); plain == state {
		t.Error("an override has the state of the rule")
	}
}
