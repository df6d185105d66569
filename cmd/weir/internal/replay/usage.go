package replay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
	"github.com/weir-limit/weir/rules"
)

// MaxRecords is how many records of a usage log are held, to be put in order.
const MaxRecords = 4 << 20

// UsageReport is what was read of a usage log.
type UsageReport struct {
	Records    int64 // each once
	Copies     int64 // that came again
	Foreign    int64 // lines that are no records
	Keyless    int64 // requests of keys that were counted together, which no rule was asked about
	Impossible int64 // requests whose cost is not known, likewise
	Unmatched  int64 // records of rules that the file has not
}

// RunUsage replays a usage log, and writes the report to out. read calls its argument with each line
// of the log. The error is as that of Run.
func RunUsage(ctx context.Context, o Options, read func(context.Context, func(line []byte) error) error, out io.Writer) error {
	q, err := o.question()
	if err != nil {
		return err
	}
	p, err := newUsagePlayer(q)
	if err != nil {
		return err
	}
	if err := read(ctx, p.read); err != nil {
		return err
	}
	if err := p.play(ctx); err != nil {
		return err
	}
	report := p.report()
	if o.JSON {
		err = report.WriteJSON(out)
	} else {
		err = report.WriteText(out)
	}
	if err == nil && p.usage.Records == 0 {
		err = &accesslog.InputError{Err: fmt.Errorf("the usage log has no record, and %d lines that are none", p.usage.Foreign)}
	}
	return err
}

// usagePlayer asks rules again about what a usage log tells. A record names a rule, and not what its
// requests said: so those of a rule go to the rules of the same descriptor, which its name tells
// without what stands behind #.
type usagePlayer struct {
	limits  map[descriptor][]*tally // that have a rule in the file
	tallies []*tally                // in the order of the file
	keys    map[counted]*usageKey
	seen    map[row]struct{}  // what came already
	selves  map[string]string // NODE/INCARNATION, each once in memory
	usage   UsageReport

	asked, passed int64
	from, to      weir.Instant
}

type descriptor struct{ domain, name string }

func descriptorOf(domain, rule string) descriptor {
	name, _, _ := strings.Cut(rule, "#")
	return descriptor{domain, name}
}

// part is an interval of a process, and row a record of it.
type part struct {
	self     string // NODE/INCARNATION
	interval int
}

type row struct {
	part

	number int
}

type counted struct {
	descriptor

	key string
}

// usageKey is what the log tells of a key.
type usageKey struct {
	spans []span
	// at is the index of the span of an interval. The limits of a descriptor are asked about the same
	// requests, so only the first of them by name counts.
	at map[part]int
}

// span is the requests of a key in an interval.
type span struct {
	from, to weir.Instant
	rule     string
	requests int64
	events   int64
	done     int64 // requests that were asked about
}

// at is when the next request came, if they came evenly.
func (s *span) at() weir.Instant {
	return s.from + weir.Instant(share(int64(s.to-s.from), s.done, s.requests))
}

// share is length × part / whole, whose product may be too large.
func share(length, part, whole int64) int64 {
	return length/whole*part + length%whole*part/whole
}

// cost is that of the next request, if they cost the same.
func (s *span) cost() int64 {
	cost := s.events / s.requests
	if s.done < s.events%s.requests {
		cost++
	}
	return cost
}

func newUsagePlayer(q Question) (*usagePlayer, error) {
	if q.Domain != "" && !slices.Contains(q.Rules.Domains(), q.Domain) {
		return nil, &accesslog.InputError{Err: fmt.Errorf("the rules have no domain %q, but %q", q.Domain, q.Rules.Domains())}
	}
	p := &usagePlayer{limits: map[descriptor][]*tally{}, keys: map[counted]*usageKey{}, seen: map[row]struct{}{}, selves: map[string]string{}}
	room := &bounds{keys: MaxKeys, nameBytes: MaxNameBytes}
	for _, r := range q.Rules.Rules() {
		if q.Domain != "" && r.Domain != q.Domain {
			continue
		}
		t, at := newTally(r, room), descriptorOf(r.Domain, r.Name)
		p.tallies = append(p.tallies, t)
		p.limits[at] = append(p.limits[at], t)
	}
	return p, nil
}

// read takes a line of the log.
func (p *usagePlayer) read(line []byte) error {
	r, err := usagelog.ParseRecord(line)
	if err != nil {
		p.usage.Foreign++
		return nil //nolint:nilerr // it is counted
	}
	id, ok := p.row(r.ID)
	if !ok {
		p.usage.Foreign++
		return nil
	}
	if _, copied := p.seen[id]; copied {
		p.usage.Copies++
		return nil
	}
	p.seen[id] = struct{}{}
	if p.usage.Records++; p.usage.Records > MaxRecords {
		return &accesslog.InputError{Err: fmt.Errorf("the usage log has more than %d records; replay a part of it", MaxRecords)}
	}
	p.add(&r, id.part)
	return nil
}

// row reads the id of a record.
func (p *usagePlayer) row(id string) (r row, ok bool) {
	words := strings.Split(id, "/")
	self := words[0] + "/" + words[1]
	if _, known := p.selves[self]; !known {
		p.selves[self] = self
	}
	r.self = p.selves[self]
	var bad, odd error
	r.interval, bad = strconv.Atoi(words[2])
	r.number, odd = strconv.Atoi(words[3])
	return r, bad == nil && odd == nil
}

// add keeps what a record tells, if rules are to be asked about it.
func (p *usagePlayer) add(r *usagelog.Record, in part) {
	of := descriptorOf(r.Domain, r.Rule)
	switch {
	case p.limits[of] == nil:
		p.usage.Unmatched++
		return
	case r.Other:
		p.usage.Keyless += r.Allowed + r.Denied
		return
	}
	p.usage.Impossible += r.Impossible
	if r.Allowed+r.Denied == 0 {
		return
	}
	whose := counted{of, r.Key}
	k := p.keys[whose]
	if k == nil {
		k = &usageKey{at: map[part]int{}}
		p.keys[whose] = k
	}
	s := span{
		from: weir.InstantOf(r.From), to: weir.InstantOf(r.To), rule: r.Rule,
		requests: r.Allowed + r.Denied, events: r.AllowedEvents + r.DeniedEvents,
	}
	if i, ok := k.at[in]; ok {
		switch before := &k.spans[i]; {
		case before.rule == r.Rule: // one of them is of the time when it was in shadow
			before.requests, before.events = before.requests+s.requests, before.events+s.events
		case r.Rule < before.rule:
			*before = s
		}
		return
	}
	k.at[in] = len(k.spans)
	k.spans = append(k.spans, s)
}

// play asks about all that was read, key by key.
func (p *usagePlayer) play(ctx context.Context) error {
	for of, k := range p.keys {
		if err := p.playKey(ctx, of, k); err != nil {
			return err
		}
	}
	return nil
}

// playKey asks about the requests of a key in the order of their times. Those of several nodes are
// asked by turns. A single record may tell of any number of requests.
func (p *usagePlayer) playKey(ctx context.Context, of counted, k *usageKey) error {
	slices.SortStableFunc(k.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	tallies := p.limits[of.descriptor]
	states := make([]weir.State, len(tallies))
	var open []*span
	for next := 0; next < len(k.spans) || len(open) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var first *span
		for _, s := range open {
			if first == nil || s.at() < first.at() {
				first = s
			}
		}
		if next < len(k.spans) && (first == nil || k.spans[next].from <= first.at()) {
			open, next = append(open, &k.spans[next]), next+1
			continue
		}
		p.ask(tallies, states, of.key, first)
		if first.done++; first.done == first.requests {
			open = slices.DeleteFunc(open, func(s *span) bool { return s == first })
		}
	}
	return nil
}

// ask asks the limits of a descriptor about the next request of a span, together.
func (p *usagePlayer) ask(tallies []*tally, states []weir.State, key string, s *span) {
	now, cost := s.at(), s.cost()
	asks, out := make([]weir.Ask, 0, len(tallies)), make([]weir.Decision, len(tallies))
	if p.asked == 0 || now < p.from {
		p.from = now
	}
	p.to = max(p.to, now)
	p.asked++
	if rule := tallies[0].rule; rule.Unlimited {
		tallies[0].count(now, weir.Allowed, key)
		p.passed++
		return
	}
	for i, t := range tallies {
		asks = append(asks, t.rule.Ask(key, costOf(t.rule, cost)))
		out[i] = asks[i].Limit.Decide(states[i], now, &asks[i])
	}
	if weir.Resolve(asks, out) {
		p.passed++
	}
	for i, t := range tallies {
		states[i] = asks[i].Limit.Commit(states[i], now, &asks[i], &out[i])
		t.count(now, out[i].Outcome, key)
		if out[i].Outcome == weir.Denied {
			t.first = min(t.first, now) // keys are not in the order of their times
		}
	}
}

// costOf is what a rule is asked for when a request costs so much.
func costOf(r *rules.Rule, cost int64) int64 {
	if r.After {
		return min(cost, weir.MaxCount+1)
	}
	return weir.AskedCost(cost)
}

// report is what was counted.
func (p *usagePlayer) report() *Report {
	report := &Report{Log: LogReport{Lines: p.asked, Skipped: p.usage.Foreign, Passed: new(p.passed), Usage: &p.usage}}
	for _, t := range p.tallies {
		report.Rules = append(report.Rules, t.report())
	}
	if p.asked > 0 {
		report.Log.From, report.Log.To = new(Time(p.from)), new(Time(p.to))
	}
	return report
}

// write says what was read, and what rules were not asked about.
func (u *UsageReport) write(b *strings.Builder, l *LogReport) {
	fmt.Fprintf(b, "%s read: %s", many(u.Records, "record"), many(l.Lines, "request"))
	if l.From != nil {
		fmt.Fprintf(b, ", from %v to %v", l.From, l.To)
	}
	fmt.Fprintf(b, "; %d passed, %d were kept out\n", *l.Passed, l.Lines-*l.Passed)
	for _, note := range []struct {
		n    int64
		what string
	}{
		{u.Copies, "records that came again, and count once"},
		{u.Foreign, "lines that are no records"},
		{u.Unmatched, "records of rules that the file does not have"},
		{u.Keyless, "requests of keys that were counted together, which no rule was asked about"},
		{u.Impossible, "requests that cost more than their limit can pass, which no rule was asked about"},
	} {
		if note.n > 0 {
			fmt.Fprintf(b, "%s: %d\n", note.what, note.n)
		}
	}
}
