package simulation

import (
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// TestFirsts holds processes to what I18 promises, and to nothing over by closed, while each direction of each link goes on and off by itself: at no
// moment may two of them be the first of one key.
func TestFirsts(t *testing.T) {
	t.Parallel()
	looks, led := int64(0), int64(0)
	seeds(t, 30, func(n uint64) time.Duration {
		s := Edges(n)
		r := run(t, s)
		over := r.Over > 0 && (s.Policy == protocol.Closed || s.For <= s.GiveUp) // by reserve a tenth is proportional
		if r.Firsts > 0 || over {
			t.Fatalf("seed %d, %s, %d moments with two firsts, first %s; %+v: %v. Again: go test ./internal/cluster/simulation -run Firsts -seed %d", n, s.Limit, r.Firsts, r.FirstFirsts, s, &r, n)
		}
		looks, led = looks+r.Looks, led+r.Led
		return s.For
	})
	t.Logf("of a key nobody was the first for %.1f %% of the time", 100-100*float64(led)/float64(max(looks, 1)))
}
