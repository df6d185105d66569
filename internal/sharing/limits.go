package sharing

import (
	"strings"

	"github.com/weir-limit/weir"
)

// MaxLimits is how many limits of other nodes are remembered by their text. When
// there are more, all are read anew.
const MaxLimits = 4096

// limits are those that asks have named.
type limits map[string]*weir.Limit

func newLimits() limits { return limits{} }

// parse is the limit of that text, nil if there is none.
func (l limits) parse(text string) *weir.Limit {
	if limit, ok := l[text]; ok {
		return limit
	}
	limit, err := weir.ParseLimit(text)
	if err != nil || limit.String() != text {
		return nil // no node sends a text that is not in its shortest form
	}
	if len(l) >= MaxLimits {
		clear(l)
	}
	l[text] = limit
	return limit
}

// rules are texts that many keys have in common, each once in memory. When there are
// more than MaxLimits, they begin anew.
type rules map[string]string

// clone is text, which may be part of something large.
func (r rules) clone(text string) string {
	one, ok := r[text]
	if !ok {
		if len(r) >= MaxLimits {
			clear(r)
		}
		one = strings.Clone(text)
		r[one] = one
	}
	return one
}
