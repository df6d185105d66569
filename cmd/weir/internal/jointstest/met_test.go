package jointstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// met is which listeners were asked in which house after which events: what was met of the
// places where the parts meet.
type met struct {
	house   string
	events  map[string]int
	after   map[meeting]int
	starved bool // whether the machine had no time for a node of this story
}

// meeting is that a listener of a house was asked after an event, or after none.
type meeting struct{ house, listener, event string }

func newMet(house string) *met {
	return &met{house: house, events: map[string]int{}, after: map[meeting]int{}}
}

// done is that a step was played.
func (m *met) done(s *step) {
	switch s.op {
	case "check":
	case "store":
		m.events["store "+s.what]++
	case "clock":
		m.events[map[bool]string{true: "clock back", false: "clock on"}[s.by < 0]]++
	default:
		m.events[s.op]++
	}
}

func (m *met) asked(s *step) {
	m.after[meeting{m.house, s.listener, ""}]++
	for event := range m.events {
		m.after[meeting{m.house, s.listener, event}]++
	}
}

// add adds what a story met to what others did.
func (m *met) add(o *met) {
	if o == nil {
		return
	}
	for event, n := range o.events {
		m.events[event] += n
	}
	for at, n := range o.after {
		m.after[at] += n
	}
}

// String is a line for each house and listener: how often it was asked, after which events
// it was, and after which of those that the house knows it was not.
func (m *met) String() string {
	known, lines := map[string][]string{}, map[string]int{}
	for at, n := range m.after {
		lines[at.house+", "+at.listener] += 0
		if at.event == "" {
			lines[at.house+", "+at.listener] += n
		} else if !slices.Contains(known[at.house], at.event) {
			known[at.house] = append(known[at.house], at.event)
		}
	}
	var b strings.Builder
	pairs, missed := 0, 0
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		house, listener, _ := strings.Cut(line, ", ")
		var after, never []string
		slices.Sort(known[house])
		for _, event := range known[house] {
			pairs++
			if n := m.after[meeting{house, listener, event}]; n > 0 {
				after = append(after, fmt.Sprintf("%s %d", event, n))
			} else {
				never, missed = append(never, event), missed+1
			}
		}
		fmt.Fprintf(&b, "%-18s %-10s %7d asked; after %s", house, listener, lines[line], strings.Join(after, ", "))
		if len(never) > 0 {
			fmt.Fprintf(&b, "; never after %s", strings.Join(never, ", "))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "events:")
	for _, event := range slices.Sorted(maps.Keys(m.events)) {
		fmt.Fprintf(&b, " %s %d", event, m.events[event])
	}
	return fmt.Sprintf("%s\nlistener × house × event: %d of %d met", b.String(), pairs-missed, pairs)
}
