package offenders

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Shorten is a name that fits into MaxName: what is cut off is there as a hash,
// so that names which begin alike are still told apart.
func Shorten(name []byte) []byte {
	if len(name) <= MaxName {
		return name
	}
	digest := sha256.Sum256(name)
	short := make([]byte, 0, MaxName)
	short = append(short, name[:MaxName-len(cut)-2*hashBytes]...)
	return hex.AppendEncode(append(short, cut...), digest[:hashBytes])
}

// IsShortened is whether a name may be one that Shorten has cut, so that nobody can tell whose it is.
func IsShortened(name string) bool {
	return len(name) == MaxName && strings.HasPrefix(name[MaxName-len(cut)-2*hashBytes:], cut)
}

const (
	cut       = "…"
	hashBytes = 8
)

// Hider puts a hash in the place of names, under a key that it draws and that nobody else knows: a
// reader of the hashes can tell clients apart, and can't find out by guessing who they are. The
// same client has the same hash as long as the Hider lives.
type Hider struct{ key [sha256.Size]byte }

// NewHider draws a key.
func NewHider() *Hider {
	h := new(Hider)
	_, _ = rand.Read(h.key[:]) // which never fails
	return h
}

// Hide is what to say instead of name: ~ and 16 hexadecimal digits.
func (h *Hider) Hide(name string) string {
	mac := hmac.New(sha256.New, h.key[:])
	mac.Write([]byte(name))
	return "~" + hex.EncodeToString(mac.Sum(nil)[:hashBytes])
}
