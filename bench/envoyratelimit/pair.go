package main

import (
	"context"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// pair is the two models at work on one rule file, beside the two servers.
type pair struct {
	file   *ruleFile
	peer   peer
	ours   ours
	ledger ledger
}

func newPair(f *ruleFile) *pair {
	return &pair{
		file: f, peer: peer{map[string]uint64{}}, ours: ours{map[string]window{}},
		ledger: ledger{map[string]reasons{}, map[string]map[string]bool{}},
	}
}

// expected is what both should answer, and why they may differ.
type expected struct {
	peer, ours answer
	whole      reasons
	each       []reasons // by descriptor
}

// expect carries out a request in both models.
func (p *pair) expect(q *rls.RateLimitRequest, now int64, json bool) expected {
	refused := refusal(q)
	e := expected{whole: reasons{}, each: make([]reasons, len(q.GetDescriptors()))}
	pa, oa := asksOf(p.file, q, joinedNaming()), asksOf(p.file, q, apartNaming())
	totals := p.ours.totals(oa, now)
	p.ledger.meets(&p.peer, pa, oa, now)
	for i := range pa {
		e.each[i] = p.ledger.before(&p.peer, &p.ours, &pa[i], &oa[i], now)
	}
	if unasked(q) {
		e.peer = answer{Err: errorKind("Unknown", json)}
	} else {
		e.peer = p.peer.answer(pa, now)
		e.peer.Metadata = metadataOf(pa, e.peer)
	}
	if refused != "" {
		e.whole[refused] = true
		e.ours = answer{Err: errorKind("InvalidArgument", json)}
	} else {
		e.ours = p.ours.answer(oa, now)
		e.ours.Metadata = metadataOf(oa, e.ours)
	}
	for i := range pa {
		if refused == "" {
			e.each[i].add(during(i, oa, totals, e.ours))
		} else {
			e.each[i][refused] = true
		}
		p.ledger.after(&p.peer, &p.ours, &pa[i], &oa[i], e.each[i], now)
		e.whole.add(e.each[i])
	}
	return e
}

// errorKind is the code of a gRPC error, or what stands for it in HTTP.
func errorKind(code string, json bool) string {
	if json {
		return "400"
	}
	return code
}

// calm waits until the second has long enough to go for a call to both, so that
// the windows of both end between calls; it gives the second.
func calm() int64 {
	const first, last = 20 * time.Millisecond, 850 * time.Millisecond
	for {
		into := time.Duration(time.Now().Nanosecond())
		switch {
		case into < first:
			time.Sleep(first - into)
		case into > last:
			time.Sleep(time.Second - into)
		default:
			return time.Now().Unix()
		}
	}
}

// verdict is what came of one request.
type verdict struct {
	known   map[string]int // differences, by class
	unknown []string
	skipped bool // the second ended during the call
}

// ask sends a request to both, and judges the answers.
func (p *pair) ask(ctx context.Context, s *servers, q *rls.RateLimitRequest, json bool) (verdict, error) {
	v := verdict{known: map[string]int{}}
	now := calm()
	a, err := s.peer.ask(ctx, q, json)
	if err != nil {
		return v, err
	}
	b, err := s.ours.ask(ctx, q, json)
	if err != nil {
		return v, err
	}
	if v.skipped = time.Now().Unix() != now; v.skipped {
		return v, nil
	}
	e := p.expect(q, now, json)
	e.peer.Metadata = a.Metadata // it leaks from one answer into others
	for _, d := range differences(e.peer, a) {
		v.unknown = append(v.unknown, "envoyproxy/ratelimit is not as this program models it: "+d.say("model", "server"))
	}
	for _, d := range differences(e.ours, b) {
		v.unknown = append(v.unknown, "Weir is not as docs/envoy.md says: "+d.say("model", "server"))
	}
	for _, d := range differences(a, b) {
		why := e.whole
		if d.Descriptor >= 0 {
			why = e.each[d.Descriptor]
		}
		names := why.of(d.Field)
		for _, name := range names {
			v.known[name]++
		}
		if len(names) == 0 {
			v.unknown = append(v.unknown, "not in docs/envoy.md: "+d.say("envoyproxy/ratelimit", "Weir"))
		}
	}
	return v, nil
}
