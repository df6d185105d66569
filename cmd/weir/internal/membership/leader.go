package membership

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/rules"
)

// Leaders is what GET /v1/cluster/leader of the admin listener tells: which nodes lead a rule.
type Leaders struct {
	Rule    string       `json:"rule"`
	Sharing weir.Sharing `json:"sharing"`
	Seats   []Seat       `json:"seats"`
}

// Seat is what leads a part of the rule's keys. There are several leaders while nodes don't reach each other.
type Seat struct {
	Leaders []Leader `json:"leaders"`
}

// Leader is a node, and how much of each limit it may let pass: Part/Of.
type Leader struct {
	Node string `json:"node,omitempty"` // empty: members that are not heard, and may have a leader of their own
	Part int64  `json:"part"`
	Of   int64  `json:"of"`
}

// HasLeaders is whether a node leads the rule, or is its hub.
func HasLeaders(r *rules.Rule) bool {
	return (r.Sharing == weir.SharingLeader || r.Sharing == weir.SharingHub) && !r.Unlimited
}

// SetRules tells which rules are active now.
func (n *Node) SetRules(set *rules.Set) {
	leaders, seats, named := map[string]int{}, 0, map[string]bool{}
	var led []*rules.Rule
	for _, r := range set.Rules() {
		if !HasLeaders(r) {
			continue
		}
		if r.Sharing == weir.SharingLeader {
			leaders[r.State("").Placement()] = r.Leaders
		}
		if named[r.Name] {
			continue // metrics tell rules of one name as one, the first
		}
		named[r.Name] = true
		if seats += max(r.Leaders, 1); seats <= maxLed {
			led = append(led, r)
		}
	}
	n.Store.Lead(leaders)
	n.led.Store(&led)
}

// maxLed is how many leaders metrics name: to find each out takes a look at all members.
const maxLed = 100

// Led are the active rules that nodes lead, with maxLed leaders at most.
func (n *Node) Led() []*rules.Rule {
	if led := n.led.Load(); led != nil {
		return *led
	}
	return nil
}

// Leaders tells which nodes lead a rule, as this node sees it.
func (n *Node) Leaders(r *rules.Rule) Leaders {
	l := Leaders{Rule: r.Name, Sharing: r.Sharing}
	if r.Sharing == weir.SharingHub {
		if hub := n.Store.Hub(r.State("")); hub != "" {
			l.Seats = []Seat{{[]Leader{{hub, 1, 1}}}}
		}
		return l
	}
	for _, leads := range n.Store.Leads(r.State(""), &r.Policy) {
		var seat Seat
		for _, of := range leads {
			seat.Leaders = append(seat.Leaders, leaderOf(of))
		}
		l.Seats = append(l.Seats, seat)
	}
	return l
}

// leaderOf is a leader, with its part in the lowest numbers.
func leaderOf(l lease.Lead) Leader {
	d := divisor(l.Part, l.Of)
	return Leader{l.Leader, l.Part / d, l.Of / d}
}

// divisor is the greatest that a and b have in common, at least 1.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, 1)
}

// String says who leads.
//
//	127.0.0.1:8083
//	2 leaders, 3/5 and 2/5: 127.0.0.1:8083, and one of members that this node can't reach, if they live
func (s *Seat) String() string {
	var parts, names []string
	for _, l := range s.Leaders {
		parts = append(parts, fmt.Sprintf("%d/%d", l.Part, l.Of))
		names = append(names, cmp.Or(l.Node, "one of members that this node can't reach, if they live"))
	}
	switch {
	case len(s.Leaders) == 0:
		return "none that all nodes reach: this node knows of no members yet, or nodes tell all others"
	case len(s.Leaders) == 1 && s.Leaders[0].Node != "":
		return names[0]
	case len(s.Leaders) == 1:
		return "none that this node can reach"
	}
	last := len(parts) - 1
	return fmt.Sprintf("%d leaders, %s and %s: %s, and %s", len(parts),
		strings.Join(parts[:last], ", "), parts[last], strings.Join(names[:last], ", "), names[last])
}
