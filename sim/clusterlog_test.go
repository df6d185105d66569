package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim"
)

// TestClusterLog: however late nodes read what others appended to an event log, no more passes than the
// bound of that lag says. A log that takes fewer entries than come makes the lag grow, and nodes
// that wait too long for their own entries let nothing pass.
func TestClusterLog(t *testing.T) {
	for _, limit := range []string{"100/s", "1000/s burst 50", "100/s fixed-window", "100/s sliding-window"} {
		for _, nodes := range []int{2, 5, 20} {
			for _, load := range []int{1, 10} {
				for _, rate := range []int{0, 300} {
					t.Run(fmt.Sprintf("%s, %d nodes, %d times, %d a second", limit, nodes, load, rate), func(t *testing.T) {
						l := weir.MustParseLimit(limit)
						w, err := sim.ParseWorkload(fmt.Sprintf("poisson rate=%d/s clients=3", int64(load)*3*l.Spec().Count), l)
						if err != nil {
							t.Fatal(err)
						}
						f, err := sim.RunCluster(t.Context(), w, l, sim.ClusterOptions{
							Seed: 7, Duration: 8 * time.Second, Nodes: nodes, Sharing: sim.SharingLog, Delay: 4 * time.Millisecond, LogRate: rate,
						})
						if err != nil {
							t.Fatal(err)
						}
						t.Logf("over %d of %d, lag %dus, passed %d, on one node %d, asked %d", f.Over, *f.Ahead, *f.Lag, f.Passed, f.Ideal, f.Asked)
						switch {
						case f.Over > *f.Ahead:
							t.Errorf("%d over the limit; the bound is %d", f.Over, *f.Ahead)
						case rate == 0 && (*f.Lag > 50_000 || f.Passed < f.Ideal*9/10):
							t.Errorf("a lag of %dus of a log without a bound, and %d passed, %d on one node", *f.Lag, f.Passed, f.Ideal)
						case rate > 0 && nodes == 20 && *f.Lag < 200_000:
							t.Errorf("20 nodes and a lag of only %dus", *f.Lag)
						}
					})
				}
			}
		}
	}
}
