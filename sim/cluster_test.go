package sim_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/sim"
)

// TestClusterBound holds what passes beyond the limit to what is promised, in every
// cell of nodes × mode × load; with owners, and divided, that is nothing. All messages have bytes.
func TestClusterBound(t *testing.T) {
	for _, text := range []string{"10/s", "100/s burst 20", "100/s fixed-window", "1000/s"} {
		l := weir.MustParseLimit(text)
		for _, nodes := range []int{2, 5, 20} {
			for _, how := range []weir.Sharing{weir.SharingLease, weir.SharingLeader, weir.SharingSticky, weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided, sim.SharingStore} {
				for _, load := range []int64{1, 10} {
					workload := fmt.Sprintf("poisson rate=%d/s", load*l.Spec().Count)
					w, err := sim.ParseWorkload(workload, l)
					if err != nil {
						t.Fatal(err)
					}
					if how != sim.SharingStore && bounds.Unfit(how, l, nodes) != "" {
						continue
					}
					f, err := sim.RunCluster(t.Context(), w, l, sim.ClusterOptions{Seed: 3, Duration: 4 * time.Second, Nodes: nodes, Sharing: how, Delay: time.Millisecond, Skewed: true})
					if err != nil {
						t.Fatal(err)
					}
					if f.Ahead == nil || f.Over > *f.Ahead || f.Passed == 0 || f.Ideal == 0 {
						t.Errorf("%s on %d nodes, %s, %s: %+v", text, nodes, how, workload, *f)
					}
					if f.Bytes < 10*f.Messages || (f.Messages == 0) != (how == weir.SharingDivided) {
						t.Errorf("%s on %d nodes, %s: %d messages have %d bytes", text, nodes, how, f.Messages, f.Bytes)
					}
				}
			}
		}
	}
}

// TestClusterSeed holds a seed to be all that a run depends on, and a cut to be one: nothing
// is promised then, and lease nodes tell each other that they live.
func TestClusterSeed(t *testing.T) {
	l := weir.MustParseLimit("100/s")
	w, err := sim.ParseWorkload("poisson rate=1000/s clients=3", l)
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []weir.Sharing{weir.SharingLease, weir.SharingLeader, weir.SharingMesh, weir.SharingHub, sim.SharingStore} {
		o := sim.ClusterOptions{Seed: 7, Duration: 8 * time.Second, Nodes: 5, Sharing: how, Delay: time.Millisecond, Loss: 10, Cut: 4 * time.Second}
		f, err := sim.RunCluster(t.Context(), w, l, o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := sim.RunCluster(t.Context(), w, l, o)
		if diff := cmp.Diff(f, again); err != nil || diff != "" {
			t.Errorf("%s: twice the same seed differs: %v\n%s", how, err, diff)
		}
		if f.Ahead != nil || (f.Heartbeats > 0) != (how == weir.SharingLease || how == weir.SharingLeader) || f.Passed < f.Ideal*9/10 {
			t.Errorf("%s: %+v", how, *f)
		}
	}
}

func TestClusterInput(t *testing.T) {
	l := weir.MustParseLimit("100/s")
	good := sim.ClusterOptions{Duration: time.Second, Nodes: 2, Sharing: weir.SharingMesh}
	for name, row := range map[string]struct {
		limit, workload string
		change          func(*sim.ClusterOptions)
	}{
		"no nodes":       {"100/s", "poisson", func(o *sim.ClusterOptions) { o.Nodes = 0 }},
		"many nodes":     {"100/s", "poisson", func(o *sim.ClusterOptions) { o.Nodes = sim.MaxNodes + 1 }},
		"many keys":      {"100/s", "poisson clients=600000", func(*sim.ClusterOptions) {}},
		"tries":          {"100/s", "poisson tries=2", func(*sim.ClusterOptions) {}},
		"slow messages":  {"100/s", "poisson", func(o *sim.ClusterOptions) { o.Delay = sim.MaxDelay + 1 }},
		"all lost":       {"100/s", "poisson", func(o *sim.ClusterOptions) { o.Loss = 1000 }},
		"a long cut":     {"100/s", "poisson", func(o *sim.ClusterOptions) { o.Cut = 2 * time.Second }},
		"a log":          {"100/s sliding-log", "poisson", func(*sim.ClusterOptions) {}},
		"permits":        {"100 concurrent", "poisson", func(o *sim.ClusterOptions) { o.Sharing = weir.SharingDivided }},
		"a queue, lent":  {"100/s leaky-queue", "poisson", func(o *sim.ClusterOptions) { o.Sharing = weir.SharingLease }},
		"parts too many": {"1/s", "poisson", func(o *sim.ClusterOptions) { o.Sharing = weir.SharingDivided }},
	} {
		w, err := sim.ParseWorkload(row.workload, l)
		if err != nil {
			t.Fatal(err)
		}
		o := good
		row.change(&o)
		_, err = sim.RunCluster(t.Context(), w, weir.MustParseLimit(row.limit), o)
		if _, ok := errors.AsType[*sim.InputError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
