package webui

import (
	"strings"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestMostOf: a page says what a bound means, and by how much it is more than the count.
func TestMostOf(t *testing.T) {
	for _, c := range []struct{ limit, most, why string }{
		{
			"1000/day fixed-window zone Europe/Berlin", "At most 3\u202f000 in any day, whenever it begins.",
			"That is 2\u202f000 more than the count: where clocks go forward a day is shorter, and fits in whole between the end of one and the beginning of another.",
		},
		{"10/s burst 1", "At most 10 in any second, whenever it begins.", ""},
		{"2000 concurrent", "At most 2\u202f000 at a time.", ""},
	} {
		if most, why := mostOf(weir.MustParseLimit(c.limit)); most != c.most || why != c.why {
			t.Errorf("%s\n got %s %s\nwant %s %s", c.limit, most, why, c.most, c.why)
		}
	}
	if got := grouped("at most 1000, then 1.176471 s; 20000; x1000"); got != "at most 1\u202f000, then 1.176471 s; 20\u202f000; x1000" {
		t.Error(got)
	}
}

// TestDid: the page has words for each action, and says one of a newer Weir as it is.
func TestDid(t *testing.T) {
	seen := map[string]string{"": ""}
	for _, action := range rulestore.Actions() {
		words := did(action)
		if words == action || strings.Contains(words, ".") || seen[words] != "" {
			t.Errorf("%s: %q, as %q", action, words, seen[words])
		}
		seen[words] = action
	}
	if got := did("new.action"); got != "new.action" {
		t.Error(got)
	}
}
