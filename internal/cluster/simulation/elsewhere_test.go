package simulation

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// exact holds some runs to pass nothing beyond the limit, where where says who gets the n-th request.
func exact(t *testing.T, s Settings, where func(n int, since time.Duration) int) {
	t.Helper()
	over := int64(0)
	for s.Seed = range uint64(20) {
		n := 0
		s.Where = func(since time.Duration) int { n++; return where(n, since) }
		over = max(over, run(t, s).Over)
	}
	if over > 0 {
		t.Errorf("policy %d, %s: %d over", s.Policy, s.Limit, over)
	}
}

// TestLeavesElsewhere: the owner leaves in order, and hands its ledger to another than the one that would own the key then,
// for it does not hear that one. Leases of the ledger are in use.
func TestLeavesElsewhere(t *testing.T) {
	const late = 7120 * ms
	leaves := func(r []int, limit string, policy protocol.Policy) Settings {
		return Settings{
			Nodes: len(r), Limit: weir.MustParseLimit(limit), Policy: policy, Load: 40, For: 12 * time.Second, Found: true,
			Acts: []Act{{At: 7 * time.Second, What: Leave, Node: r[0]}},
		}
	}
	for _, limit := range []string{"500/s burst 50", "1000/s burst 50", "2000/s burst 100"} {
		r := rankOf(4, new(Settings).key(0))
		s := leaves(r, limit, protocol.Closed)
		s.Parts = []Part{ // the next one hears nobody; then it hears the owner, which has just left
			{From: 5 * time.Second, To: late, Deaf: func(_, to int) bool { return to == r[1] }},
			{From: late, To: 9 * time.Second, Deaf: func(from, to int) bool { return to == r[1] && from != r[0] }},
		}
		exact(t, s, func(n int, since time.Duration) int {
			switch {
			case since >= 6500*ms && since < 6985*ms && n%60 == 0, since >= 6995*ms && since < 7280*ms && n%1000 == 0:
				return r[2]
			case since >= 7150*ms && since < 7280*ms && n%300 == 7:
				return r[1]
			case since >= 7290*ms && since < 7345*ms:
				return r[1+n%2]
			}
			return -1
		})
	}
	for _, policy := range []protocol.Policy{protocol.Proportional, protocol.Reserve} {
		r := rankOf(5, new(Settings).key(0))
		s := leaves(r, "2000/s burst 100", policy)
		s.Parts = []Part{{From: 5 * time.Second, To: 9 * time.Second, Deaf: func(from, to int) bool { // two don't hear the next one
			return from == r[1] && (to == r[3] || to == r[4]) || (from == r[3] || from == r[4]) && to == r[1]
		}}}
		exact(t, s, func(n int, since time.Duration) int {
			switch {
			case since >= 6500*ms && since < 6985*ms && n%55 == 0, since >= 6995*ms && since < 7290*ms && n%4000 == 0:
				return r[2]
			case since >= 7150*ms && since < 7290*ms && n%1000 == 7:
				return r[3]
			case since >= 7150*ms && since < 7290*ms && n%1000 == 9:
				return r[1]
			case since >= 7295*ms && since < 7345*ms:
				return r[1+n%3]
			}
			return -1
		})
	}
}

// TestIdleAtHeal: a cut lasts for longer than a limit takes to recover. The ledger of the side without the owner is as
// never used when both hear each other again, and nobody tells of it.
func TestIdleAtHeal(t *testing.T) {
	r := rankOf(4, new(Settings).key(0))
	for limit, every := range map[string]int{"2/s burst 30": 100, "100/s burst 1500": 2} {
		s := Settings{Nodes: 4, Keys: 1, Limit: weir.MustParseLimit(limit), Load: 1, For: 50 * time.Second, Found: true}
		s.asks(2000)
		side := func(i int) bool { return i == r[0] || i == r[1] }
		s.Parts = []Part{{From: 3 * time.Second, To: 22 * time.Second, Deaf: func(from, to int) bool { return side(from) != side(to) }}}
		const late = 19500 * ms
		exact(t, s, func(n int, since time.Duration) int {
			switch {
			case since < 2500*ms && n%500 == 0, since >= 4*time.Second && since < 5*time.Second && n%4000 == 0, since >= late && since < late+500*ms, since >= 23500*ms:
				return r[0]
			case since >= late-100*ms && since < late && n%every == 0:
				return r[2]
			}
			return -1
		})
	}
}
