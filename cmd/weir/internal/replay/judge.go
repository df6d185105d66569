package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// maxStates is how many states the store keeps of each rule: twice MaxKeys, as
// it doesn't spread them quite evenly. States that it has to give up are reported.
const maxStates = 2 * MaxKeys

// judge asks the rules of one set about one line after the other, as a daemon does:
// what a domain asks about a line is one request, whose limits pass together or not
// at all.
type judge struct {
	set       *rules.Set
	store     *atLog
	limiter   *rules.Limiter
	questions []question               // those of a domain stand together
	tallies   []*tally                 // in the order of the files
	groups    map[*rules.Rule][]*tally // of a descriptor, by its first rule

	request rules.Request // to be used again
	answer  rules.Answer
	filled  []*question // its descriptors
	passed  bool        // the last line
	// denied are the counts that kept the last line out.
	denied []denial
}

// atLog is a store whose clock is the log.
type atLog struct {
	*memstore.Store

	now weir.Instant
}

func (s *atLog) Take(_ context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.TakeAt(s.now, asks, out)
}

// denial is a rule, and its key by number.
type denial struct {
	tally *tally
	key   int
}

// newJudge asks the rules of a domain, or of all when it is empty. The error is
// an *accesslog.InputError when there is no such domain.
func newJudge(set *rules.Set, domain string) (*judge, error) {
	if domain != "" && !slices.Contains(set.Domains(), domain) {
		return nil, &accesslog.InputError{Err: fmt.Errorf("the rules have no domain %q, but %q", domain, set.Domains())}
	}
	asked := slices.DeleteFunc(set.Rules(), func(r *rules.Rule) bool { return domain != "" && r.Domain != domain })
	questions, err := questionsOf(asked)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(questions, func(a, b question) int { return cmp.Compare(a.domain, b.domain) })
	store := &atLog{Store: memstore.New(memstore.Options{MaxKeys: maxStates})}
	j := &judge{
		set: set, store: store, limiter: rules.NewLimiter(store, set),
		questions: questions, groups: map[*rules.Rule][]*tally{},
	}
	room := &bounds{keys: MaxKeys, nameBytes: MaxNameBytes}
	for _, r := range asked {
		j.tallies = append(j.tallies, newTally(r, room))
	}
	return j, nil
}

// look tells the judge in which order requests have their values.
func (j *judge) look(order []accesslog.Field) {
	for i := range j.questions {
		j.questions[i].look(order)
	}
}

// decide asks all questions about a line. It passes when each domain lets it;
// j.denied are the rules that do not.
func (j *judge) decide(now weir.Instant, r *request) error {
	j.store.now, j.passed, j.denied = now, true, j.denied[:0]
	for i := range j.questions {
		q := &j.questions[i]
		if len(j.filled) > 0 && (q.domain != j.request.Domain || len(j.filled) == rules.MaxDescriptors) {
			if err := j.ask(); err != nil {
				return err
			}
		}
		if !q.fill(r) {
			continue
		}
		q.descriptor.Cost = r.cost
		j.request.Domain = q.domain
		j.request.Descriptors, j.filled = append(j.request.Descriptors, q.descriptor), append(j.filled, q)
	}
	if len(j.filled) > 0 {
		return j.ask()
	}
	return nil
}

// ask asks one request, and counts what each of its rules says.
func (j *judge) ask() error {
	answer := &j.answer
	if err := j.limiter.CheckInto(context.Background(), &j.request, answer); err != nil { // in memory, where nothing waits
		return err
	}
	for _, i := range answer.Unlimited {
		met, key := j.set.Match(j.request.Domain, &j.filled[i].descriptor)
		j.talliesOf(met)[0].count(j.store.now, weir.Allowed, key)
	}
	quota := slices.ContainsFunc(answer.Decisions, func(d rules.Decision) bool { return d.Rule.QuotaMode && d.Outcome == weir.Allowed })
	var met []*rules.Rule
	var key string
	for i := range answer.Decisions {
		d := &answer.Decisions[i]
		entries := &j.filled[d.Descriptor].descriptor
		if i == 0 || d.Descriptor != answer.Decisions[i-1].Descriptor {
			met, key = j.set.Match(j.request.Domain, entries)
		}
		t := j.talliesOf(met)[slices.Index(met, d.Rule)]
		n := t.count(j.store.now, d.Outcome, key)
		if d.Outcome == weir.Allowed {
			continue
		}
		if n >= 0 && !t.counts[n].named {
			t.counts[n].named = true
			t.name(key, string(met[0].AppendKeyName(nil, entries.Entries)))
		}
		if idle := d.Rule.Shadow || d.Rule.QuotaMode && quota; !idle && !answer.Allowed {
			j.denied = append(j.denied, denial{t, n})
		}
	}
	j.passed = j.passed && answer.Allowed
	j.request.Descriptors, j.filled = j.request.Descriptors[:0], j.filled[:0]
	return nil
}

// talliesOf is the tallies of the rules of one descriptor.
func (j *judge) talliesOf(met []*rules.Rule) []*tally {
	group := j.groups[met[0]]
	if group == nil {
		for _, r := range met {
			i := slices.IndexFunc(j.tallies, func(t *tally) bool { return t.rule == r })
			group = append(group, j.tallies[i])
		}
		j.groups[met[0]] = group
	}
	return group
}

// report is what was counted for each rule.
func (j *judge) report() []RuleReport {
	var all []RuleReport
	for _, t := range j.tallies {
		all = append(all, t.report())
	}
	return all
}

// forgotten is how many states were given up.
func (j *judge) forgotten() int64 {
	stats := j.store.Stats()
	return stats.Evicted + stats.Overflow
}
