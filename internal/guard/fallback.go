package guard

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"github.com/weir-limit/weir"
)

// fallbackIndex is where a fallback is counted. The zero Fallback is local, too.
func fallbackIndex(f weir.Fallback) int {
	switch f {
	case weir.FallbackOpen:
		return 1
	case weir.FallbackClosed:
		return 2
	case weir.FallbackLocal:
	}
	return 0
}

// localMark tells the local counts, and receipts of them, from those of the
// store. It is part of the key, so a receipt says itself where it was made, and no table has to
// remember that for as long as receipts live.
const localMark = "local\x00"

// Local is whether the count of a receipt is this process's own, for the store was away.
func Local(k weir.StateKey) bool { return strings.HasPrefix(k.Rule, localMark) }

// storeKey is the key in the store of a local one.
func storeKey(k weir.StateKey) weir.StateKey {
	return weir.StateKey{Rule: strings.TrimPrefix(k.Rule, localMark), Key: k.Key}
}

func localKey(k weir.StateKey) weir.StateKey {
	return weir.StateKey{Rule: localMark + k.Rule, Key: k.Key}
}

// fallBack decides the asks without the store. An ask that is open allows, one that is closed
// denies, and a count in this process decides any other. A take may have all three: then it passes
// if all that is enforced allows, as ever, and only local counts are charged. An ask that is closed
// and enforced makes the take fail, so the local ones only look.
//
// The local count is one of 1/n of the limit where n nodes share it, and goes on from what the store
// said last. The guard keeps the events that it lets pass, and reports them (unreported.go). Permits are not: the
// store could not free them.
//
// A caller that leaves does not stop the local decision, which is made in memory: so whatever it
// charges is kept for the store, too. Only events that were charged are kept, so an ask that peeks or is
// denied leaves nothing to tell.
func (g *Guard) fallBack(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	var local []weir.Ask
	var at []int
	shut := false
	for i := range asks {
		a := &asks[i]
		out[i] = weir.Decision{Cost: a.Cost, Degraded: a.Policy.Fallback}
		a.Evidence.Clear() // of a try that failed
		g.counts[fallbackIndex(a.Policy.Fallback)].Add(1)
		switch a.Policy.Fallback {
		case weir.FallbackOpen:
			out[i].Outcome = weir.Allowed
			out[i].Remaining, _ = a.Limit.Standing(nil, 0) // of a key never used: nobody counts
		case weir.FallbackClosed:
			out[i].Outcome = weir.Denied
			shut = shut || !a.Shadow && !a.Quota
		case weir.FallbackLocal:
			fallthrough
		default:
			out[i].Degraded = weir.FallbackLocal
			b, nodes := *a, cmp.Or(a.Policy.Nodes, g.nodes())
			b.State, b.Limit, b.Evidence = localKey(a.State), g.shares.of(a.Limit, nodes), nil
			if err := g.goOn(a.State, nodes); err != nil {
				return err
			}
			local, at = append(local, b), append(at, i)
		}
	}
	if len(local) == 0 {
		return nil
	}
	for i := range local {
		local[i].Peek = local[i].Peek || shut && !local[i].After
	}
	decisions := make([]weir.Decision, len(local))
	if err := g.local.Take(context.WithoutCancel(ctx), local, decisions); err != nil {
		return err
	}
	for i, d := range decisions {
		d.Degraded = weir.FallbackLocal
		out[at[i]] = d
		if d.Charged && local[i].Limit.Algorithm() != weir.Concurrent {
			g.said.pass(asks[at[i]].State, d.Cost)
			g.keep(asks[at[i]].State, asks[at[i]].Limit, local[i].Limit, d.Cost, d.ResetAfter)
		}
	}
	return nil
}

// maxShares is how many parts of limits are remembered; then all are forgotten, and worked out anew as
// they are needed. Limits that come with requests may be any number.
const maxShares = 1 << 13

// shares remembers the parts of limits: a limit is parsed text, and a part of it is worked out anew
// only once, not for each take of an outage.
type shares struct {
	mu    sync.Mutex
	parts map[part]*weir.Limit
}

// part is a limit, by its address, and the number of nodes that share it. Two limits of equal text are
// two parts: that costs memory, and no more.
type part struct {
	limit *weir.Limit
	nodes int
}

func (s *shares) of(l *weir.Limit, nodes int) *weir.Limit {
	if nodes <= 1 {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := part{l, nodes}
	if s.parts[key] == nil {
		if s.parts == nil || len(s.parts) >= maxShares {
			s.parts = map[part]*weir.Limit{}
		}
		s.parts[key] = Share(l, nodes)
	}
	return s.parts[key]
}

// Share is the part of a limit that one of so many nodes may pass by itself: the
// count by the number of nodes, rounded down, but not nothing. So together they
// pass no more than the limit, or one event each.
//
// Burst, debt, first burst and queue are divided likewise. That may give a limit which its algorithm
// refuses, for it would take too long to recover from a burst. Then the burst is at most the count,
// and debts are not allowed. Every algorithm accepts that, and it passes less than the part would.
func Share(l *weir.Limit, nodes int) *weir.Limit {
	s := l.Spec()
	if s.Count == 0 || nodes <= 1 {
		return l
	}
	n := int64(nodes)
	part := func(count int64) int64 { return max(count/n, min(count, 1)) }
	s.Count, s.Burst, s.Debt = part(s.Count), part(s.Burst), part(s.Debt)
	if s.Initial != nil {
		*s.Initial = min(part(*s.Initial), s.Burst)
	}
	if s.Queue != nil {
		*s.Queue = part(*s.Queue+1) - 1 // one goes at once, before who waits
	}
	parted, err := s.Limit()
	if err != nil { // by rounding the count down, the burst would take too long to come back
		s.Burst, s.Debt = min(s.Burst, s.Count), 0
		if s.Initial != nil {
			*s.Initial = min(*s.Initial, s.Burst)
		}
		if s.Queue != nil {
			*s.Queue = min(*s.Queue, s.Count)
		}
		parted, err = s.Limit()
	}
	if err != nil {
		panic("guard: no part of " + l.String() + ": " + err.Error()) // a limit of count and period alone is one
	}
	return parted
}
