package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// openWords tells which words of a request make the key of a rule's counts: those that its
// place in the file leaves open. Bit i stands for the key, or the value, of the i-th entry.
//
// The descriptor {path=/export/*, user} leaves open the value of the first entry and of the
// second: values is 0b11 and keys 0. A request {path=/export/a, user=ann} is counted by the
// words "/export/a" and "ann".
type openWords struct{ keys, values uint16 }

// openOf is the words that the places on a way leave open.
func openOf(way []*place) openWords {
	var o openWords
	for i, p := range way {
		if p.keepKey {
			o.keys |= 1 << i
		}
		if p.keepValue {
			o.values |= 1 << i
		}
	}
	return o
}

// literalOf is the entries of a way whose * is no pattern, a bit each.
func literalOf(way []*place) (bits uint16) {
	for i, p := range way {
		if p.literal {
			bits |= 1 << i
		}
	}
	return bits
}

// firstBits is the bits of the first n entries.
func firstBits(n int) uint16 { return 1<<n - 1 }

// count is how many words are open.
func (o openWords) count() int { return bits.OnesCount16(o.keys) + bits.OnesCount16(o.values) }

// of is the words in the order of the entries, the key of one before its value.
func (o openWords) of(entries []Entry) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range entries {
			if o.keys>>i&1 != 0 && !yield(entries[i].Key) || o.values>>i&1 != 0 && !yield(entries[i].Value) {
				return
			}
		}
	}
}

// single is the only open word; false where there are none or several.
func (o openWords) single(entries []Entry) (word string, is bool) {
	if o.count() != 1 {
		return "", false
	}
	i := bits.TrailingZeros16(o.keys | o.values)
	if o.keys != 0 {
		return entries[i].Key, true
	}
	return entries[i].Value, true
}

// maxKey is how many bytes a key of a count may have before a digest stands for it. A store keeps
// one key for each count, so long words of clients would cost memory; and words that nobody
// bounds would let a client choose how much.
const maxKey = 64

// The first bytes of keys that are not written as they are. No text in UTF-8
// begins with them, and no length of a word within maxKey does. So two different lists of words
// have two different keys:
//
//	ann                 a single word, as it is
//	\x03ann\x02/a       several words, each behind its length as a varint
//	\xFE\xFFann         a single word that begins with one of these bytes
//	\xFF + 32 bytes     SHA-256 of any of these that is longer than maxKey
const (
	escapedKey = 0xFE
	digestKey  = 0xFF
)

// key makes the key of a count. How many words there are is settled by the place in the file,
// so a single one is its own key, and several are told apart by their lengths.
func (o openWords) key(entries []Entry) string {
	if o == (openWords{}) {
		return ""
	}
	if word, single := o.single(entries); single {
		return singleKey(word)
	}
	var room [256]byte
	b := room[:0]
	for word := range o.of(entries) {
		b = appendWord(b, word)
	}
	return short(b)
}

// singleKey is the key of one word: nearly always the word, without a copy.
func singleKey(word string) string {
	if len(word) <= maxKey && (word == "" || word[0] < escapedKey) {
		return word
	}
	var room [256]byte
	return short(append(append(room[:0], escapedKey), word...))
}

// appendWord appends a word behind its length, so that the end of one word is never the beginning
// of the next.
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

// AppendKeyName appends whose count a descriptor that met the rule has, for
// people to read: the words that the rule leaves open, such as the address for
// a rule about addresses on one path, and the keys that a pattern stands for.
// Where it leaves nothing open it is the values of the rule, and for an override
// all that the descriptor says. Where there are several words, quotes keep them apart if need be.
func (r *Rule) AppendKeyName(b []byte, entries []Entry) []byte {
	open := r.open
	if open == (openWords{}) {
		entries, open.values = r.Path, firstBits(len(r.Path))
	}
	if word, single := open.single(entries); single {
		return append(b, word...)
	}
	before := len(b)
	for word := range open.of(entries) {
		if len(b) > before {
			b = append(b, ' ')
		}
		b = appendName(b, word)
	}
	return b
}

// KeyText is a key of Set.Match in words: those that the rule leaves open, as AppendKeyName
// tells them. It is empty where the rule leaves nothing open, and "sha256:" with 64 digits for a
// key that is a digest of its words.
func (r *Rule) KeyText(key string) string {
	switch {
	case key == "":
		return ""
	case key[0] == digestKey:
		return "sha256:" + hex.EncodeToString([]byte(key[1:]))
	case key[0] == escapedKey:
		return key[1:]
	case r.open.count() == 1:
		return key
	}
	var b []byte
	for rest := []byte(key); len(rest) > 0; {
		n, size := binary.Uvarint(rest)
		end := size + int(n)
		if size <= 0 || n > maxKey || end > len(rest) {
			return key // of another rule: Match made no such key
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b, rest = appendName(b, string(rest[size:end])), rest[end:]
	}
	return string(b)
}

// Entries is what a request has to say so that it meets a rule of the set as the client that AppendKeyName names so. It is not ok
// where no request does: the name is of another rule, or was cut, or another descriptor of the file takes such a request, or the
// request brings its limit along.
func (s *Set) Entries(r *Rule, name string) (entries []Entry, ok bool) {
	if r.Override {
		return nil, false
	}
	words, ok := r.words(name)
	if !ok {
		return nil, false
	}
	if entries, ok = r.EntriesOf(words); !ok {
		return nil, false
	}
	for i := range entries {
		if (r.open.values|r.literal)>>i&1 == 0 {
			entries[i].Value = strings.ReplaceAll(entries[i].Value, "*", "") // which fits where all values have one count
		}
	}
	met, _ := s.Match(r.Domain, &Descriptor{Entries: entries})
	if !slices.Contains(met, r) || string(r.AppendKeyName(nil, entries)) != name {
		return nil, false
	}
	return entries, true
}

// Example is the entries of a request that meets r, unless another descriptor takes it: a 1 stands for
// each * of a pattern, and alice for a value that the descriptor leaves out. An override has none.
func (r *Rule) Example() []Entry {
	entries := slices.Clone(r.Path)
	for i := range entries {
		e := &entries[i]
		if r.literal>>i&1 == 0 {
			e.Key, e.Value = strings.ReplaceAll(e.Key, "*", "1"), strings.ReplaceAll(e.Value, "*", "1")
		}
		e.Value = cmp.Or(e.Value, "alice")
	}
	return entries
}

// EntriesOf is the entries of a request that meets r, given the words that r leaves open, as AppendKeyName tells them. It is false where
// there are more or fewer.
func (r *Rule) EntriesOf(words []string) ([]Entry, bool) {
	if len(words) != r.open.count() {
		return nil, false
	}
	entries := slices.Clone(r.Path)
	next := func(word *string) { *word, words = words[0], words[1:] }
	for i := range entries {
		if r.open.keys>>i&1 != 0 {
			next(&entries[i].Key)
		}
		if r.open.values>>i&1 != 0 {
			next(&entries[i].Value)
		}
	}
	return entries, true
}

// words is the words that the rule leaves open, of a name that AppendKeyName has made of them.
func (r *Rule) words(name string) (words []string, ok bool) {
	switch n := r.open.count(); n {
	case 0:
		return nil, true
	case 1:
		return []string{name}, true
	default:
		for len(words) < n {
			var word, rest string
			if quoted, err := strconv.QuotedPrefix(name); err == nil && name[0] == '"' {
				rest = name[len(quoted):]
				word, err = strconv.Unquote(quoted)
				if err != nil || rest != "" && rest[0] != ' ' {
					return nil, false
				}
				rest = strings.TrimPrefix(rest, " ")
			} else {
				word, rest, _ = strings.Cut(name, " ")
			}
			words, name = append(words, word), rest
		}
		return words, name == ""
	}
}

// appendName appends a word of several, in quotes where it could be taken for two or for none.
func appendName(b []byte, word string) []byte {
	if word == "" || strings.ContainsAny(word, " \"") {
		return strconv.AppendQuote(b, word)
	}
	return append(b, word...)
}
