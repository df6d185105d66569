package lease

import "github.com/weir-limit/weir"

// limit is the one of that text, nil if there is none.
func (n *Node) limit(text string) *weir.Limit {
	limit, err := n.limits.Get(text)
	if err != nil || limit.String() != text {
		return nil // no node sends a text that is not in its shortest form
	}
	return limit
}
