package table

import (
	"strings"
	"time"
)

const (
	// MaxRules is how many rules a node keeps the text of once; when there are more, they
	// begin anew.
	MaxRules = 4096
	// MaxDeny is the longest that a node takes a denial for granted, and how long one is told to wait for whose key
	// there is no room.
	MaxDeny = time.Second
)

// Texts are texts that many keys have in common, each once in memory.
type Texts map[string]string

// Clone is text, which may be part of something large.
func (r Texts) Clone(text string) string {
	one, ok := r[text]
	if !ok {
		if len(r) >= MaxRules {
			clear(r)
		}
		one = strings.Clone(text)
		r[one] = one
	}
	return one
}
