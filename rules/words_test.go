package rules

import (
	"slices"
	"testing"
)

func TestWords(t *testing.T) {
	set, err := Parse("test.yaml", []byte(`
domain: d
descriptors:
  - {key: user, limits: [1/s]}
  - {key: user, value: root, limits: [1/s]}
  - {key: x-*, value: b*, limits: [1/s]}
  - {key: path, value: /*, share_threshold: true, limits: [1/s], descriptors: [{key: user, limits: [1/s]}]}
  - {key: path, descriptors: [{key: user, limits: [1/s]}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		entries []Entry
		want    []string
	}{
		{[]Entry{{"user", "ann"}}, []string{"ann"}},
		{[]Entry{{"user", "root"}}, nil},
		{[]Entry{{"x-team", "blue"}}, []string{"x-team", "blue"}},
		{[]Entry{{"x-team", "red"}}, nil},
		{[]Entry{{"path", "/a"}}, nil},
		{[]Entry{{"path", "/a"}, {"user", "ann"}}, []string{"ann"}},
		{[]Entry{{"path", "a"}, {"user", "ann"}}, []string{"a", "ann"}},
		{[]Entry{{"path", "a"}, {"user", "ann"}, {"more", "x"}}, nil},
	} {
		d := &Descriptor{Entries: c.entries}
		got := set.Words("d", d)
		if !slices.Equal(got, c.want) {
			t.Errorf("Words(%v) = %q, want %q", c.entries, got, c.want)
		}
		if _, key := set.Match("d", d); len(got) == 1 && key != got[0] || len(got) == 0 && key != "" {
			t.Errorf("%v has the words %q, and the key %q", c.entries, got, key)
		}
	}
	override := &Descriptor{Entries: []Entry{{"user", "ann"}}, Override: set.Rules()[0].Limit}
	if got, want := set.Words("d", override), []string{"user", "ann"}; !slices.Equal(got, want) {
		t.Errorf("words of an override: %q, want %q", got, want)
	}
	if got := set.Words("other", &Descriptor{Entries: []Entry{{"user", "ann"}}}); got != nil {
		t.Errorf("words of an unknown domain: %q", got)
	}
}
