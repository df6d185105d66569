package simulation

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// TestLapsed: an owner is cut off, and called absent or given up. The next one, which had its keys, is killed when the owner is back, while it hands
// them over. The owner takes what it has no ledger of for used, for it has not been the first all the time.
func TestLapsed(t *testing.T) {
	t.Parallel()
	const cut = 4 * time.Second
	r := rankOf(3, new(Settings).key(0))
	for _, back := range []time.Duration{18 * time.Second, 45 * time.Second} {
		for _, policy := range []protocol.Policy{protocol.Closed, protocol.Reserve} {
			for _, limit := range []string{"6/s burst 40", "50/10s sliding-log"} {
				over := int64(0)
				for gap := 40 * ms; gap < 900*ms; gap += 60 * ms {
					s := Settings{Seed: 1, Nodes: 3, Limit: weir.MustParseLimit(limit), Policy: policy, For: back + 4*time.Second, Found: true, Keys: 60, GiveUp: 30 * time.Second}
					s.asks(60 * 60)
					s.Faults.Delay = 20 * ms
					s.Parts = []Part{{From: cut, To: back, Deaf: func(from, to int) bool { return (from == r[0]) != (to == r[0]) }}}
					s.Acts = []Act{{At: back + gap, What: Kill, Node: r[1]}}
					s.Where = func(since time.Duration) int {
						switch {
						case since > back-1200*ms && since < back-10*ms:
							return r[1]
						case since > back+200*ms:
							return r[0]
						}
						return -1
					}
					over = max(over, run(t, s).Over)
				}
				t.Logf("back after %v, policy %d, %s: %d over", back-cut, policy, limit, over)
				if over > 0 {
					t.Errorf("back after %v, policy %d, %s: %d over", back-cut, policy, limit, over)
				}
			}
		}
	}
}
