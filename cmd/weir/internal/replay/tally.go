package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// TopKeys is how many keys a report names for each rule.
const TopKeys = 10

// The most that is kept of keys.
const (
	// MaxKeys is the number of keys of one rule. Keys beyond it are neither
	// counted nor named, and the report says that there are more.
	MaxKeys = 1_000_000
	// MaxNameBytes is the length of the names of all keys kept out together, of
	// those that are not their own names. Keys beyond it have numbers for names.
	MaxNameBytes = 512 << 20
)

// bounds is what there is left to keep keys in.
type bounds struct {
	keys      int // of each rule
	nameBytes int // of all rules together
}

// tally counts what one rule says.
type tally struct {
	rule     *rules.Rule
	outcomes [3]int64 // by weir.Outcome
	first    weir.Instant
	numbers  map[string]int    // of every key that was asked for
	counts   []keyCount        // by number
	names    map[string]string // of keys that were kept out and are not their own names
	more     bool              // there were more keys
	only     int64             // requests that this rule kept out, and other rules would not
	room     *bounds
}

// keyCount is what there is to count of a key.
type keyCount struct {
	denied int64
	only   int64 // requests kept out that other rules would have let pass
	named  bool  // it is known by what name to tell it
}

func newTally(r *rules.Rule, room *bounds) *tally {
	return &tally{rule: r, numbers: map[string]int{}, names: map[string]string{}, room: room}
}

// count notes one answer, and returns the number of the key, -1 when there is no
// room for it.
func (t *tally) count(at weir.Instant, o weir.Outcome, key string) int {
	if o == weir.Denied && t.outcomes[weir.Denied] == 0 {
		t.first = at
	}
	t.outcomes[o]++
	n, known := t.numbers[key]
	if !known {
		if n = len(t.counts); n >= t.room.keys {
			t.more = true
			return -1
		}
		t.numbers[strings.Clone(key)] = n // a word of the line would keep all of it
		t.counts = append(t.counts, keyCount{})
	}
	if o == weir.Denied {
		t.counts[n].denied++
	}
	return n
}

// countOnly notes that other rules would have let a denied request pass.
func (t *tally) countOnly(key int) {
	t.only++
	if key >= 0 {
		t.counts[key].only++
	}
}

// name notes the name in words of a key that is kept out.
func (t *tally) name(key, name string) {
	if name == key {
		return
	}
	if len(name) > t.room.nameBytes {
		name = fmt.Sprintf("%x", key)
	}
	t.room.nameBytes -= min(len(name), t.room.nameBytes)
	t.names[key] = name
}

// report is what was counted.
func (t *tally) report() RuleReport {
	r := RuleReport{
		Rule: t.rule.Name, Limit: "unlimited", Shadow: t.rule.Shadow,
		Allowed: t.outcomes[weir.Allowed], Denied: t.outcomes[weir.Denied], Impossible: t.outcomes[weir.Impossible],
		Keys: int64(len(t.counts)), KeysMore: t.more, KeysDenied: t.keys(denials), TopDenied: []KeyDenied{},
	}
	r.Asked = r.Allowed + r.Denied + r.Impossible
	if !t.rule.Unlimited {
		r.Limit = t.rule.Limit.String()
	}
	if r.Denied > 0 {
		r.FirstDenied = new(Time(t.first))
	}
	for _, k := range t.top(denials) {
		r.TopDenied = append(r.TopDenied, KeyDenied{k.Key, k.Lines})
	}
	return r
}

func denials(c *keyCount) int64 { return c.denied }

func differences(c *keyCount) int64 { return c.only }

// keys is how many keys there is something to count of.
func (t *tally) keys(of func(*keyCount) int64) int64 {
	n := int64(0)
	for i := range t.counts {
		if of(&t.counts[i]) > 0 {
			n++
		}
	}
	return n
}

// top lists the keys that there is most to count of.
func (t *tally) top(of func(*keyCount) int64) []KeyLines {
	top := make([]KeyLines, 0, TopKeys+1)
	for key, number := range t.numbers {
		n := of(&t.counts[number])
		if n == 0 || len(top) == TopKeys && n < top[TopKeys-1].Lines {
			continue
		}
		if name, ok := t.names[key]; ok {
			key = name
		}
		k := KeyLines{key, n}
		at, _ := slices.BinarySearchFunc(top, k, before)
		top = slices.Insert(top, at, k)
		top = top[:min(len(top), TopKeys)]
	}
	return top
}

// before orders keys by how much there is to count of them, the most first, and
// then by themselves.
func before(a, b KeyLines) int {
	return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.Key, b.Key))
}
