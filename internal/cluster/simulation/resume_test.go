package simulation

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// TestResumes holds a node that is started again while it is cut off to what is its part: nothing
// passes beyond the limit, and by proportional it passes a third. Without a list of the members it
// would begin with all of the limit.
func TestResumes(t *testing.T) {
	const cut, killed, heals, end = 3 * time.Second, 6 * time.Second, 14 * time.Second, 20 * time.Second
	for _, policy := range []protocol.Policy{protocol.Proportional, protocol.Closed, protocol.Reserve} {
		for _, remembers := range []bool{true, false} {
			owner := first(3)
			s := Settings{Seed: 5, Nodes: 3, Limit: weir.MustParseLimit("100/s"), Policy: policy, Load: 10, For: end, Found: true, Remember: remembers}
			s.Parts = []Part{{From: cut, To: heals, Deaf: func(from, to int) bool { return (from == owner) != (to == owner) }}}
			s.Acts = []Act{{At: killed, What: Restart, Node: owner}}
			s.Where = func(since time.Duration) int {
				if since > killed && since < heals {
					return owner
				}
				return int(since/time.Microsecond) % 3
			}
			r := run(t, s)
			passed := r.Between(killed+2*time.Second, heals).Passed
			whole := int64((heals - killed - 2*time.Second).Seconds() * 100)
			t.Logf("policy %d, it remembers the others %v: %d over, %d of %d pass while it is cut off", policy, remembers, r.Over, passed, whole)
			least, most := int64(0), int64(0)
			switch {
			case policy == protocol.Proportional && remembers:
				least, most = whole*28/100, whole*34/100
			case policy == protocol.Reserve && remembers:
				most = whole * 4 / 100
			}
			if remembers && (r.Over > 0 || passed < least || passed > most) {
				t.Errorf("policy %d: %d over, and %d pass; want none, and %d to %d", policy, r.Over, passed, least, most)
			}
			after := r.Between(heals+2*time.Second, end)
			if after.Passed < after.Ideal*95/100 {
				t.Errorf("policy %d: %d of %d pass after it", policy, after.Passed, after.Ideal)
			}
		}
	}
}
