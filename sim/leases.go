package sim

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/internal/storewire"
)

// SharingStore is the nodes of no cluster: they keep their counts in a store that they all ask, with
// lease: 100ms in the rule (weir.Policy.Lease).
const SharingStore weir.Sharing = "store"

// storeLease is the lease of SharingStore.
const storeLease = 100 * time.Millisecond

// leases are nodes on one store. Each node decides by its holdings, which are those of the edge; what is
// simulated is the way to the store and back, and the store. The messages are those of programs whose store is a
// daemon.
type leases struct {
	limit    *weir.Limit
	policy   weir.Policy
	network  ClusterOptions
	chance   *draw
	at       func(at weir.Instant, do func(now weir.Instant))
	start    weir.Instant
	parted   [2]weir.Instant // from when until when the second half of the nodes can't reach the store
	holdings [][]holder      // by node and client
	store    []weir.State    // by client
	names    []string        // of clients
	messages int64
	bytes    int64 // of messages
}

// holder is what a node has of one client.
type holder struct {
	leased.Holding

	flying  bool // a portion is asked for
	waiting []leaseRequest
}

// leaseRequest is a request that waits for a portion.
type leaseRequest struct {
	cost     int64
	tries    int
	answered func(now weir.Instant, d weir.Decision)
}

func newLeases(
	l *weir.Limit, o *ClusterOptions, names []string, start weir.Instant, at func(weir.Instant, func(weir.Instant)),
) *leases {
	s := &leases{
		limit: l, policy: weir.Policy{Lease: storeLease, Nodes: o.Nodes}, network: *o,
		chance: newDraw(o.Seed, 'w'), at: at, start: start,
		holdings: make([][]holder, o.Nodes), store: make([]weir.State, len(names)), names: names,
	}
	for i := range s.holdings {
		s.holdings[i] = make([]holder, len(names))
	}
	if o.Cut > 0 {
		from := start + weir.Instant(o.Duration.Microseconds()/4)
		s.parted = [2]weir.Instant{from, from + weir.Instant(o.Cut.Microseconds())}
	}
	return s
}

// since is the time of holdings.
func (s *leases) since(now weir.Instant) time.Duration { return (now - s.start).Duration() }

// say counts a message.
func (s *leases) say(m storewire.Written) {
	s.messages++
	s.bytes += int64(len(m.Append(nil)))
}

// takes is the message by which a node asks the store, and decides the answer.
func takes(a *weir.Ask) storewire.Written {
	return storewire.Batch{storewire.AppendTake(nil, []weir.Ask{*a})}
}

func decides(d *weir.Decision) storewire.Written {
	return &storewire.TakeResponse{Answers: []storewire.Answer{{Decisions: []weir.Decision{*d}}}}
}

// send has a message arrive, or not: it is lost, or the node can't reach the store.
func (s *leases) send(now weir.Instant, node int, m storewire.Written, arrives func(now weir.Instant)) {
	s.say(m)
	took := int64(0)
	if d := s.network.Delay.Microseconds(); d > 0 {
		took = d/2 + int64(s.chance.below(uint64(d-d/2+1)))
	}
	cut := node >= (s.network.Nodes+1)/2 && now >= s.parted[0] && now < s.parted[1]
	if cut || s.chance.below(1000) < uint64(s.network.Loss) {
		return
	}
	s.at(now+weir.Instant(took), arrives)
}

// patience is how long a node waits for an answer of the store.
const patience = 400 * time.Millisecond

// ask has a node decide a request. A request whose portion never comes is denied, as by fallback: closed.
func (s *leases) ask(now weir.Instant, node, client int, r leaseRequest) {
	h, t := &s.holdings[node][client], s.since(now)
	if !h.Fits(s.limit, &s.policy) {
		h.Begin(t, s.limit, &s.policy)
	}
	if r.tries == 0 {
		h.Wants(r.cost)
	}
	var d weir.Decision
	switch verdict := h.Decide(t, r.cost, &d); {
	case verdict == leased.ByNode:
		d.Charged = d.Outcome == weir.Allowed
		h.Commit(t, &d)
		r.answered(now, d)
		s.tend(now, node, client)
	case verdict == leased.ByStore || r.tries > 2:
		a := s.request(client, r.cost)
		s.send(now, node, takes(&a), func(now weir.Instant) {
			d := s.take(now, client, &a)
			s.say(decides(&d))
			r.answered(now, d)
		})
	case h.flying:
		r.tries++
		h.waiting = append(h.waiting, r)
	default:
		s.fly(now, node, client, &r)
	}
}

// request is what a node asks the store about a client.
func (s *leases) request(client int, cost int64) weir.Ask {
	return weir.Ask{State: weir.StateKey{Rule: clusterRule, Key: s.names[client]}, Limit: s.limit, Cost: cost}
}

// tend gives back a portion that is over, and asks for the next one in time.
func (s *leases) tend(now weir.Instant, node, client int) {
	h, t := &s.holdings[node][client], s.since(now)
	switch {
	case h.flying:
	case h.Low(t):
		s.fly(now, node, client, nil)
	case h.Left(t) == 0:
		s.giveBack(now, node, client)
	}
}

// fly asks the store for a portion, for a request or for none. The request is answered by the store, at
// the time when that decides.
func (s *leases) fly(now weir.Instant, node, client int, r *leaseRequest) {
	h := &s.holdings[node][client]
	h.flying = true
	cost := int64(1)
	if r != nil {
		cost = r.cost
	}
	events, least := h.Need(s.since(now), cost)
	a := s.request(client, events)
	a.AtLeast, a.Receipt = least, s.chance.below(1<<62)+1
	landed := false
	s.send(now, node, takes(&a), func(at weir.Instant) {
		d := s.take(at, client, &a)
		if d.Outcome != weir.Allowed && least == 0 && events > cost {
			s.say(decides(&d))
			a.AtLeast = cost // the second try takes what there is
			s.say(takes(&a))
			d = s.take(at, client, &a)
		}
		own := int64(0)
		if r != nil {
			r.answered(at, weir.Decision{Outcome: d.Outcome})
			own = r.cost
		}
		s.send(at, node, decides(&d), func(back weir.Instant) {
			landed = true
			if d.Receipt != nil && !h.Keeps(s.since(back), d.Receipt) {
				s.giveBack(back, node, client)
			}
			h.Hear(s.since(now), s.since(back), events, own, &d, &weir.Evidence{})
			s.land(back, node, client)
		})
	})
	s.at(now+weir.Instant(patience.Microseconds()), func(now weir.Instant) {
		if !landed {
			s.land(now, node, client)
		}
	})
}

// land lets those try again who waited.
func (s *leases) land(now weir.Instant, node, client int) {
	h := &s.holdings[node][client]
	if !h.flying {
		return
	}
	h.flying = false
	waiting := h.waiting
	h.waiting = nil
	for _, r := range waiting {
		s.ask(now, node, client, r)
	}
}

// take is a take of the store.
func (s *leases) take(now weir.Instant, client int, a *weir.Ask) weir.Decision {
	asks, out := []weir.Ask{*a}, []weir.Decision{s.limit.Decide(s.store[client], now, a)}
	weir.Resolve(asks, out)
	s.store[client] = s.limit.Commit(s.store[client], now, a, &out[0])
	return out[0]
}

func (s *leases) giveBack(now weir.Instant, node, client int) {
	b, worth := s.holdings[node][client].Return(s.since(now))
	if !worth {
		return
	}
	settle := func(now weir.Instant, r weir.Settlement) {
		s.send(now, node, &storewire.SettleRequest{Settlements: []weir.Settlement{r}}, func(now weir.Instant) {
			if state, err := s.limit.Settle(s.store[client], now, 0, &r); err == nil {
				s.store[client] = state
				s.say(&storewire.SettleResponse{Settlements: []weir.Settlement{r}})
				s.holdings[node][client].Returned(s.since(now))
			}
		})
	}
	if b.After == 0 {
		b.Each(func(r weir.Settlement) { settle(now, r) })
		return
	}
	s.at(now+weir.Instant(b.After.Microseconds()), func(now weir.Instant) { settle(now, b.All) })
}
