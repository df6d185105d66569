package rules

import (
	"testing"

	"pgregory.net/rapid"
)

// TestEntries: from the name of a client comes a request that meets the same counts, whatever bytes the client sends, for each kind of
// descriptor.
func TestEntries(t *testing.T) {
	set, err := Parse("shop.yaml", []byte(`domain: shop
descriptors:
  - {key: user, limits: [5/s, 9/h]}
  - {key: user, value: ann, limits: [1/s]}
  - key: path
    value: /api/*
    descriptors: [{key: user, limits: [5/s]}, {key: user, value: "a*", descriptors: [{key: ip, limits: [2/s]}]}]
  - {key: "tenant-*", limits: [5/s]}
  - {key: "x-*", value: "*-y", descriptors: [{key: user, limits: [1/s]}]}
  - {key: file, value: "*.png", rate_limit: {unit: second, requests_per_unit: 5}, share_threshold: true}
  - key: a
    descriptors: [{key: b, descriptors: [{key: c, limits: [1/s]}]}]
  - {key: off, unlimited: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"", "ann", " ", `"`, `" "`, "a b", `\`, "\n", "\x00", "\xff\xfe", "\u202e", "a", "a-y", "=", `"ann"`, "…"}),
		rapid.StringN(0, 8, 20),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
	)
	ways := [][]string{
		{"user"}, {"user=ann"}, {"path=/api/", "user"}, {"path=/api/", "user=a", "ip"}, {"tenant-"}, {"x-"}, {"x-=-y", "user"}, {"file="}, {"a", "b", "c"}, {"off"},
	}
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		var sent []Entry
		for _, step := range rapid.SampledFrom(ways).Draw(t, "way") {
			e := Entry{Key: step, Value: word.Draw(t, "value")}
			for i := range step {
				if step[i] == '=' {
					e.Key, e.Value = step[:i], step[i+1:]+e.Value
					break
				}
			}
			if e.Key[len(e.Key)-1] == '-' {
				e.Key += word.Draw(t, "key")
			}
			if e.Key == "file" {
				e.Value += ".png"
			}
			sent = append(sent, e)
		}
		found, key := set.Match("shop", &Descriptor{Entries: sent})
		for _, r := range found {
			met[r.Name]++
			name := string(r.AppendKeyName(nil, sent))
			entries, ok := set.Entries(r, name)
			if !ok {
				t.Fatalf("%q meets %s as %q, which leads back to nothing", sent, r.Name, name)
			}
			if again, k := set.Match("shop", &Descriptor{Entries: entries}); k != key || again[0] != found[0] {
				t.Fatalf("%q meets %s, and %q of its name %q another count", sent, r.Name, entries, name)
			}
		}
	})
	for _, r := range set.Rules() {
		if met[r.Name] == 0 {
			t.Errorf("no request met %s", r.Name)
		}
	}
	for _, r := range set.Rules() {
		for _, name := range []string{`"`, `"a`, `"a"b`, "a  b c d", "/no/api ann", "\"\\q\" b"} {
			if entries, ok := set.Entries(r, name); ok && string(r.AppendKeyName(nil, entries)) != name {
				t.Errorf("%q of %s leads to %q", name, r.Name, entries)
			}
		}
	}
	if _, ok := set.Entries(overrideRule("shop", &Descriptor{Override: set.Rules()[0].Limit, Entries: []Entry{{"user", "ann"}}}), "user ann"); ok {
		t.Error("a request that brings its limit is taken for one that does not")
	}
}
