package main

import (
	"maps"
	"slices"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// class is a known difference. Its rule is the line that docs/envoy.md has.
type class struct {
	ID   string `json:"id"`
	Rule string `json:"rule"`
	Seen int    `json:"seen"`
	name string
}

// known are the differences that docs/envoy.md lists.
func known() []class {
	return []class{
		{ID: "D?", name: "refused", Rule: "a refused request is charged there, and not here"},
		{ID: "D?", name: "shadow", Rule: "what a shadow limit would refuse is charged there, and not here"},
		{ID: "D?", name: "quota", Rule: "what a quota limit refuses is charged there, and not here"},
		{ID: "D?", name: "same", Rule: "descriptors that meet the same count are charged one by one there, and added up here"},
		{ID: "D?", name: "joined", Rule: "key and value are joined by _ there, and apart here"},
		{ID: "D?", name: "override", Rule: "an override shares its count with rules and other overrides there, and has its own here"},
		{ID: "D?", name: "huge", Rule: "hits_addend over 2^30 is counted there, and over any limit here"},
		{ID: "D?", name: "fresh", Rule: "duration_until_reset of an unused limit is the rest of the window there, and 1 s here"},
		{ID: "D?", name: "errors", Rule: "bad requests are UNKNOWN there, and INVALID_ARGUMENT here"},
		{ID: "D?", name: "empty", Rule: "descriptors without entries and empty keys pass there, and are refused here"},
		{ID: "D?", name: "sizes", Rule: "requests of any size are taken there, and up to a bound here"},
		{ID: "D?", name: "twice", Rule: "of a key that stands twice in a mapping the last counts there; the file is refused here"},
		{ID: "D?", name: "name", Rule: "name of a descriptor may be anything there, where it has no effect; here it is a text"},
		{ID: "D?", name: "idle", Rule: "what stands at a key that has no effect where it is, is looked at there, and not here"},
		{ID: "D?", name: "float", Rule: "numbers with a fraction, times, and tags that don't fit are refused there, wherever they stand; they are read as texts, or as nothing, here"},
		{ID: "D?", name: "indent", Rule: "a file whose first line stands further right than the rest is that line alone there; it is refused here"},
		{ID: "D?", name: "metadata", Rule: "metadata gets lost there when the rule's statistics have another name, and leaks into later answers; here each answer has that of its rules"},
		{ID: "D?", name: "method", Rule: "/json takes any method there, and POST here"},
		{ID: "D?", name: "health", Rule: "gRPC's health service knows the rate limit service by its full name here, too"},
		{ID: "D?", name: "crash", Rule: "an override without a unit ends the process there; it is INVALID_ARGUMENT here"},
	}
}

// knownOpinion is the difference for which only one accepts a rule file.
func knownOpinion(peer, ours opinion) string {
	switch {
	case ours.refused && strings.Contains(ours.text, "error: duplicate key "):
		return "twice"
	case ours.refused && strings.Contains(ours.text, "expected <document start>"):
		return "indent"
	case ours.refused && strings.Contains(ours.text, "name is a text"):
		return "name"
	case peer.refused && strings.Contains(ours.text, " has no effect in "):
		return "idle"
	case peer.refused && (strings.Contains(peer.text, ": error checking config") || strings.Contains(peer.text, "yaml: cannot decode")):
		return "float"
	}
	return ""
}

// reasons are why two answers may differ, by name.
type reasons map[string]bool

func (r reasons) add(more reasons) { maps.Copy(r, more) }

// of are those of the reasons that explain a difference in a field.
func (r reasons) of(field string) []string {
	switch field {
	case "error":
		return r.only("errors", "sizes", "empty")
	case "name", "unit", "requests_per_unit", "current_limit":
		return r.only("joined")
	case "duration_until_reset":
		if r["fresh"] {
			return []string{"fresh"}
		}
	case "metadata":
		return []string{"metadata"}
	}
	return r.only("joined", "refused", "shadow", "quota", "same", "huge", "override")
}

func (r reasons) only(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !r[name] })
}

// refusal is how Weir refuses a request, or nothing.
func refusal(q *rls.RateLimitRequest) string {
	if q.GetDomain() == "" || len(q.GetDescriptors()) == 0 {
		return "errors"
	}
	if len(q.GetDescriptors()) > 100 {
		return "sizes"
	}
	for _, d := range q.GetDescriptors() {
		if len(d.GetEntries()) == 0 {
			return "empty"
		}
		if len(d.GetEntries()) > 16 {
			return "sizes"
		}
	}
	for _, d := range q.GetDescriptors() {
		for _, e := range d.GetEntries() {
			if e.GetKey() == "" {
				return "empty"
			}
			if len(e.GetKey()) > 4096 || len(e.GetValue()) > 4096 {
				return "sizes"
			}
		}
	}
	return ""
}

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
		why["joined"] = true
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
	for key := range owners {
		if strings.HasPrefix(key, "#") {
			return reasons{"override": true}
		}
	}
	return reasons{"joined": true}
}

// during is why a request itself may be answered and charged differently.
func during(i int, asks []ask, totals map[string]*total, ours answer) reasons {
	why := reasons{}
	a := &asks[i]
	if !a.limited {
		return why
	}
	t := totals[a.key]
	why["refused"] = ours.Code == rls.RateLimitResponse_OVER_LIMIT
	why["shadow"] = t.denied && a.shadow
	why["quota"] = t.denied && a.quota
	why["fresh"] = ours.Statuses[i].Reset == 1
	for j := range asks {
		b := &asks[j]
		why["same"] = why["same"] || j != i && b.limited && b.key == a.key
		why["huge"] = why["huge"] || b.limited && totals[b.key].huge
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
	delete(l.apart[oa.key], "fresh")
}
