package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/simulation"
)

// The bounds of a cluster. A cluster beyond them is refused with the reason.
const (
	// MaxNodes is how many nodes a cluster may have.
	MaxNodes = 200
	// MaxClusterKeys is how many clients times nodes there may be.
	//
	// Each node keeps the state of each key that it is asked for, so memory grows with the
	// product.
	MaxClusterKeys = 1_000_000
	// MaxDelay is how long a message may take.
	MaxDelay = 10 * time.Second
)

// ClusterOptions say which nodes share the limit, and how.
type ClusterOptions struct {
	// Seed is what all chance comes from. 0 is a seed like any other.
	Seed uint64
	// Duration is for how long requests come. 0: what suits the workload.
	Duration time.Duration

	Nodes     int          // 1…MaxNodes
	Sharing   weir.Sharing // a word of rules, or SharingLog
	Partition weir.Partition
	// Skewed sends some nodes more requests than others: the first one of N nearly
	// twice its part.
	Skewed bool

	Delay time.Duration // messages take up to this, and at least half
	Loss  int           // messages in a thousand that are lost
	// Cut is for how long the first half of the nodes and the others don't hear each
	// other, from a quarter of the duration on. 0: not at all.
	Cut time.Duration
	// LogRate is how many entries a second the log of SharingLog takes: with more, they wait for each
	// other, and nodes learn of each other's events later. 0: any number.
	LogRate int
}

// SharingLog is how nodes share that tell each other through an event log, as daemons with
// --store kafka://… do. It is no word of rules.
const SharingLog = bounds.Log

// LogMost is how long a node waits at most to read back what it has appended to the log; one that
// waits longer denies, as by a fallback that is closed.
const LogMost = bounds.LogMost

// ClusterFigures tell what came of requests that go to the nodes of a cluster, by
// chance.
type ClusterFigures struct {
	Sharing weir.Sharing `json:"sharing"`
	Nodes   int          `json:"nodes"`

	Asked  int64 `json:"asked"`
	Passed int64 `json:"passed"`
	// Ideal is how many of the same requests one node would have let pass.
	Ideal int64 `json:"passed_on_one_node"`
	// Over is the most events of one key that were in use beyond the limit, at any time,
	// for somebody who knows of all: of a bucket the most beyond burst and pace in any interval.
	Over int64 `json:"over"`
	// Ahead is what Over can't be more than, by proof: weir.Limit.Ahead. It is nil where messages are
	// lost or cut off, for then nothing is promised.
	Ahead *int64 `json:"over_bound"`
	// Messages and Bytes are what all nodes have sent; Heartbeats is what they sent, where
	// something was cut, to tell each other that they live.
	Messages   int64 `json:"messages"`
	Bytes      int64 `json:"bytes"`
	Heartbeats int64 `json:"beats"`
	// Lag is the longest that it took until all nodes had read of an event from the log, in
	// microseconds. It is nil where there is no log.
	Lag *int64 `json:"lag_us,omitempty"`
}

// cluster is one run.
//
// Three parties see each request. The nodes decide it by their own code, with what they know by
// then. ideal is one node that gets them all. truth decides nothing, and is told at once of all
// that any node lets pass. Over comes from truth alone; ideal is there to tell how much the
// sharing denies that one node would not.
type cluster struct {
	nodes *simulation.Cluster
	limit *weir.Limit
	// store decides in place of nodes, which then only tell the time; nil: they decide.
	store *leases
	// owing is the limit with as much debt as there can be: truth must count what passed beyond
	// the burst, and a bucket without debt would forget it.
	owing *weir.Limit
	// most is what a key never used lets pass at once. Used of truth beyond it is events that the
	// limit would have denied.
	most int64
	// A name is the number of the client, in 4 bytes.
	names   []string     // of keys
	ideal   []weir.State // by key
	truth   []weir.State // by key: all that has passed
	figures ClusterFigures
}

// warming is how long nodes run before the first request.
//
// In this time they find each other. Their messages do not count yet: figures are of a cluster
// that has been up for a while.
const warming = 3 * time.Second

// RunCluster sends the requests of a workload to the nodes of a cluster that share l, and
// runs the code of those nodes. It fails when something is beyond its bound, or when ctx ends.
//
// All nodes run in this goroutine, on the virtual time and network of package simulation; a message
// is an event at a later moment. So a run of many nodes is as repeatable as one of a single limit.
func RunCluster(ctx context.Context, w *Workload, l *weir.Limit, o ClusterOptions) (*ClusterFigures, error) {
	if o.Duration == 0 {
		o.Duration = w.Duration()
	}
	if err := o.check(w, l); err != nil {
		return nil, err
	}
	start := w.start()
	nodes, err := simulation.New(start-weir.Instant(warming.Microseconds()), simulation.Settings{
		Seed: o.Seed, Nodes: o.Nodes, Sharing: o.told(), Keys: w.Clients(), Together: o.Cut == 0,
		Faults: simulation.Faults{Delay: o.Delay, Loss: o.Loss}, LogRate: o.LogRate,
	})
	if err != nil {
		return nil, fmt.Errorf("simulate a cluster: %w", err)
	}
	most, _ := l.Standing(nil, start)
	c := &cluster{
		nodes: nodes, limit: l, owing: counter.Owing(l), most: most, ideal: make([]weir.State, w.Clients()), truth: make([]weir.State, w.Clients()),
		figures: ClusterFigures{Nodes: o.Nodes, Sharing: o.Sharing},
	}
	for i := range w.Clients() {
		c.names = append(c.names, string(binary.BigEndian.AppendUint32(nil, uint32(i))))
	}
	if o.Sharing == SharingStore {
		c.store = newLeases(l, &o, c.names, start, nodes.At)
	}
	if o.Cut > 0 {
		at := start + weir.Instant(o.Duration.Microseconds()/4)
		first := func(i int) bool { return i < (o.Nodes+1)/2 }
		nodes.At(at, func(now weir.Instant) {
			nodes.Part(now, now+weir.Instant(o.Cut.Microseconds()), func(from, to int) bool { return first(from) != first(to) })
		})
	}
	nodes.Until(start)
	nodes.Stats = simulation.Stats{}
	largest, err := c.run(ctx, w.requests(o.Seed, o.Duration), &o, start+weir.Instant(o.Duration.Microseconds()))
	if err != nil {
		return nil, err
	}
	// The bound depends on the largest cost, so it is computed when that is known.
	delay := bounds.Delay(o.Sharing, o.Nodes, o.Delay)
	if o.Sharing == SharingLog {
		c.figures.Lag = new(int64(nodes.Lag))
		delay = min(nodes.Lag.Duration(), bounds.LogWorst) // beyond, nodes let nothing pass
	}
	if o.Loss == 0 && o.Cut == 0 {
		c.figures.Ahead = new(int64)
		if o.Sharing != SharingStore {
			*c.figures.Ahead = bounds.Ahead(l, o.Sharing, o.Nodes, delay, largest)
		}
	}
	return &c.figures, nil
}

func (o *ClusterOptions) check(w *Workload, l *weir.Limit) error {
	switch {
	case o.Nodes < 1 || o.Nodes > MaxNodes:
		return inputf("%d nodes; there must be 1…%d", o.Nodes, MaxNodes)
	case o.Nodes*w.Clients() > MaxClusterKeys:
		return inputf("%d clients of %d nodes are more than %d together; take fewer", w.Clients(), o.Nodes, MaxClusterKeys)
	case o.Duration < time.Microsecond || o.Duration > MaxDuration:
		return inputf("the duration is %v; it must be 1us…407day", o.Duration)
	case o.Delay < 0 || o.Delay > MaxDelay || o.Loss < 0 || o.Loss > 999:
		return inputf("messages take %v, and %d of a thousand are lost; it must be 0s…%v and 0…999", o.Delay, o.Loss, MaxDelay)
	case o.Cut < 0 || o.Cut > o.Duration:
		return inputf("a cut of %v; it must be no longer than the run, %v", o.Cut, o.Duration)
	case o.Sharing == SharingLog && (o.Loss > 0 || o.Cut > 0):
		return inputf("nodes that share by an event log send each other nothing that is lost or cut; leave out loss and cut")
	case o.LogRate < 0 || o.LogRate > 0 && o.Sharing != SharingLog:
		return inputf("a log takes %d entries a second; it must be more than 0, for nodes that share by %s", o.LogRate, SharingLog)
	case w.settings.tries > 1:
		return inputf("requests to a cluster are made once; leave out tries=%d", w.settings.tries)
	}
	if err := unfit(l); err != nil {
		return err
	}
	if why := o.Unfit(l); why != "" {
		return inputf("%s can't be shared by %s: %s", l, o.Sharing, why)
	}
	return nil
}

// Unfit says why such nodes can't share l, and what to take instead; empty when they can.
func (o *ClusterOptions) Unfit(l *weir.Limit) string {
	if o.Sharing == SharingStore {
		return l.Unleasable()
	}
	if why := bounds.Unfit(o.Sharing, l, o.Nodes); why != "" || !o.owned() {
		return why
	}
	return protocol.Unfit(l)
}

// owned is whether each key has an owner.
func (o *ClusterOptions) owned() bool {
	return slices.Contains([]weir.Sharing{weir.SharingLease, weir.SharingSticky, weir.SharingLeader}, o.Sharing)
}

// told is how the nodes of the cluster share: not at all where a store decides.
func (o *ClusterOptions) told() weir.Sharing {
	if o.Sharing == SharingStore {
		return weir.SharingDivided
	}
	return o.Sharing
}

// clusterRule is the rule of all keys.
const clusterRule = "sim"

// run sends all requests, and returns the largest cost.
func (c *cluster) run(ctx context.Context, requests source, o *ClusterOptions, end weir.Instant) (largest int64, err error) {
	// The node of a request has a stream of its own: other numbers of nodes get the same requests.
	chance := newDraw(o.Seed, 'n')
	for n := 0; ; n++ {
		r, more := requests()
		if !more {
			break
		}
		if n == MaxRequests {
			return 0, inputf("more than %d requests, or moments for one; take a shorter duration, or lower rates", MaxRequests)
		}
		if n%checkEvery == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if r.Client == nobody {
			continue
		}
		largest = max(largest, r.Cost)
		to := chance.below(uint64(o.Nodes))
		if o.Skewed {
			to = min(to, chance.below(uint64(o.Nodes)))
		}
		// First the nodes do all that is due up to this moment.
		c.nodes.Until(r.At)
		c.request(&r, int(to), o)
	}
	// Messages are counted up to the end of the requests. Events that pass within a second after
	// it still count, as they were asked for in time.
	c.nodes.Until(end)
	c.figures.Messages, c.figures.Bytes, c.figures.Heartbeats = c.nodes.Messages, c.nodes.Bytes, c.nodes.Heartbeats
	if c.store != nil {
		c.figures.Messages, c.figures.Bytes = c.store.messages, c.store.bytes
	}
	c.nodes.Until(end + weir.Instant(time.Second.Microseconds())) // for answers on their way
	return largest, nil
}

// request has one node decide a request, and ideal, too. A node that has to ask another answers
// later, at now of the callback: the events pass then, and not when they were asked for. A request
// without an answer has passed nothing.
func (c *cluster) request(r *Request, node int, o *ClusterOptions) {
	c.figures.Asked++
	var d weir.Decision
	c.ideal[r.Client] = c.limit.Take(c.ideal[r.Client], r.At, r.Cost, &d)
	if d.Outcome == weir.Allowed {
		c.figures.Ideal++
	}
	a := weir.Ask{State: weir.StateKey{Rule: clusterRule, Key: c.names[r.Client]}, Limit: c.limit, Cost: r.Cost, Policy: weir.Policy{Sharing: o.Sharing, Partition: o.Partition}}
	client, cost := r.Client, r.Cost
	answered := func(now weir.Instant, d weir.Decision) {
		if d.Outcome == weir.Allowed {
			c.passes(now, client, cost)
		}
	}
	if c.store != nil {
		c.store.ask(r.At, node, int(client), leaseRequest{cost: cost, answered: answered})
		return
	}
	c.nodes.Ask(r.At, node, &a, answered)
}

// passes charges what a node has let pass to the state of one who knows of all.
//
// Over can only grow at a charge, so it is looked at here and nowhere else. Between charges what
// is in use does not grow.
func (c *cluster) passes(now weir.Instant, client int32, cost int64) {
	c.figures.Passed++
	if cost == 0 {
		return
	}
	c.truth[client] = c.owing.Charge(c.truth[client], now, cost)
	c.figures.Over = max(c.figures.Over, c.owing.Used(c.truth[client], now)-c.most)
}
