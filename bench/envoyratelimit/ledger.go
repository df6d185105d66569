package main

import (
	"maps"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// ledger keeps why the counts of the two servers went apart.
type ledger struct {
	apart  map[string]reasons         // by Weir's key
	owners map[string]map[string]bool // Weir's keys, by envoyproxy/ratelimit's
}

// meets remembers which counts of Weir's share one of envoyproxy/ratelimit's.
func (l *ledger) meets(p *peer, pa, oa []ask, now int64) {
	for i := range pa {
		if !pa[i].limited {
			continue
		}
		slot := p.slot(&pa[i], now)
		if l.owners[slot] == nil {
			l.owners[slot] = map[string]bool{}
		}
		l.owners[slot][oa[i].key] = true
		if pa[i].place != oa[i].place {
			l.owners[slot][""] = true // it counts for another rule here, or for none
		}
	}
}

// before is why the count of a pair of asks may already differ, or will before
// it is its turn.
func (l *ledger) before(p *peer, o *ours, pa, oa *ask, now int64) reasons {
	why := reasons{}
	if pa.limited != oa.limited || pa.place != oa.place {
		why["D9"] = true
	}
	if !pa.limited || !oa.limited {
		return why
	}
	if owners := l.owners[p.slot(pa, now)]; len(owners) > 1 {
		why.add(shared(owners))
	}
	if p.used(pa, now) == o.used(oa, now) {
		delete(l.apart, oa.key)
	}
	why.add(l.apart[oa.key])
	return why
}

func shared(owners map[string]bool) reasons {
	why := reasons{}
	for key := range owners {
		switch {
		case key == "":
			why["D9"] = true
		case strings.HasPrefix(key, "#"):
			why["D10"] = true
		}
	}
	if len(why) == 0 {
		why["D8"] = true
	}
	return why
}

// during is why a request itself may be answered and charged differently.
func during(i int, asks []ask, totals map[string]*total, ours answer) reasons {
	why := reasons{}
	a := &asks[i]
	if !a.limited {
		return why
	}
	denied := totals[a.key].denied
	why["D1"] = denied
	why["D2"] = !denied && ours.Code == rls.RateLimitResponse_OVER_LIMIT
	why["D3"] = a.hits == 0 && ours.Code == rls.RateLimitResponse_OK
	why["D4"] = denied
	why["D5"] = ours.Statuses[i].Reset == 1
	for j := range asks {
		b := &asks[j]
		why["D7"] = why["D7"] || j != i && b.limited && b.key == a.key
		why["D6"] = why["D6"] || b.limited && totals[b.key].huge
	}
	maps.DeleteFunc(why, func(_ string, yes bool) bool { return !yes })
	return why
}

// after remembers why the count of a pair of asks went apart.
func (l *ledger) after(p *peer, o *ours, pa, oa *ask, why reasons, now int64) {
	met := pa.limited && oa.limited && pa.place == oa.place
	if !oa.limited || met && p.used(pa, now) == o.used(oa, now) {
		return
	}
	if l.apart[oa.key] == nil {
		l.apart[oa.key] = reasons{}
	}
	l.apart[oa.key].add(why)
	for _, passing := range []string{"D3", "D4", "D5"} {
		delete(l.apart[oa.key], passing) // they are of one answer alone
	}
}
