package natsstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
)

const (
	// maxRule is how long a placement may be that is part of a key as it is.
	maxRule = 64
	// noteMark is between the key of an item and the rest of a note's.
	noteMark = ".="
	// hashed is how many bytes of a hash a key has. No two texts are found that have the same
	// ones, not even by a client that looks for them.
	hashed = 24
)

// name is the key of the bucket that keeps a count: the placement, so that an operator can see and
// purge a rule's counts, and a hash of whose count it is, as in shop/user.Qm9…: keys of clients may
// be of any length and any bytes, and are personal. A placement with what a key can't have is hashed
// too, and then begins with =. So only a note has the mark of one.
func name(k weir.StateKey) string {
	place := k.Placement()
	rule := place
	if !isToken(place) {
		rule = "=" + digest(place)
	}
	return rule + "." + digest(strconv.Itoa(len(place))+":"+place+k.Key)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:hashed])
}

// isToken is whether text can be one part of a key as it is.
func isToken(text string) bool {
	return text != "" && len(text) <= maxRule && !strings.ContainsFunc(text, func(r rune) bool {
		letter, digit := 'a' <= r|0x20 && r|0x20 <= 'z', '0' <= r && r <= '9'
		return !letter && !digit && !strings.ContainsRune("/_-", r)
	})
}
