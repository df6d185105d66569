package rules

import (
	"crypto/sha256"
	"encoding/binary"
)

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
