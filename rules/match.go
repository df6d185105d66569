package rules

import (
	"crypto/sha256"
	"encoding/binary"
)

// place is a descriptor of a file, as requests meet it.
type place struct {
	order int   // among the descriptors beside it
	entry Entry // as written
	line  int
	share bool // share_threshold: all values that fit have one count
	// toMetric is value_to_metric: values are counted apart.
	toMetric bool
	value    pattern
	// keepKey and keepValue tell which of a request's words make the key of a
	// count: those that the place does not settle.
	keepKey, keepValue bool

	rules []*Rule
	below *level // nil when there is nothing
}

// accepts is whether a request's value fits; its key does.
func (p *place) accepts(value string) bool {
	return p.entry.Value == "" || p.value.matches(value)
}

// exact is whether p is for one key and value alone.
func (p *place) exact() bool { return p.entry.Value != "" && !p.value.wild() && !p.keepKey }

// level is the descriptors that stand together in a list. Entries of a request are
// looked up level by level, so the work of a match follows the request's entries, not how
// many rules there are; only patterns that begin alike are tried one by one.
type level struct {
	families map[string]*family // by key as written, those with a * too
	keys     patterns           // those with a * in the key
	size     int                // how many descriptors, for the order of the next
}

// family is the descriptors of one level with the same key.
type family struct {
	exact  map[string]*place // by value as written, those with a * too
	values patterns          // those with a * in the value alone
	bare   *place            // without a value, which any value fits; nil: there is none
}

// add puts in p, unless its key and value are there: then it gives that place.
func (l *level) add(p *place) (double *place) {
	key := newPattern(p.entry.Key)
	p.order, p.value = l.size, newPattern(p.entry.Value)
	p.keepKey = key.wild()
	p.keepValue = !p.share && (p.entry.Value == "" || p.value.wild())

	f := l.families[p.entry.Key]
	if f == nil {
		f = &family{exact: map[string]*place{}}
		if l.families == nil {
			l.families = map[string]*family{}
		}
		l.families[p.entry.Key] = f
	}
	switch {
	case p.entry.Value == "" && f.bare != nil:
		return f.bare
	case p.entry.Value == "":
		f.bare = p
	case f.exact[p.entry.Value] != nil:
		return f.exact[p.entry.Value]
	default:
		f.exact[p.entry.Value] = p
	}
	if key.wild() {
		l.keys.add(key, p)
	} else if p.value.wild() {
		f.values.add(p.value, p)
	}
	l.size++
	return nil
}

// find is where an entry leads: the exact key and value, else the first
// pattern, else the key alone, else nil.
func (l *level) find(e Entry) *place {
	f := l.families[e.Key]
	if f != nil {
		if p := f.exact[e.Value]; p != nil {
			return p
		}
	}
	if p := l.firstWild(f, e); p != nil {
		return p
	}
	if f != nil {
		return f.bare
	}
	return nil
}

// firstWild is the place earliest in the file whose pattern fits e.
func (l *level) firstWild(f *family, e Entry) *place {
	var best *place
	if f != nil {
		best = f.values.first(e.Value, e.Value)
	}
	if p := l.keys.first(e.Key, e.Value); p != nil && (best == nil || p.order < best.order) {
		best = p
	}
	return best
}

// Match finds the rules of one descriptor of a request, in the order of the
// file, and the key of their counts: Rule.State(key) is where each is kept.
// There are none when the domain is unknown or nothing fits. A rule that is
// Unlimited is among them. The slice must not be changed.
//
// It allocates nothing but the key, where that is made of several words.
func (s *Set) Match(domain string, d *Descriptor) (rules []*Rule, key string) {
	dom := s.domains[domain]
	if dom == nil || len(d.Entries) > MaxEntries {
		return nil, ""
	}
	if d.Override != nil {
		return []*Rule{overrideRule(domain, d.Override)}, overrideKey(d.Entries)
	}
	var way [MaxEntries]*place
	l := &dom.top
	for i, e := range d.Entries {
		if l == nil {
			return nil, ""
		}
		p := l.find(e)
		if p == nil {
			return nil, ""
		}
		way[i], l = p, p.below
	}
	if len(d.Entries) == 0 {
		return nil, ""
	}
	rules = way[len(d.Entries)-1].rules
	if len(rules) == 0 {
		return nil, ""
	}
	return rules, countKey(way[:len(d.Entries)], d.Entries)
}

// widen puts in place of an entry's value the one that it counts under, if that
// leads to the same descriptor or to one that is written for it. A descriptor that
// is written for the value itself comes first.
func (s *Set) widen(domain string, d *Descriptor, wider func(Entry) string) {
	dom := s.domains[domain]
	if dom == nil || d.Override != nil {
		return
	}
	for i, l := 0, &dom.top; i < len(d.Entries) && l != nil; i++ {
		e := &d.Entries[i]
		p := l.find(*e)
		if wide := wider(*e); wide != e.Value && (p == nil || !p.exact()) {
			if q := l.find(Entry{e.Key, wide}); q != nil && (q == p || q.exact()) {
				e.Value, p = wide, q
			}
		}
		if p == nil {
			return
		}
		l = p.below
	}
}

// maxKey is how long a key of a count may be before a digest stands for it.
const maxKey = 64

// The first bytes of keys that are not written as they are. No text in UTF-8
// begins with them, and no length of a word within maxKey does.
const (
	escapedKey = 0xFE
	digestKey  = 0xFF
)

// countKey makes the key of a count of the words that way leaves open. How
// many they are is settled by the place, so a single one is its own key, and
// several are told apart by their lengths.
func countKey(way []*place, entries []Entry) string {
	var single string
	words := 0
	for i, p := range way {
		if p.keepKey {
			single, words = entries[i].Key, words+1
		}
		if p.keepValue {
			single, words = entries[i].Value, words+1
		}
	}
	if words <= 1 {
		return singleKey(single)
	}
	var room [256]byte
	b := room[:0]
	for i, p := range way {
		if p.keepKey {
			b = appendWord(b, entries[i].Key)
		}
		if p.keepValue {
			b = appendWord(b, entries[i].Value)
		}
	}
	return short(b)
}

func singleKey(word string) string {
	if len(word) <= maxKey && (word == "" || word[0] < escapedKey) {
		return word
	}
	var room [256]byte
	return short(append(append(room[:0], escapedKey), word...))
}

// overrideKey makes a key of all words of a descriptor.
func overrideKey(entries []Entry) string {
	var room [256]byte
	b := room[:0]
	for _, e := range entries {
		b = appendWord(appendWord(b, e.Key), e.Value)
	}
	return short(b)
}

func appendWord(b []byte, word string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(word))), word...)
}

// short is key as it is, or its digest when it is long.
func short(key []byte) string {
	if len(key) <= maxKey {
		return string(key)
	}
	digest := sha256.Sum256(key)
	tagged := [1 + sha256.Size]byte{digestKey}
	copy(tagged[1:], digest[:])
	return string(tagged[:])
}
