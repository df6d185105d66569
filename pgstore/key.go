package pgstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/record"
)

const (
	// maxName is how long the name of a row may be. An index of PostgreSQL takes 2,700 bytes; short
	// names keep its pages few.
	maxName = 200
	// noteMark is between the name of an item and the rest of a note's.
	noteMark = "|"
	// sweeper is the name of the row by which processes agree who sweeps. No item has it, for it has
	// no colon.
	sweeper = "sweeper"
)

// name is the name of the row that keeps a count: placement, and whose count it is, as in
// demo/user:alice, so that an operator can read and delete what is of a rule. Longer names are hashed.
// No two placements and keys have one name, and no item has the name of a note: parts have no colon
// and no bar that was not escaped, and the hash of long ones is over the length of the placement, too.
func name(k weir.StateKey) string {
	const most = maxName - len(noteMark) - cas.NoteRoom
	place := k.Placement()
	if len(place)+len(k.Key) < most {
		if name := clean(place) + ":" + clean(k.Key); len(name) <= most {
			return name
		}
	}
	sum := sha256.Sum256([]byte(strconv.Itoa(len(place)) + ":" + place + k.Key))
	return "#" + base64.RawURLEncoding.EncodeToString(sum[:]) // no other has a # and no colon
}

// clean is text without what a column of text takes in no database, or what ends a name.
func clean(text string) string { return record.Escape(text, noteMark) }
