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
	// MaxNameBytes is the length of the names of all denied keys together, of
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
	denials  map[string]int64  // of every key that was asked for
	names    map[string]string // of denied keys that are not their own names
	more     bool              // there were more keys
	room     *bounds
}

func newTally(r *rules.Rule, room *bounds) *tally {
	return &tally{rule: r, denials: map[string]int64{}, names: map[string]string{}, room: room}
}

// count notes one answer. name is the key in words; it is called at most once
// for a key, when that is denied first.
func (t *tally) count(at weir.Instant, o weir.Outcome, key string, name func() string) {
	denied := o == weir.Denied
	if denied && t.outcomes[weir.Denied] == 0 {
		t.first = at
	}
	t.outcomes[o]++
	n, known := t.denials[key]
	if !known {
		if len(t.denials) >= t.room.keys {
			t.more = true
			return
		}
		key = strings.Clone(key) // a word of the line would keep all of it
		t.denials[key] = 0
	}
	if !denied {
		return
	}
	t.denials[key] = n + 1
	if n == 0 {
		t.name(key, name())
	}
}

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
		Keys: int64(len(t.denials)), KeysMore: t.more, TopDenied: t.top(),
	}
	r.Asked = r.Allowed + r.Denied + r.Impossible
	if !t.rule.Unlimited {
		r.Limit = t.rule.Limit.String()
	}
	if r.Denied > 0 {
		r.FirstDenied = new(Time(t.first))
	}
	return r
}

// top lists the keys that were denied most. It is never nil.
func (t *tally) top() []KeyDenied {
	top := make([]KeyDenied, 0, TopKeys+1)
	for key, denied := range t.denials {
		if denied == 0 {
			continue
		}
		if name, ok := t.names[key]; ok {
			key = name
		}
		k := KeyDenied{key, denied}
		at, _ := slices.BinarySearchFunc(top, k, before)
		top = slices.Insert(top, at, k)
		top = top[:min(len(top), TopKeys)]
	}
	return top
}

// before orders keys by their denials, the most first, and then by themselves.
func before(a, b KeyDenied) int {
	return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key))
}
