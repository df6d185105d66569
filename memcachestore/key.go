package memcachestore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/record"
)

const (
	// maxKey is how long a key of memcached may be.
	maxKey = 250
	// noteMark is between the key of an item and the rest of a note's.
	noteMark = "|"
)

// name is the key of the item that keeps a count: prefix, placement, whose count it is, as in
// weir:demo/user:alice. Longer names than memcached takes are hashed. No two placements and keys
// have one name, and no item has the name of a note: parts have no colon and no bar that was not
// escaped, and the hash of long ones is over the length of the placement, too, so that no byte can
// move from one part to the other.
//
// All limits of a placement and key have one name, so pick puts them on one server and one
// connection: that is what lets a take of them be one swap.
func (s *Store) name(k weir.StateKey) string {
	place, most := k.Placement(), maxKey-len(noteMark)-cas.NoteRoom-len(s.prefix)
	if len(place)+len(k.Key) < most {
		if name := clean(place) + ":" + clean(k.Key); len(name) <= most {
			return s.prefix + name
		}
	}
	sum := sha256.Sum256([]byte(strconv.Itoa(len(place)) + ":" + place + k.Key))
	return s.prefix + "#" + base64.RawURLEncoding.EncodeToString(sum[:]) // no other has a # and no colon
}

// clean is text without what memcached takes in no key, or what ends a name.
func clean(text string) string { return record.Escape(text, noteMark) }
