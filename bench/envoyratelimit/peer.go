package main

import (
	"math"
	"strconv"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// peer is the model of envoyproxy/ratelimit: counts that every call adds to,
// descriptor by descriptor, whatever the answer.
type peer struct {
	counts map[string]uint64 // by key and beginning of the window; units don't matter
}

func (p *peer) slot(a *ask, now int64) string {
	return a.key + "@" + strconv.FormatInt(now-now%seconds(a.unit), 10)
}

func (p *peer) used(a *ask, now int64) uint64 { return p.counts[p.slot(a, now)] }

// answer adds to the counts and says what the server should.
func (p *peer) answer(asks []ask, now int64) answer {
	out := answer{Statuses: make([]status, len(asks))}
	for i := range asks {
		a := &asks[i]
		if !a.limited {
			out.Statuses[i] = a.plain()
			continue
		}
		slot := p.slot(a, now)
		p.counts[slot] = saturating(p.counts[slot], a.hits)
		s := a.of()
		s.Reset = a.left(now)
		if used := p.counts[slot]; used <= uint64(a.count) {
			s.Remaining = uint32(uint64(a.count) - used)
		} else if !a.shadow {
			s.Code = rls.RateLimitResponse_OVER_LIMIT
		}
		out.Statuses[i] = s
	}
	out.Code = overall(asks, out.Statuses)
	return out
}

// ours is the model of Weir: what docs/envoy.md and the contract promise. All
// enforced limits allow and are charged, or none is.
type ours struct {
	counts map[string]window
}

// window is a count, and when its window began.
type window struct {
	begin int64
	used  uint64
}

// maxHits is what one descriptor may cost; more is over any limit.
const maxHits = 1 << 30

// total is what the descriptors of a request ask of one count.
type total struct {
	hits   uint64
	huge   bool
	denied bool
}

func (o *ours) used(a *ask, now int64) uint64 {
	if w := o.counts[a.key]; w.begin == now-now%seconds(a.unit) {
		return w.used
	}
	return 0
}

// answer charges and says what the server should.
func (o *ours) answer(asks []ask, now int64) answer {
	totals := o.totals(asks, now)
	out := answer{Statuses: make([]status, len(asks))}
	for i := range asks {
		if a := &asks[i]; a.limited && totals[a.key].denied && !a.shadow {
			out.Statuses[i].Code = rls.RateLimitResponse_OVER_LIMIT
		}
	}
	out.Code = overall(asks, out.Statuses)
	if out.Code == rls.RateLimitResponse_OK {
		o.charge(asks, totals, now)
	}
	for i := range asks {
		a, s := &asks[i], &out.Statuses[i]
		if !a.limited {
			*s = a.plain()
			continue
		}
		code := s.Code
		*s = a.of()
		if s.Code = code; code == rls.RateLimitResponse_UNKNOWN {
			s.Code = rls.RateLimitResponse_OK
		}
		o.describe(a, totals[a.key], s, now)
	}
	return out
}

func (o *ours) totals(asks []ask, now int64) map[string]*total {
	totals := map[string]*total{}
	for i := range asks {
		a := &asks[i]
		if !a.limited {
			continue
		}
		t := totals[a.key]
		if t == nil {
			t = new(total)
			totals[a.key] = t
		}
		t.hits = saturating(t.hits, a.hits)
		t.huge = t.huge || a.hits > maxHits
		t.denied = t.huge || saturating(o.used(a, now), t.hits) > uint64(a.count)
	}
	return totals
}

func (o *ours) charge(asks []ask, totals map[string]*total, now int64) {
	for i := range asks {
		if a := &asks[i]; a.limited && !totals[a.key].denied && a.hits > 0 {
			o.counts[a.key] = window{now - now%seconds(a.unit), o.used(a, now) + a.hits}
		}
	}
}

// describe fills in what is left, and for how long it stays so.
func (o *ours) describe(a *ask, t *total, s *status, now int64) {
	used := o.used(a, now)
	s.Remaining = uint32(min(uint64(a.count)-min(used, uint64(a.count)), math.MaxUint32))
	impossible := t.huge || t.hits > uint64(a.count)
	s.Reset = 1
	if used > 0 || t.denied && !impossible {
		s.Reset = a.left(now)
	}
}
