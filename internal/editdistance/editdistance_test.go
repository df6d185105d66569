package editdistance

import (
	"strings"
	"testing"
)

func TestBetween(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		limit int
		want  int
	}{
		{"", "", 4, 0},
		{"", "abc", 4, 3},
		{"burst", "burst", 4, 0},
		{"bust", "burst", 4, 1},
		{"burrst", "burst", 4, 1},
		{"birst", "burst", 4, 1},
		{"brust", "burst", 4, 2},
		{"kitten", "sitting", 4, 3},
		{"kitten", "sitting", 3, 3},
		{"kitten", "sitting", 2, 2},
		{"a", "abcdefgh", 4, 4},
		{"abcdefgh", "a", 4, 4},
	} {
		if got := Between(c.a, c.b, c.limit); got != c.want {
			t.Errorf("between %q and %q: %d of %d, want %d", c.a, c.b, got, c.limit, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"burst", "queue", "share_threshold", "ab", "quota"}
	for word, want := range map[string]string{
		"bust": "burst", "Burst": "burst", "brust": "burst", "share-threshold": "share_threshold", "queu": "queue", "quote": "quota",
		"ba": "", "x": "", "": "", "sliding-window": "", strings.Repeat("burst", maxSlip): "",
	} {
		if got, ok := Nearest(word, words); got != want && (ok || want != "") {
			t.Errorf("nearest to %q: %q, %t; want %q", word, got, ok, want)
		}
	}
}
