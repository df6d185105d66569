package rulestore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawFile draws a rule file as people write them.
func drawFile(t *rapid.T, indent int) string {
	var b strings.Builder
	b.WriteString(rapid.SampledFrom([]string{"", "# Limits.\n", "---\n", "# Limits.\n\n# More.\n"}).Draw(t, "top"))
	b.WriteString("domain: shop" + rapid.SampledFrom([]string{"", " # ours"}).Draw(t, "note") + "\n")
	b.WriteString(rapid.SampledFrom([]string{"", "\n", "# the rules\n"}).Draw(t, "between"))
	b.WriteString("descriptors:\n")
	margin := strings.Repeat(" ", indent)
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "a\n  value: x", "a\n  value: y*", "b\n  value: 'q: #'", "'f=g'", "\"h%\""}), 1, 8, rapid.ID).Draw(t, "keys")
	for _, key := range keys {
		rule := rapid.SampledFrom([]string{"", "# why\n", "# why\n# and how\n"}).Draw(t, "comment") + "- key: " + key + "\n"
		limit := fmt.Sprintf("%d/s", rapid.IntRange(1, 99).Draw(t, "count"))
		rule += rapid.SampledFrom([]string{
			"  limits: [" + limit + "]\n",
			"  limits: # several\n    - " + limit + "\n    - 1000/h fixed-window\n",
			"  rate_limit: {unit: minute, requests_per_unit: 5}\n",
			"  metadata:\n    note: |\n      - key: none\n      # no comment\n\n      more\n  limits: [" + limit + "]\n",
			"  limits: [" + limit + "]\n  descriptors:\n    - key: in\n      limits: [" + limit + "]\n    # last\n",
			"  limits: &l [" + limit + "]\n  descriptors:\n  - key: in\n    limits: *l\n",
			"  owner: web\n  name: 'a name'\n  limits:\n  - {name: x, limit: " + limit + "}\n",
		}).Draw(t, "rule")
		for line := range strings.Lines(rule + rapid.SampledFrom([]string{"", "\n", "\n\n", "  # behind\n"}).Draw(t, "after")) {
			if line != "\n" {
				b.WriteString(margin)
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestFilesComeBack: whatever file is put in the place of another, it is served to
// the letter, and only rules that differ get versions.
func TestFilesComeBack(t *testing.T) {
	s := shop(t, t.TempDir())
	last := file(t, s)
	rapid.Check(t, func(t *rapid.T) {
		text := drawFile(t, rapid.SampledFrom([]int{0, 2, 4}).Draw(t, "indent"))
		_, changes, err := s.Import(t.Context(), root(), Import{Text: text, Match: last.Revision, To: Enforced, Reason: "a test"})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got, err := s.Document(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, got.File); diff != "" {
			t.Fatal(diff)
		}
		for _, c := range changes {
			v, err := s.Version(t.Context(), "shop", c.Rule, c.Version)
			if err != nil || v.Text != c.After || v.State != Enforced {
				t.Fatal(v, err)
			}
		}
		again, changes, err := s.Import(t.Context(), root(), Import{Text: got.File, Match: got.Revision, To: Enforced, Reason: "again"})
		if err != nil || len(changes) != 0 {
			t.Fatalf("the same file again changes %v, %v", changes, err)
		}
		got.Domain = again
		last = got
	})
}

// TestPlaces: rules stand in the order that is asked for, and those that kept
// their order keep their places as long as there is room.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := map[string]Version{}
		for i, id := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-f]`), 0, 6, rapid.ID).Draw(t, "was") {
			was[id] = Version{place: int64(i+1) * rapid.SampledFrom([]int64{1, 2, gap}).Draw(t, "gap")}
		}
		wanted := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-j]`), 0, 10, rapid.ID).Draw(t, "wanted")
		places := placesFor(wanted, was)
		kept := true
		for i, id := range wanted {
			if places[i] <= 0 || i > 0 && places[i] <= places[i-1] {
				t.Fatal(places)
			}
			if p := was[id].place; p != 0 && p != places[i] {
				kept = false
			}
		}
		if !kept {
			for i := range wanted {
				if places[i] != int64(i+1)*gap {
					t.Fatalf("neither kept nor new: %v", places)
				}
			}
		}
	})
}
