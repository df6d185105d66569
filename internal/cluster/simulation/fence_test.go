package simulation

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// TestFence holds a node whose name is given to another process while it lives, cut off, and that
// other process, to what one of them may pass: in all nothing passes beyond the limit, until it is
// given up, and by closed nothing after that either. Without a fence more passes.
func TestFence(t *testing.T) {
	t.Parallel()
	const cut, usurped, given = 3 * time.Second, 3400 * time.Millisecond, 30 * time.Second
	for _, limit := range []string{"100/s", "1000/min sliding-log", "1000/min fixed-window", "200/h"} {
		for policy, end := range map[protocol.Policy]time.Duration{
			protocol.Closed: 90 * time.Second, protocol.Proportional: usurped + given, protocol.Reserve: usurped + given,
		} {
			for _, fence := range []time.Duration{given, 0} {
				owner := first(3)
				s := Settings{Seed: 5, Nodes: 3, Spare: 1, Keys: 1, Limit: weir.MustParseLimit(limit), Policy: policy, For: end, Found: true, Fence: fence, GiveUp: given}
				s.asks(2000)
				s.Parts = []Part{{From: cut, To: end, Deaf: func(from, to int) bool { return (from == owner) != (to == owner) }}}
				s.Acts = []Act{{At: usurped, What: Usurp, Node: owner}}
				s.Where = func(since time.Duration) int { return int(since/time.Microsecond) % min(4, 3+int(since/usurped)) }
				r := run(t, s)
				t.Logf("%s, policy %d, fence %v: %v", limit, policy, fence, &r)
				if fence > 0 && r.Over > 0 {
					t.Errorf("%s, policy %d: %d over", limit, policy, r.Over)
				}
				if fence == 0 && r.Over == 0 && limit == "100/s" {
					t.Errorf("%s, policy %d: nothing over without a fence, so nothing is known of one", limit, policy)
				}
			}
		}
	}
}
