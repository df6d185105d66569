package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// maxName is how long the name of a count may be in a key of Redis; longer ones
// are hashed. Clients choose keys, and Redis would keep each of them at full length.
//
// A hashed name has 33 characters, so clients can make a key no longer than maxName and what the
// rule adds.
const maxName = 200

// key is where a count is kept: prefix, in braces the placement and whose count it is, then which
// limit of the placement, as in weir:{demo/user:alice}#1. The braces keep what is decided together
// on one node of a Redis Cluster. No two counts have one key. The notes of what works once stand
// beside it, on the same node: weir:{demo/user:alice}:once:2f, and :settled: with the id of a
// receipt.
func (s *Store) key(k weir.StateKey) string {
	place := k.Placement()
	return s.tag(k) + clean(k.Rule[len(place):])
}

// tag is the part of a key that says on which node it is.
//
// Two counts have two names: neither clean part has a colon or a brace in it, so the first colon
// ends the placement. The length of the raw texts is looked at first, so that a key of a megabyte
// is not escaped in vain; escaping makes texts longer, so the name is looked at again. The hash is
// over the length of the placement, too, so that no byte can move from one part to the other.
func (s *Store) tag(k weir.StateKey) string {
	place := k.Placement()
	name := ""
	if len(place)+len(k.Key) <= maxName {
		name = clean(place) + ":" + clean(k.Key)
	}
	if name == "" || len(name) > maxName {
		name = "#" + digest(strconv.Itoa(len(place))+":"+place+k.Key) // no other has a # and no colon
	}
	return s.prefix + "{" + name + "}"
}

// placeOf is the placement in a key, for errors: they are logged, and whose count it
// is is personal.
func placeOf(key string) string {
	_, name, _ := strings.Cut(key, "{")
	if strings.HasPrefix(name, "#") {
		return "a long name"
	}
	place, _, _ := strings.Cut(name, ":")
	return place
}

// digest is a hash by which nobody can find two names that share a count: half of SHA-256, 128
// bits.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// clean is text without what would end a hash tag or a name.
func clean(text string) string { return record.Escape(text, "{}") }
