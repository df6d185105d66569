package sharing

import (
	"strings"

	"github.com/weir-limit/weir"
)

// limit is the one of that text, nil if there is none.
func (n *Node) limit(text string) *weir.Limit {
	limit, err := n.limits.Get(text)
	if err != nil || limit.String() != text {
		return nil // no node sends a text that is not in its shortest form
	}
	return limit
}

// MaxRules is how many rules a node keeps the text of once; when there are more, they
// begin anew.
const MaxRules = 4096

// rules are texts that many keys have in common, each once in memory.
type rules map[string]string

// clone is text, which may be part of something large.
func (r rules) clone(text string) string {
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
