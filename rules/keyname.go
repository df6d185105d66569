package rules

import (
	"math/bits"
	"strconv"
	"strings"
)

// openWords tells which words of a request make the key of a rule's counts, by
// the bits of its entries.
type openWords struct{ keys, values uint16 }

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

// AppendKeyName appends whose count a descriptor that met the rule has, for
// people to read: the words that the rule leaves open, such as the address for
// a rule about addresses on one path, and the keys that a pattern stands for.
// Where it leaves nothing open it is the values of the rule, and for an override
// all that the descriptor says. Where there are several words, quotes keep them apart if need be.
func (r *Rule) AppendKeyName(b []byte, entries []Entry) []byte {
	open := r.open
	switch {
	case r.Override:
		all := uint16(1<<len(entries) - 1)
		open = openWords{all, all}
	case open == openWords{}:
		entries, open.values = r.Path, 1<<len(r.Path)-1
	}
	left := bits.OnesCount16(open.keys) + bits.OnesCount16(open.values)
	if left == 1 {
		i := bits.TrailingZeros16(open.keys | open.values)
		if open.keys != 0 {
			return append(b, entries[i].Key...)
		}
		return append(b, entries[i].Value...)
	}
	add := func(word string) {
		if b = appendName(b, word); left > 1 {
			b = append(b, ' ')
		}
		left--
	}
	for i := range entries {
		if open.keys>>i&1 != 0 {
			add(entries[i].Key)
		}
		if open.values>>i&1 != 0 {
			add(entries[i].Value)
		}
	}
	return b
}

func appendName(b []byte, word string) []byte {
	if word == "" || strings.ContainsAny(word, " \"") {
		return strconv.AppendQuote(b, word)
	}
	return append(b, word...)
}
