package replay

import (
	"fmt"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/accesslog"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// maxStates is how many states the store keeps of each rule: twice MaxKeys, as
// it doesn't spread them quite evenly. States that it has to give up are reported.
const maxStates = 2 * MaxKeys

// judge asks the rules of one set about one request after the other.
type judge struct {
	set       *rules.Set
	store     *memstore.Store
	questions []question
	tallies   []*tally                 // in the order of the files
	groups    map[*rules.Rule][]*tally // of a descriptor, by its first rule

	asks []weir.Ask // to be used again
	out  []weir.Decision
	// denied are the counts that kept the last request out.
	denied []denial
}

// denial is a rule, and its key by number.
type denial struct {
	tally *tally
	key   int
}

// newJudge asks the rules of a domain, or of all when it is empty. The error is
// an *InputError when there is no such domain.
func newJudge(set *rules.Set, domain string) (*judge, error) {
	if domain != "" && !slices.Contains(set.Domains(), domain) {
		return nil, &InputError{fmt.Errorf("the rules have no domain %q, but %q", domain, set.Domains())}
	}
	asked := slices.DeleteFunc(set.Rules(), func(r *rules.Rule) bool { return domain != "" && r.Domain != domain })
	questions, err := questionsOf(asked)
	if err != nil {
		return nil, err
	}
	j := &judge{
		set: set, store: memstore.New(memstore.Options{MaxKeys: maxStates}),
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

// decide asks all questions about a request. It passes when no enforced rule
// denies it; j.denied are those that do.
func (j *judge) decide(now weir.Instant, r *request) error {
	j.denied = j.denied[:0]
	for i := range j.questions {
		q := &j.questions[i]
		if !q.fill(r) {
			continue
		}
		if err := j.ask(now, q, r.cost); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) passed() bool { return len(j.denied) == 0 }

func (j *judge) ask(now weir.Instant, q *question, cost int64) error {
	met, key := j.set.Match(q.domain, &q.descriptor)
	if len(met) == 0 {
		return nil
	}
	tallies := j.talliesOf(met)
	if met[0].Unlimited {
		tallies[0].count(now, weir.Allowed, key)
		return nil
	}
	j.asks = j.asks[:0]
	for _, rule := range met {
		j.asks = append(j.asks, rule.Ask(key, cost))
	}
	j.out = slices.Grow(j.out[:0], len(met))[:len(met)]
	if err := j.store.TakeAt(now, j.asks, j.out); err != nil {
		return err
	}
	for i, t := range tallies {
		o := j.out[i].Outcome
		n := t.count(now, o, key)
		if o == weir.Allowed {
			continue
		}
		if n >= 0 && !t.counts[n].named {
			t.counts[n].named = true
			t.name(key, string(met[0].AppendKeyName(nil, q.descriptor.Entries)))
		}
		a := &j.asks[i]
		if idle := a.Shadow || a.Quota && weir.QuotaPasses(j.asks, j.out); !idle {
			j.denied = append(j.denied, denial{t, n})
		}
	}
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
