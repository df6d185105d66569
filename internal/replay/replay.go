// Package replay asks rules about the requests of an access log, on the log's
// own time, and reports what they would have done.
//
// Every rule whose keys a line has is asked, whatever the others say: one key
// path, such as path and then remote_address, is one descriptor of cost 1, and
// is asked once for each line that has all its fields. Limits of one descriptor
// are charged together or not at all, as in production.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/accesslog"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const (
	// checkEvery is how many lines are decided between two looks at the context.
	checkEvery = 1024
	// maxStates is how many states the store keeps of each rule: twice MaxKeys,
	// as it doesn't spread them quite evenly. States that it has to give up are
	// reported.
	maxStates = 2 * MaxKeys
)

// Log asks the rules of a domain, or of all when it is empty, about the lines
// of a log. The error is an *InputError when there is no such domain.
func Log(ctx context.Context, set *rules.Set, log *accesslog.Reader, domain string) (*Report, error) {
	p, err := newPlayer(set, domain)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		line, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		r, size := p.keep(line)
		p.order.Push(line.Time, size, r)
		if err := p.decideDue(ctx); err != nil {
			return nil, err
		}
	}
	p.order.End()
	if err := p.decideDue(ctx); err != nil {
		return nil, err
	}
	return p.report(log.Skipped), nil
}

// player asks the rules about one line after the other.
type player struct {
	set       *rules.Set
	store     *logStore
	limiter   *rules.Limiter
	questions []question
	fields    []accesslog.Field // that the questions are about
	tallies   []*tally          // in the order of the files
	byRule    map[*rules.Rule]*tally

	order    *accesslog.Reorder[*request]
	free     []*request // to be used again
	text     []byte     // likewise
	lines    int64
	tooLong  int64
	from, to weir.Instant
}

// request is what is kept of a line: the fields that questions are about.
type request struct {
	values [accesslog.FieldCount]string
}

// logStore is a store whose time is the log's.
type logStore struct {
	*memstore.Store

	now weir.Instant
}

// Take decides the asks at the time of the line.
func (s *logStore) Take(_ context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.TakeAt(s.now, asks, out)
}

func newPlayer(set *rules.Set, domain string) (*player, error) {
	if domain != "" && !slices.Contains(set.Domains(), domain) {
		return nil, &InputError{fmt.Errorf("the rules have no domain %q, but %q", domain, set.Domains())}
	}
	asked := slices.DeleteFunc(set.Rules(), func(r *rules.Rule) bool { return domain != "" && r.Domain != domain })
	questions, err := questionsOf(asked)
	if err != nil {
		return nil, err
	}
	store := &logStore{Store: memstore.New(memstore.Options{MaxKeys: maxStates})}
	p := &player{
		set: set, store: store, limiter: rules.NewLimiter(store, set),
		questions: questions, fields: fieldsOf(questions),
		byRule: map[*rules.Rule]*tally{}, order: accesslog.NewReorder[*request](),
	}
	room := &bounds{keys: MaxKeys, nameBytes: MaxNameBytes}
	for _, r := range asked {
		t := newTally(r, room)
		p.tallies = append(p.tallies, t)
		p.byRule[r] = t
	}
	return p, nil
}

// keep copies what questions need of a line, and says how large it is. A value
// longer than rules may be asked about is left out.
func (p *player) keep(line *accesslog.Line) (*request, int) {
	r := new(request)
	if last := len(p.free) - 1; last >= 0 {
		r, p.free = p.free[last], p.free[:last]
	}
	p.text = p.text[:0]
	for _, f := range p.fields {
		p.text = append(p.text, usable(line.Value(f))...)
	}
	rest, long := string(p.text), false
	for _, f := range p.fields {
		v := line.Value(f)
		n := len(usable(v))
		r.values[f], rest = rest[:n], rest[n:]
		long = long || n < len(v)
	}
	if long {
		p.tooLong++
	}
	return r, len(p.text)
}

// usable is v unless a door would refuse it for its length.
func usable(v []byte) []byte {
	if len(v) > rules.MaxWord {
		return nil
	}
	return v
}

// decideDue decides the lines that no older one can come before.
func (p *player) decideDue(ctx context.Context) error {
	for at, r, ok := p.order.Pop(); ok; at, r, ok = p.order.Pop() {
		if p.lines == 0 {
			p.from = at
		}
		p.lines++
		p.to, p.store.now = at, at
		for i := range p.questions {
			if err := p.ask(ctx, &p.questions[i], r); err != nil {
				return err
			}
		}
		p.free = append(p.free, r)
	}
	return nil
}

// ask asks one question about a line, if the line has all of its fields.
func (p *player) ask(ctx context.Context, q *question, r *request) error {
	if !q.fill(r) {
		return nil
	}
	d := &q.request.Descriptors[0]
	met, key := p.set.Match(q.request.Domain, d)
	if len(met) == 0 {
		return nil
	}
	if met[0].Unlimited {
		p.byRule[met[0]].count(p.store.now, weir.Allowed, key, nil)
		return nil
	}
	answer, err := p.limiter.Check(ctx, &q.request)
	if err != nil {
		return err
	}
	name := func() string { return keyName(p.set, met[0], d) }
	for i := range answer.Decisions {
		decision := &answer.Decisions[i]
		p.byRule[decision.Rule].count(p.store.now, decision.Outcome, key, name)
	}
	return nil
}

// report is what was counted.
func (p *player) report(skipped int64) *Report {
	stats := p.store.Stats()
	report := &Report{Log: LogReport{
		Lines: p.lines, Skipped: skipped, Late: p.order.Late, Early: p.order.Early,
		TooLong: p.tooLong, Forgotten: stats.Evicted + stats.Overflow,
	}}
	if p.lines > 0 {
		report.Log.From, report.Log.To = new(Time(p.from)), new(Time(p.to))
	}
	for _, t := range p.tallies {
		report.Rules = append(report.Rules, t.report())
	}
	return report
}
