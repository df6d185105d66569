package simulation

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// TestAbsent: by closed and reserve the keys of an owner that is killed, stands still, or is cut off pass again at others within four seconds,
// long before it is given up, and when it is back it has them. Nothing passes beyond the limit, whichever way it goes.
func TestAbsent(t *testing.T) {
	t.Parallel()
	const at, back, end, takes = 5 * time.Second, 15 * time.Second, 20 * time.Second, 4 * time.Second
	for _, policy := range []lease.Policy{lease.Closed, lease.Reserve} {
		for _, nodes := range []int{3, 10} {
			owner := first(nodes)
			off := func(i int) bool { return i == owner }
			for what, s := range map[string]Settings{
				"killed":        {Acts: []Act{{At: at, What: Kill, Node: owner}}},
				"cut off":       {Parts: []Part{{From: at, To: back, Deaf: func(from, to int) bool { return off(from) != off(to) }}}},
				"hears none":    {Parts: []Part{{From: at, To: back, Deaf: func(_, to int) bool { return off(to) }}}},
				"heard by none": {Parts: []Part{{From: at, To: back, Deaf: func(from, _ int) bool { return off(from) }}}},
			} {
				s.Seed, s.Nodes, s.Limit, s.Policy, s.Load, s.For, s.Found = 4, nodes, weir.MustParseLimit("1000/s burst 100"), policy, 3, end, true
				s.Where = func(since time.Duration) int { // the others are asked; and the owner, until nobody may be the first
					if i := int(since/time.Microsecond) % nodes; !off(i) || since < at+member.Quorum || since > back {
						return i
					}
					return (owner + 1) % nodes
				}
				r := run(t, s)
				during, after := r.Between(at+takes, back), r.Between(back+time.Second, end)
				t.Logf("policy %d, %d nodes, %s: over %d, from the fourth second on %d of %d pass, after it %d of %d", policy, nodes, what, r.Over, during.Passed, during.Ideal, after.Passed, after.Ideal)
				if r.Over > 0 || during.Passed*100 < during.Ideal*94 || after.Passed*100 < after.Ideal*94 {
					t.Errorf("policy %d, %d nodes, %s: want nothing over, and 94 %% of the limit", policy, nodes, what)
				}
			}
		}
	}
}
