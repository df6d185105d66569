package rules

import "strings"

// pattern is a text in which each * stands for any text, also none: what stands between the *s,
// which may be empty. /api/*/raw is "/api/" and "/raw", a single * is two empty parts, and a text
// without * is one part.
type pattern []string

func newPattern(text string) pattern { return strings.Split(text, "*") }

func (p pattern) wild() bool { return len(p) > 1 }

// literals is how many bytes every text that fits has at least.
func (p pattern) literals() (n int) {
	for _, part := range p {
		n += len(part)
	}
	return n
}

// matches is whether the whole of text fits. Taking each middle part where it
// first occurs leaves the most for those after it, so no choice is ever
// regretted.
func (p pattern) matches(text string) bool {
	first, last := p[0], p[len(p)-1]
	if !p.wild() {
		return text == first
	}
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range p[1 : len(p)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}
