package membership

import (
	"context"
	"time"

	"github.com/weir-limit/weir/internal/sleep"
)

// flow is how many messages went to and fro until a time, and how many a second in
// the time before it; -1: nobody knows.
type flow struct {
	at              time.Time
	in, out         uint64
	rateIn, rateOut int64
}

// measureEvery is over how long messages are counted.
const measureEvery = 10 * time.Second

// KeepMeasuring looks at how much is said until ctx ends.
func (n *Node) KeepMeasuring(ctx context.Context) {
	sleep.Every(ctx, measureEvery, n.measure)
}

// Rates are how many messages a second the node hears and sends; false before they were
// measured.
func (n *Node) Rates() (in, out int64, ok bool) {
	f := n.flow.Load()
	if f == nil || f.rateIn < 0 {
		return 0, 0, false
	}
	return f.rateIn, f.rateOut, true
}

// measure looks at how much was said so far.
func (n *Node) measure(now time.Time) {
	if g := n.gossip.Load(); g != nil {
		s := g.Stats()
		n.flow.Store(n.flow.Load().next(now, s.In.Messages, s.Out.Messages))
	}
}

// next is the flow when so many messages have gone to and fro in all.
func (f *flow) next(now time.Time, in, out uint64) *flow {
	next := &flow{at: now, in: in, out: out, rateIn: -1, rateOut: -1}
	if f != nil && now.After(f.at) {
		next.rateIn, next.rateOut = rate(in-f.in, now.Sub(f.at)), rate(out-f.out, now.Sub(f.at))
	}
	return next
}

// rate is how many of n there are in a second, rounded to the nearest.
func rate(n uint64, took time.Duration) int64 {
	return int64((n*uint64(time.Second) + uint64(took)/2) / uint64(took))
}
