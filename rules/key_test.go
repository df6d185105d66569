package rules

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

const manyKinds = `
domain: d
descriptors:
  - {key: user, limits: [1/s]}
  - {key: user, value: root, limits: [1/s]}
  - {key: x-*, value: b*, limits: [1/s]}
  - {key: path, value: /*, share_threshold: true, limits: [1/s], descriptors: [{key: user, limits: [1/s]}]}
  - {key: path, limits: [1/s], descriptors: [{key: user, limits: [1/s]}]}
  - {key: path, value: /in, descriptors: [{key: method, value: GET, limits: [1/s]}]}
`

func TestKeyName(t *testing.T) {
	set, err := Parse("test.yaml", []byte(manyKinds))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		entries []Entry
		want    string
	}{
		{[]Entry{{"user", "ann"}}, "ann"},
		{[]Entry{{"user", "ann of \"d\""}}, `ann of "d"`},
		{[]Entry{{"user", ""}}, ""},
		{[]Entry{{"user", "root"}}, "root"},
		{[]Entry{{"x-team", "blue"}}, "x-team blue"},
		{[]Entry{{"path", "/a"}}, "/*"},
		{[]Entry{{"path", "/a"}, {"user", "ann"}}, "ann"},
		{[]Entry{{"path", "a"}, {"user", "ann"}}, "a ann"},
		{[]Entry{{"path", "a b"}, {"user", ""}}, `"a b" ""`},
		{[]Entry{{"path", "/in"}, {"method", "GET"}}, "/in GET"},
	} {
		rules, _ := set.Match("d", &Descriptor{Entries: c.entries})
		if got := string(rules[0].AppendKeyName([]byte("x"), c.entries)); got != "x"+c.want {
			t.Errorf("name of %v: %q, want %q", c.entries, got[1:], c.want)
		}
	}
	override := &Descriptor{Entries: []Entry{{"user", "ann"}}, Override: weir.MustParseLimit("1/s")}
	rules, _ := set.Match("d", override)
	if got := string(rules[0].AppendKeyName(nil, override.Entries)); got != "user ann" {
		t.Errorf("name of an override: %q", got)
	}
}

// TestKeyText: the words of a key are those of its name, where the rule leaves any open and
// they fit into a key.
func TestKeyText(t *testing.T) {
	set, err := Parse("test.yaml", []byte(manyKinds))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("u", maxKey)
	for _, c := range []struct {
		entries []Entry
		want    string
	}{
		{[]Entry{{"user", "ann"}}, "ann"},
		{[]Entry{{"user", "\xffann"}}, "\xffann"},
		{[]Entry{{"user", long}}, long},
		{[]Entry{{"user", long + "u"}}, "sha256:092a09ba5ae43120401c3a758e632630659f16eaa9b42be28f3e6a525d5c4368"},
		{[]Entry{{"user", "root"}}, ""},
		{[]Entry{{"x-team", "blue"}}, "x-team blue"},
		{[]Entry{{"path", "/a"}, {"user", "ann"}}, "ann"},
		{[]Entry{{"path", "a b"}, {"user", ""}}, `"a b" ""`},
	} {
		rules, key := set.Match("d", &Descriptor{Entries: c.entries})
		if got := rules[0].KeyText(key); got != c.want {
			t.Errorf("the key of %v: %q, want %q", c.entries, got, c.want)
		}
	}
	override := &Descriptor{Entries: []Entry{{"user", "ann"}}, Override: weir.MustParseLimit("1/s")}
	rules, key := set.Match("d", override)
	if got := rules[0].KeyText(key); got != "user ann" {
		t.Errorf("the key of an override: %q", got)
	}
	if got := rules[0].KeyText("\x7f"); got != "\x7f" {
		t.Errorf("what is no key: %q", got)
	}
}

// TestKeyNames: two requests of a rule have one name if, and only if, they have
// one key.
func TestKeyNames(t *testing.T) {
	set, err := Parse("test.yaml", []byte(manyKinds))
	if err != nil {
		t.Fatal(err)
	}
	word := rapid.SampledFrom([]string{"", "a", "a b", "b", "/", "/in", "GET", "root", "\"", "a\" \"b", strings.Repeat("x", 99)})
	key := rapid.SampledFrom([]string{"user", "path", "x-", "x-a", "x-a b", "method"})
	descriptor := rapid.Custom(func(t *rapid.T) *Descriptor {
		var d Descriptor
		for range rapid.IntRange(1, 2).Draw(t, "entries") {
			d.Entries = append(d.Entries, Entry{key.Draw(t, "key"), word.Draw(t, "value")})
		}
		return &d
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := descriptor.Draw(t, "a"), descriptor.Draw(t, "b")
		rulesA, keyA := set.Match("d", a)
		rulesB, keyB := set.Match("d", b)
		if len(rulesA) == 0 || len(rulesB) == 0 || rulesA[0] != rulesB[0] {
			return
		}
		nameA, nameB := rulesA[0].AppendKeyName(nil, a.Entries), rulesB[0].AppendKeyName(nil, b.Entries)
		if (keyA == keyB) != (string(nameA) == string(nameB)) {
			t.Fatalf("keys %q and %q, names %q and %q", keyA, keyB, nameA, nameB)
		}
	})
}
