package main

import (
	"math"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// seconds is how long Envoy's units are.
func seconds(u rls.RateLimitResponse_RateLimit_Unit) int64 {
	const day = 24 * 60 * 60
	return map[rls.RateLimitResponse_RateLimit_Unit]int64{
		rls.RateLimitResponse_RateLimit_SECOND: 1,
		rls.RateLimitResponse_RateLimit_MINUTE: 60,
		rls.RateLimitResponse_RateLimit_HOUR:   60 * 60,
		rls.RateLimitResponse_RateLimit_DAY:    day,
		rls.RateLimitResponse_RateLimit_WEEK:   7 * day,
		rls.RateLimitResponse_RateLimit_MONTH:  30 * day,
		rls.RateLimitResponse_RateLimit_YEAR:   365 * day,
	}[u]
}

// ask is a descriptor of a request, and the limit that it meets.
type ask struct {
	place     *descriptor // nil for an override, or when nothing is met
	limited   bool
	override  bool
	unlimited bool
	shadow    bool
	quota     bool
	name      string
	unit      rls.RateLimitResponse_RateLimit_Unit
	count     uint32
	hits      uint64
	key       string // of the count
}

// asksOf are what a request meets by the rules of one server.
func asksOf(f *ruleFile, q *rls.RateLimitRequest, by naming) []ask {
	all := make([]ask, len(q.Descriptors))
	if f.domain != q.GetDomain() {
		return all
	}
	replaced := map[string]bool{}
	for i, in := range q.Descriptors {
		a := &all[i]
		a.hits = max(uint64(q.GetHitsAddend()), 1)
		if own := in.GetHitsAddend(); own != nil {
			a.hits = own.GetValue()
		}
		if l := in.GetLimit(); l != nil {
			a.limited, a.override, a.key = true, true, by.override(f, in)
			a.unit, a.count = rls.RateLimitResponse_RateLimit_Unit(l.GetUnit()), l.GetRequestsPerUnit()
			continue
		}
		a.place, a.key = by.match(f, in.GetEntries())
		a.meet(replaced)
	}
	for i := range all {
		if a := &all[i]; a.limited && a.name != "" && replaced[a.name] {
			a.limited = false
		}
	}
	return all
}

// meet takes over what the place of a says.
func (a *ask) meet(replaced map[string]bool) {
	if a.place == nil || a.place.limit == nil {
		return
	}
	l := a.place.limit
	for _, name := range l.replaces {
		replaced[name] = true
	}
	a.unlimited, a.limited = l.unlimited, !l.unlimited
	a.name, a.count, a.unit = l.name, l.count, unitNamed(l.unit)
	a.shadow, a.quota = a.place.shadow, a.place.quota
}

// unitNamed is a unit as rule files write it.
func unitNamed(text string) rls.RateLimitResponse_RateLimit_Unit {
	return rls.RateLimitResponse_RateLimit_Unit(rls.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(text)])
}

// plain is the status of a descriptor without a limit.
func (a *ask) plain() status {
	s := status{Code: rls.RateLimitResponse_OK}
	if a.unlimited {
		s.Remaining = math.MaxUint32
	}
	return s
}

// of is a status that tells the limit of a.
func (a *ask) of() status {
	return status{Code: rls.RateLimitResponse_OK, Limited: true, Name: a.name, Unit: a.unit, Count: a.count}
}

// left is the seconds until the window of a ends.
func (a *ask) left(now int64) int64 {
	unit := seconds(a.unit)
	return unit - now%unit
}

// overall is the code of an answer: over limit when an enforced limit is over,
// or all that have quota_mode are.
func overall(asks []ask, statuses []status) rls.RateLimitResponse_Code {
	quotas, over := 0, 0
	for i := range asks {
		denied := statuses[i].Code == rls.RateLimitResponse_OVER_LIMIT
		switch {
		case !asks[i].limited:
		case asks[i].quota:
			if quotas++; denied {
				over++
			}
		case denied:
			return rls.RateLimitResponse_OVER_LIMIT
		}
	}
	if quotas > 0 && quotas == over {
		return rls.RateLimitResponse_OVER_LIMIT
	}
	return rls.RateLimitResponse_OK
}

// saturating is a+b, at most the largest.
func saturating(a, b uint64) uint64 {
	if b > math.MaxUint64-a {
		return math.MaxUint64
	}
	return a + b
}
