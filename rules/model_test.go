package rules_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// node is a descriptor of the naive model.
type node struct {
	key, value string
	limits     int
	share      bool
	exact      bool
	below      []*node
}

// wild is whether texts of a request can fit n that are not its own.
func (n *node) wild() bool { return !n.exact && strings.Contains(n.key+n.value, "*") }

func (n *node) entry() rules.Entry { return rules.Entry{Key: n.key, Value: n.value} }

func drawNodes(t *rapid.T, depth int) []*node {
	var list []*node
	seen := map[rules.Entry]bool{}
	for range rapid.IntRange(0, 5).Draw(t, "size") {
		n := &node{
			key:    rapid.SampledFrom([]string{"a", "b", "a*", "*", "a_", "é/="}).Draw(t, "key"),
			value:  rapid.SampledFrom([]string{"", "x", "xy", "x*", "*y", "*", "x*y", "*x*", "**", "xyz*", "x*x", "é"}).Draw(t, "value"),
			limits: rapid.IntRange(0, 2).Draw(t, "limits"),
		}
		n.exact = rapid.IntRange(0, 3).Draw(t, "exact") == 0
		n.share = n.wild() && rapid.Bool().Draw(t, "share")
		if seen[n.entry()] {
			continue
		}
		seen[n.entry()] = true
		if depth > 0 {
			n.below = drawNodes(t, depth-1)
		}
		list = append(list, n)
	}
	return list
}

func writeNodes(b *strings.Builder, list []*node, indent string) {
	if len(list) == 0 {
		b.WriteString(" []\n")
		return
	}
	b.WriteString("\n")
	for _, n := range list {
		fmt.Fprintf(b, "%s- key: %q\n%s  value: %q\n%s  share_threshold: %v\n", indent, n.key, indent, n.value, indent, n.share)
		if n.exact {
			fmt.Fprintf(b, "%s  match: exact\n", indent)
		}
		if n.limits > 0 {
			fmt.Fprintf(b, "%s  limits: [%s]\n", indent, strings.Join([]string{"1/s", "10/min"}[:n.limits], ", "))
		}
		fmt.Fprintf(b, "%s  descriptors:", indent)
		writeNodes(b, n.below, indent+"  ")
	}
}

func glob(pattern, text string) bool {
	return regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `\z`).MatchString(text)
}

// walk is matching as the contract says it, without any index.
func walk(list []*node, entries []rules.Entry) (way []*node) {
	var found *node
	for _, n := range list {
		if n.key == entries[0].Key && n.value != "" && n.value == entries[0].Value {
			found = n
		}
	}
	for _, n := range list {
		if found == nil && n.wild() && glob(n.key, entries[0].Key) && (n.value == "" || glob(n.value, entries[0].Value)) {
			found = n
		}
	}
	for _, n := range list {
		if found == nil && n.key == entries[0].Key && n.value == "" {
			found = n
		}
	}
	switch {
	case found == nil:
		return nil
	case len(entries) == 1:
		return []*node{found}
	}
	if rest := walk(found.below, entries[1:]); rest != nil {
		return append([]*node{found}, rest...)
	}
	return nil
}

// whose is what tells counts apart: the way through the rules, and what of the
// request it leaves open.
func whose(way []*node, entries []rules.Entry) string {
	var words []string
	for i, n := range way {
		words = append(words, fmt.Sprintf("%q=%q", n.key, n.value))
		if !n.exact && strings.Contains(n.key, "*") {
			words = append(words, fmt.Sprintf("key %q", entries[i].Key))
		}
		if !n.share && (n.value == "" || !n.exact && strings.Contains(n.value, "*")) {
			words = append(words, fmt.Sprintf("value %q", entries[i].Value))
		}
	}
	return strings.Join(words, " ")
}

// TestMatchModel holds Match to the naive model, and the keys of counts to
// being the same exactly when the counts are.
func TestMatchModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawNodes(t, 2)
		var b strings.Builder
		b.WriteString("domain: shop\ndescriptors:")
		writeNodes(&b, tree, "")
		set, err := rules.Parse("f", []byte(b.String()))
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		counts, places := map[string]weir.StateKey{}, map[weir.StateKey]string{}
		for range 30 {
			var d rules.Descriptor
			for range rapid.IntRange(1, 3).Draw(t, "depth") {
				d.Entries = append(d.Entries, rules.Entry{
					Key:   rapid.SampledFrom([]string{"a", "b", "a_", "ab", "a*", "é/="}).Draw(t, "key"),
					Value: rapid.SampledFrom([]string{"", "x", "xy", "x*", "xxy", "xyz", "*", "yy", "\xff\xfe", "é", strings.Repeat("x", 70)}).Draw(t, "value"),
				})
			}
			met, key := set.Match("shop", &d)
			way := walk(tree, d.Entries)
			if want := 0; way == nil || way[len(way)-1].limits == want {
				if len(met) != want {
					t.Fatalf("%q meets %d rules, want none, in\n%s", d.Entries, len(met), b.String())
				}
				continue
			}
			var path []rules.Entry
			for _, n := range way {
				path = append(path, n.entry())
			}
			if len(met) != way[len(way)-1].limits || !slices.Equal(met[0].Path, path) {
				t.Fatalf("%q meets %d rules of %v, want %v, in\n%s", d.Entries, len(met), met, path, b.String())
			}
			count, state := whose(way, d.Entries), met[0].State(key)
			if other, ok := counts[count]; ok && other != state {
				t.Fatalf("one count, two states: %q: %q, %q", count, other, state)
			}
			if other, ok := places[state]; ok && other != count {
				t.Fatalf("two counts, one state: %q: %q, %q", state, other, count)
			}
			counts[count], places[state] = state, count
		}
	})
}

// Keys of counts that are built of several words, and that are long, or begin
// like a digest, are never the same for different words.
func TestKeysDiffer(t *testing.T) {
	set := parse(t, `
domain: shop
descriptors:
- key: a
  limits: [1/s]
  descriptors: [{key: b, limits: [1/s]}]
`)
	digested := func() string {
		d := descriptor("a=" + strings.Repeat("x", 100))
		_, key := set.Match("shop", &d)
		return key
	}()
	word := rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', 0, 1}), 0, 3, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 80), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{
			digested, digested[1:], "\xfe" + digested, "\xfe", "\xff", "\xfe\xfe",
			strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 100),
			"\xfe" + strings.Repeat("x", 62), "\xfe" + strings.Repeat("x", 63), "\xfe" + strings.Repeat("x", 100),
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string][]rules.Entry{}
		n := rapid.IntRange(1, 2).Draw(t, "entries")
		for range 20 {
			d := rules.Descriptor{Entries: []rules.Entry{{Key: "a", Value: word.Draw(t, "a")}, {Key: "b", Value: word.Draw(t, "b")}}[:n]}
			_, key := set.Match("shop", &d)
			if len(key) > 64 {
				t.Fatalf("%q has a key of %d bytes", d.Entries, len(key))
			}
			if other, ok := seen[key]; ok && !slices.Equal(other, d.Entries) {
				t.Fatalf("%q and %q have the key %q", other, d.Entries, key)
			}
			seen[key] = d.Entries
		}
	})
}
