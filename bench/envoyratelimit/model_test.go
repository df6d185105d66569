package main

import (
	"fmt"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"a*", "a", true},
		{"a*b", "ab", true},
		{"a*b", "axxb", true},
		{"a*b", "abx", false},
		{"a*b*c", "abbc", true},
		{"a*b*c", "ac", false},
		{"**", "x", true},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

// TestModels tells the story of one limit of 3: what each server answers, and
// why they differ.
func TestModels(t *testing.T) {
	f := &ruleFile{domain: "d", level: []*descriptor{
		{key: "k", limit: &rateLimit{unit: "day", count: 3}},
		{key: "a_b", value: "c", limit: &rateLimit{unit: "day", count: 3}},
	}}
	p := newPair(f)
	const half = 12 * 60 * 60 // of a day
	for i, c := range []struct{ request, peer, ours, why string }{
		{`{"entries": [{"key": "k", "value": "v"}]}`, "OK 2 43200", "OK 2 43200", ""},
		{`{"entries": [{"key": "k", "value": "v"}], "hitsAddend": 3}`, "OVER_LIMIT 0 43200", "OVER_LIMIT 2 43200", "D4"},
		{`{"entries": [{"key": "k", "value": "v"}]}`, "OVER_LIMIT 0 43200", "OK 1 43200", "D1"},
		{`{"entries": [{"key": "k", "value": "w"}], "hitsAddend": 0}`, "OK 3 43200", "OK 3 1", "D5"},
		{`{"entries": [{"key": "a", "value": "b_c"}]}`, "OK 2 43200", "OK 0 0", "D9"},
	} {
		q := new(rls.RateLimitRequest)
		if err := protojson.Unmarshal([]byte(`{"domain": "d", "descriptors": [`+c.request+`]}`), q); err != nil {
			t.Fatal(err)
		}
		e := p.expect(q, half, false)
		why := strings.Join(append(e.each[0].of("limit_remaining"), e.each[0].of("duration_until_reset")...), " ")
		if c.why != "" && !strings.Contains(why, c.why) {
			t.Errorf("%d: %q explains it, want %s", i, why, c.why)
		}
		if got := shortly(e.peer); got != c.peer {
			t.Errorf("%d: envoyproxy/ratelimit: %s, want %s", i, got, c.peer)
		}
		if got := shortly(e.ours); got != c.ours {
			t.Errorf("%d: Weir: %s, want %s", i, got, c.ours)
		}
	}
}

func shortly(a answer) string {
	s := a.Statuses[0]
	return fmt.Sprint(s.Code, s.Remaining, s.Reset)
}

func TestShrinkText(t *testing.T) {
	got, err := shrinkText("1\n2\n3\n4\n5\n", 100, func(text string) (bool, error) {
		return strings.Contains(text, "2\n") && strings.Contains(text, "5\n"), nil
	})
	if err != nil || got != "2\n5\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestGeneratorRepeats: a seed is enough to see a finding again.
func TestGeneratorRepeats(t *testing.T) {
	make := func() string {
		c := &comparison{options: options{seed: 7}}
		g := c.generator(1)
		f := g.file("d")
		return f.yaml() + g.broken(f) + fmt.Sprint(g.request(f).GetDescriptors())
	}
	if a, b := make(), make(); len(a) != len(b) { // protobuf prints spaces at random, the same within a process
		t.Errorf("%s\n%s", a, b)
	}
}
